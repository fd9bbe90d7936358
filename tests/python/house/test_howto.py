"""The commands of the tutorial and the how-to pages do what the pages say.

The `console` and `sh` blocks of a page run one after the other, in a folder with what they name: `data/`,
`recorder.yaml` and a recorded `series.h5`. Only the size and the ports are others. A recorder that a
`console` block starts goes on in another terminal: here until the next one starts, or the page ends. A block
that needs what is not here has a line in front that says so: `<!-- not run: needs two hosts -->`.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from ports import free_ports
from warm_command import program_in

from penstock.programs.locate import find_program

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^\n]*-->\n)?```(?P<kind>console|sh)\n(?P<text>.*?)```", re.DOTALL
)
SMALL = "custom --rows 64 --columns 96 --type uint16"
WAIT_S = 300

PRELUDE = """
set -euo pipefail
recorder=
stop() {
  [[ $recorder ]] || return 0
  kill -TERM $recorder 2> /dev/null || true
  wait $recorder || [[ $? == 143 ]]  # it was about to end by itself
  recorder=
}
start() {
  stop
  : > recorder.log
  "$@" 2> recorder.log & recorder=$!
  until grep -qE 'listening on|pulling from' recorder.log; do kill -0 $recorder; sleep 0.05; done
}
trap '[[ $? == 0 ]] || cat recorder.log >&2' EXIT
"""


def script_of(page: Path, port: int) -> str:
    """The page's blocks as one script; empty where none can run."""
    found = [block for block in BLOCK.finditer(page.read_text(encoding="utf-8")) if not block["not_run"]]
    commands = [command for block in found for command in commands_of(block["kind"], block["text"])]
    return "\n".join(adapted(command, port) for command in commands)


def commands_of(kind: str, text: str) -> list[str]:
    if kind == "sh":
        return text.replace("\\\n", " ").splitlines()
    commands = [
        line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines() if line[:2] == "$ "
    ]
    return [f"start {command}" if serves(command) else command for command in commands]


def serves(command: str) -> bool:
    return command.startswith(("penstock record ", "penstock collect ")) and not re.search(
        "--dry-run|--show-placement", command
    )


def adapted(command: str, port: int) -> str:
    """A small detector, few frames, ports that are free, and a folder that is there."""
    command = re.sub(r"(?<=penstock simulate )(?:eiger2|pilatus)-\S+", SMALL, command)
    # The soak of a real detector needs tens of gigabytes of free space, even where nothing is written.
    command = re.sub(r"(?<=penstock verdict )pilatus-\S+", f"{SMALL} --rate 25", command)
    # Nor are gigabytes free everywhere.
    command = re.sub(r"penstock (?:describe .*--measure|bench seismic-sort)", r"\g<0> --size 16MiB", command)
    frames = 50 if "--fault" in command else 20  # faults of frames that there are
    command = re.sub(r"--frames \d+", f"--frames {frames}", command)
    command = re.sub(r"(?<= )/data\b", "data", command)
    for offset, stated in enumerate(("9900", "9901", "9902", "9903", "9810", "31001", "9930", "31002")):
        command = re.sub(rf"(?<=:){stated}\b", str(port + offset), command)
    if "penstock record" in command and not re.search("--listen|--zmq", command):
        command = command.replace("penstock record", f"penstock record --listen 127.0.0.1:{port}")
    if "penstock collect" in command and "--listen" not in command:
        command = command.replace("penstock collect", f"penstock collect --listen 127.0.0.1:{port + 6}")
    if command.startswith("penstock bench network "):  # a busy machine makes the run invalid
        command = f"{{ {command}; }} || [[ $? == 4 ]]"
    if "penstock simulate" in command and "--to" not in command:
        command = command.replace("penstock simulate", f"penstock simulate --to tcp://127.0.0.1:{port}")
    return command


# They measure a storage, or wait for a server of EPICS. Each command has tests of its own that are shorter.
SLOW = {
    "compare-storages",
    "measure-a-network",
    "plan-a-storage",
    "prepare-a-machine",
    "qualify-a-storage",
    "record-from-epics",
    "run-a-campaign",
    "run-one-workload",
}
PAGES = [
    page
    for kind in ("tutorial", "how-to")
    for page in sorted((DOCS / kind).rglob("*.md"))
    if script_of(page, 0)
]


def test_a_block_that_is_not_run_hides_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = "```console\n$ {}\n```\n"
    not_run = "<!-- not run: it waits -->\n"
    page.write_text(not_run + block.format("one") + block.format("two") + not_run + block.format("three"))
    assert script_of(page, 0) == "two"


def bash(script: str, folder: Path, **more: str) -> None:
    """With a warm `penstock`, and this Python. `more` are variables; a PATH comes in front."""
    programs = folder.with_name(f"{folder.name}-programs")
    programs.mkdir()
    asking = program_in(programs)
    here = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    more["PATH"] = ":".join([*filter(None, [more.get("PATH")]), *here])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | more,
        pass_fds=[asking],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded file."""
    folder, port = tmp_path_factory.mktemp("series"), free_ports(1)
    commands = ["start penstock record --folder . --series 1"]
    commands += [f"penstock simulate {SMALL} --frames 20 --rate max --series-name series", "stop"]
    bash(PRELUDE + "\n".join(adapted(command, port) for command in commands), folder)
    return folder / "series.h5"


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem in SLOW else ()) for page in PAGES],
)
def test_the_commands_of_a_page_run(page: Path, series: Path, tmp_path: Path) -> None:
    shutil.copy(series, tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "recorder.yaml").write_text("folder: data\n")
    bash(f"{PRELUDE}\n{script_of(page, free_ports(8))}\nstop\n", tmp_path)


SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n "$SLURM_NTASKS" "$@"
"""


def test_the_job_for_slurm_records(tmp_path: Path) -> None:
    """With the launcher of Open MPI in the place of Slurm's, and one host for both ranks."""
    page = (DOCS / "how-to" / "record" / "record-under-slurm.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(bash|yaml)\n(.*?)```", page, flags=re.DOTALL)
    (configuration,) = (text for kind, text in blocks if kind == "yaml")
    job, *others = (text for kind, text in blocks if kind == "bash")
    for other in others:
        subprocess.run(["bash", "-n", "-c", other], check=True)
    for name, text in (("srun", SRUN), ("record.sbatch", job)):
        (tmp_path / name).write_text(text.replace("/shared/run42", str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "token.txt").write_text("0123456789abcdef\n")
    (tmp_path / "token.txt").chmod(0o600)
    small = {"/shared/run42": str(tmp_path), "ib0:9900": f"lo:{free_ports(2)}", "threads: 6": "threads: 1"}
    small |= {"16 GiB": "128 MiB", "resume: true": "resume: true\nseries_limit: 1"}
    for stated, here in small.items():
        assert stated in configuration
        configuration = configuration.replace(stated, here)
    (tmp_path / "recorder.yaml").write_text(configuration)
    script = f"""
    ./record.sbatch & job=$!
    until [[ -s addresses ]]; do kill -0 $job; sleep 0.1; done
    penstock simulate {SMALL} --frames 20 --rate max --to "tcp://$(cat addresses)" --token-file token.txt
    wait $job
    """
    programs = str(find_program("penstock-recorder").parent)
    bash(
        PRELUDE + script,
        tmp_path,
        SLURM_NTASKS="2",
        SLURM_CPUS_PER_TASK="1",
        HOME=str(tmp_path),
        PATH=f"{tmp_path}:{programs}",
    )
    (file,) = tmp_path.glob("*.h5")
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o600, "it holds the token"
    with h5py.File(file) as content:
        assert (content["/entry/penstock/frame_state"][...] == 1).all()
