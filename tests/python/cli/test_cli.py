"""The commands as typer runs them: help, usage errors, dry runs, exit codes. Of the native programs only the
recorder runs here, to try plans out."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from penstock.cli import application, words
from penstock.cli.application import COMMANDS as ALL_COMMANDS
from penstock.cli.lazy import Later, LaterGroup
from penstock.model.bench.load import LoadPlan, NullBackend, StreamWorkload
from penstock.model.errors import ExitCode, PenstockError
from penstock.programs.load import load

runner = CliRunner()
COMMANDS = (
    "init",
    "doctor",
    "record",
    "simulate",
    "detectors",
    "filters",
    "advise",
    "info",
    "check",
    "export",
    "recover",
    "verdict",
    "plan",
    "describe",
    "compare",
    "help",
    "campaign",
    "demo",
)


def invoke(*arguments: str) -> Result:
    return runner.invoke(application, list(arguments), catch_exceptions=False)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_exit_codes(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"penstock {command}" in result.output
    assert "Examples:" in result.output
    known = [text for name, text in vars(words).items() if name.startswith("EXIT_CODES")]
    assert sum(text in one_line(result.output) for text in known) == 1


def _laters() -> list[tuple[str, Later]]:
    found: list[tuple[str, Later]] = []
    for name, later in ALL_COMMANDS.items():
        if isinstance(later, LaterGroup):
            found += [(f"{name} {below}", each) for below, each in later.commands.items()]
        else:
            found.append((name, later))
    return found


@pytest.mark.parametrize(("name", "later"), _laters())
def test_help_has_every_exit_code_that_the_command_uses(name: str, later: Later) -> None:
    module, _, function = later.where.partition(":")
    source = inspect.getsource(import_module(module))
    used = {
        ExitCode[code] for code in re.findall(r"ExitCode\.([A-Z_]+)", source) if code in ExitCode.__members__
    }
    own = source[: source.index(f"def {function}(")] if f"def {function}(" in source else source
    decorators = re.findall(r"@(inspects|answers)\n", own[own.rfind("\n\n\n") :])
    used |= {ExitCode.INTERRUPTED, ExitCode.TERMINATED} if "inspects" in decorators else set()
    used |= {ExitCode.UNANSWERED} if "answers" in decorators else set()
    if name.startswith("bench ") and name != "bench clean":
        used |= {ExitCode.INVALID}
    (column,) = [each for each in words.ALL if each.line == later.exit_codes]
    assert used <= set(column.meanings), name
    assert {0, 1, 2} <= set(column.meanings)


def test_page_of_exit_codes_is_made_from_the_helps() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/reference/cli.md").read_text()
    for column in words.ALL:
        assert column.commands in page
        assert [what for what in column.meanings.values() if what not in page] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_names_of_options_are_whole_on_a_narrow_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    group: Any = typer.main.get_command(application)
    shown = invoke(name, "--help").output
    assert max(map(len, shown.partition("Examples:")[0].splitlines())) <= 80
    for option in group.commands[name].params:
        if option.param_type_name == "argument":
            continue
        for text in [*option.opts, *option.secondary_opts]:
            assert re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", shown), f"{text}\n{shown}"
    commands = invoke("--help").output
    assert re.search(rf"^  {name} +[A-Z].*[.?]$", commands, flags=re.MULTILINE), "in one line, and whole"


def test_version_and_bare_call() -> None:
    assert invoke("--version").output.startswith("penstock 0.")
    bare = invoke()
    assert all(command in bare.output for command in COMMANDS)
    assert invoke("frobnicate").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["record", "--pool", "huge", "--dry-run"], ["--pool", "huge", "what to do"]),
        (["record", "absent.yaml"], ["absent.yaml", "what to do"]),
        (["bench", "frames", "."], ["error: --rate is missing", "add --rate HZ: frame rate in Hz"]),
        (["bench", "frames"], ["error: TARGET is missing", "what to do"]),
        (["export", "s.h5"], ["error: --for is missing", "add --for xds or --for eiger"]),
        (["bench", "stream", ".", "--treads", "2"], ["unknown option --treads", "did you mean --threads?"]),
        (["bench", "imaging", ".", "--streams", "2"], ["unknown option --streams", "did you mean --jobs?"]),
        (["bench", "stream", ".", "--jobs", "2"], ["unknown option --jobs", "did you mean --threads?"]),
        (["bench", "stream", ".", "--numjobs", "2"], ["--numjobs", "did you mean --threads?"]),
        (["bench", "stream", ".", "--bs", "4k"], ["--bs", "did you mean --transfer?"]),
        (["bench", "stream", ".", "--iodepth", "4"], ["--iodepth", "did you mean --queue-depth?"]),
        (["bench", "stream", ".", "--trans", "2"], ["unknown option --trans", "did you mean --transfer?"]),
        (["info", "x.h5", "--bogus"], ["unknown option --bogus", "`penstock info --help` lists all"]),
        (["bench", "imaging", ".", "--bs", "4k"], ["--bs", "`penstock bench imaging --help` lists all"]),
        (
            ["bench", "stream", ".", "--direct"],
            ["unknown option --direct", "POSIX I/O is direct without --buffered"],
        ),
        (["bench", "uvbuffer", ".", "--duration", "2"], ["unknown option --duration", "mean --seconds?"]),
        (["bench", "stram"], ['unknown command "stram"', "`penstock bench stream`"]),
        (["vrdict"], ['unknown command "vrdict"', "`penstock verdict`"]),
        (["bench", "stream", ".", "--size"], ["--size requires a value", "add --size SIZE: "]),
        (["info", "x.h5", "--tree"], ["--tree requires a value", "--tree / the complete tree"]),
        (["verdict"], ["DETECTOR is missing", "name from `penstock detectors`", "verdict DETECTOR TARGET"]),
        (["verdict", ".", "pilatus-6m"], ['"." is a folder', "`penstock verdict DETECTOR .`"]),
        (["rehearse", "/dev", "pilatus-6m"], ['"/dev" is a folder', "`penstock rehearse DETECTOR /dev`"]),
        (["bench", "stream", ".", "extra"], ["unexpected argument: extra", "what to do"]),
        (["record", "--listen", "0.0.0.0:9900", "--dry-run"], ["token", "--token-file", "127.0.0.1"]),
        (["simulate", "no-such-detector"], ["no-such-detector", "penstock detectors"]),
        (["simulate", "custom"], ["--rows"]),
        (
            ["simulate", "custom", "--rows", "4", "--columns", "4", "--type", "float128"],
            ["float128", "uint16"],
        ),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--rate", "-3"], ["-3", "max"]),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--rate", "nan"], ["nan", "max"]),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--to", "udp://x"], ["udp://x", "tcp://"]),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--to", "files:"], ["folder"]),
        (
            ["simulate", "custom", "--rows", "4", "--columns", "4", "--to", "files:x?format=gif"],
            ["gif", "cbf"],
        ),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--encoding", "rle"], ["--encoding", "rle"]),
        (["simulate", "pilatus-6m", "--rows", "4"], ["custom"]),
        (["simulate", "custom", "--rows", "4", "--columns", "4", "--replay", "absent"], ["absent"]),
        (["info", "absent.h5"], ["absent.h5", "does not exist"]),
        (["check", "absent.h5"], ["absent.h5", "does not exist"]),
        (["check", ".", "--against", "recorded"], ["folder"]),
        (["check", "absent.h5", "--replay-memory", "-5"], ["--replay-memory", "-5"]),
        (["compare"], ["DOCUMENT is missing", "give DOCUMENT: two documents, A and B, of runs"]),
        (["attach", "s.h5", "x.pnval", "--offset", "nan"], ["--offset nan is not allowed", "-1e9 to 1e9"]),
        (["attach", "s.h5", "x.pnval", "--max-age", "inf"], ["--max-age inf is not allowed", "0 to 1e9"]),
        (["attach", "s.h5", "x.pnval", "--time", "sent"], ["--time sent is not allowed", "exposure or"]),
        (["detectors", "no-such-detector"], ["no-such-detector"]),
        (["record", "--chunk", "4x4x4x4", "--dry-run"], ["--chunk", "[4, 4, 4, 4]", "maximum of 3"]),
        (["detectors", "nosuch", "--json"], ["nosuch"]),
        (["advise", "nosuch"], ["nosuch", "penstock detectors"]),
        (["demo", "--detector", "nosuch"], ["nosuch"]),
    ],
)
def test_usage_errors_say_what_is_wrong(
    arguments: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in one_line(result.stderr), result.stderr
    assert result.stdout == ""


def test_record_dry_run_as_json_is_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "topsecret")
    path = tmp_path / "c.yaml"
    path.write_text("folder: /tmp\nsources: [{kind: tcp, listen: '0.0.0.0:9900'}]\n")
    result = invoke("record", str(path), "--pool", "2GiB", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert plan["pool_bytes"] == 2 << 30
    assert plan["folder"] == "/tmp"
    assert "topsecret" not in result.output


def test_record_refuses_a_folder_that_it_cannot_use(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for folder, word in ((file, "is a file"), (tmp_path / "nowhere", "does not exist")):
        for more in ((), ("--dry-run",)):
            result = invoke("record", "--folder", str(folder), *more)
            assert result.exit_code == 2
            assert word in one_line(result.output)


def test_encodings_that_no_detector_sends_are_refused_at_once() -> None:
    result = invoke("simulate", "eiger2-1m", "--encoding", "deflate")
    assert result.exit_code == 2
    assert "--encoding" in result.output
    assert "bslz4" in result.output


@pytest.mark.parametrize("to", ["tcp://127.0.0.1:1", "zmq://127.0.0.1:1"])
def test_what_stream_v2_has_no_name_for_goes_into_files_alone(to: str, tmp_path: Path) -> None:
    for more in ((), ("--dry-run",)):
        result = invoke("simulate", "eiger2-1m", "--encoding", "zstd", "--to", to, *more)
        assert result.exit_code == 2
        assert "not defined in Stream V2" in one_line(result.stderr)
    into = f"files:{tmp_path}?format=hdf5"
    assert invoke("simulate", "eiger2-1m", "--encoding", "zstd", "--to", into, "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("option", "words"), [("--resume", "resumes a series"), ("--no-resume", "a series starts")]
)
def test_record_dry_run_shows_resume(option: str, words: str, tmp_path: Path) -> None:
    shown = one_line(invoke("record", "--folder", str(tmp_path), option, "--dry-run").stdout)
    assert f"resume {words}" in shown


def test_record_dry_run_for_people(tmp_path: Path) -> None:
    result = invoke("record", "--folder", str(tmp_path), "--codec", "zstd", "--level", "3", "--dry-run")
    assert result.stderr == ""
    text = one_line(result.stdout)
    for word in ("listen on 127.0.0.1:9900", "zstd level 3", "1 GiB", "SIGTERM"):
        assert word in text


def test_a_dry_run_refuses_a_folder_that_takes_no_files() -> None:
    result = invoke("record", "--folder", "/proc", "--dry-run")
    assert result.exit_code == 2
    assert "cannot create files in /proc" in one_line(result.stderr)
    assert "choose another --folder" in one_line(result.stderr)


def test_a_dry_run_tells_which_frames_a_chunk_is_for(tmp_path: Path) -> None:
    shown = one_line(invoke("record", "--folder", str(tmp_path), "--chunk", "4x8x8", "--dry-run").stdout)
    assert "4 x 8 x 8 pixels of a frame of 3 dimensions; single frames for other dimensions" in shown
    plain = one_line(invoke("record", "--folder", str(tmp_path), "--chunk", "8x8", "--dry-run").stdout)
    assert "8 x 8 pixels of a frame" in plain
    assert "dimensions" not in plain


def test_simulate_dry_run() -> None:
    arguments = [
        "simulate",
        "custom",
        "--rows",
        "1000",
        "--columns",
        "500",
        "--frames",
        "200",
        "--rate",
        "50",
    ]
    text = one_line(invoke(*arguments, "--dry-run").stdout)
    for word in (
        "1000 x 500 uint16",
        "200 of 1 MB",
        "200 MB",
        "50 Hz",
        "50 MB/s",
        "4 s",
        "tcp://127.0.0.1:9900",
    ):
        assert word in text, text
    plan = json.loads(invoke(*arguments, "--dry-run", "--json", "--to", "zmq://127.0.0.1:31001").stdout)
    assert plan["to"] == {"kind": "zmq", "endpoint": "tcp://127.0.0.1:31001", "more": []}
    assert plan["rate_hz"] == 50


def test_detectors() -> None:
    listed = invoke("detectors")
    assert listed.exit_code == 0
    assert "2527" in listed.output
    one = invoke("detectors", "PILATUS 6M")
    assert "2527 rows x 2463 columns" in one_line(one.output)
    assert json.loads(invoke("detectors", "pilatus-6m", "--json").stdout)["columns"] == 2463
    assert "pilatus-6m" in json.loads(invoke("detectors", "--json").stdout)


def test_info_of_a_file_that_is_no_hdf5_fails(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_text("nothing")
    result = invoke("info", str(tmp_path / "x.h5"))
    assert result.exit_code == 1
    assert "not an HDF5 file" in result.stderr


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ('printf \'{"event": "result", "document": {\'; kill -9 $$', "was killed by SIGKILL"),
        ('printf \'{"event": "result", "document": {%2000s\\n\' x', "an event that cannot be read"),
    ],
)
def test_a_program_that_dies_in_the_middle_of_a_word_is_told_to_have_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, told: str
) -> None:
    """Nobody has to build anything again; and what it said is not shown at length."""
    program = tmp_path / "penstock-load"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    work = StreamWorkload(thread_bytes=4096, transfer_bytes=4096)
    with pytest.raises(PenstockError, match=told) as error:
        load(LoadPlan(backend=NullBackend(), workload=work), lambda _: None)
    assert len(error.value.message) < 1000


def test_absent_programs_are_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    result = invoke("record", "--folder", str(tmp_path))
    assert result.exit_code == 1
    assert "penstock-recorder does not exist" in result.stderr
    assert "make build" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"pydantic", "rich", "numpy", "h5py", "yaml"}),
        (["recover", "--help"], {"rich", "numpy", "h5py", "yaml", "penstock.model.events"}),
        (
            ["record", "--help"],
            {"rich", "numpy", "h5py", "hdf5plugin", "yaml", "lxml", "penstock.model.events"},
        ),
        (["check", "--help"], {"rich", "numpy", "h5py", "yaml", "fabio", "penstock.model.events"}),
        (["info", "--help"], {"rich", "numpy", "h5py", "yaml", "penstock.model.events"}),
        (["join", "--help"], {"rich", "numpy", "h5py", "yaml", "penstock.model.events"}),
        (["info", "absent.h5"], {"rich.table", "numpy", "h5py", "yaml", "penstock.model.events"}),
        (["check", "absent.h5"], {"rich.table", "numpy", "h5py", "yaml", "penstock.model.events"}),
        (["plan", "--help"], {"h5py", "hdf5plugin", "fabio", "matplotlib", "scipy"}),
        (
            ["bench", "frames", "--help"],
            {"h5py", "hdf5plugin", "fabio", "matplotlib", "scipy", "penstock.bench.campaign.campaigns"},
        ),
    ],
)
def test_command_loads_only_the_libraries_that_it_needs(arguments: list[str], absent: set[str]) -> None:
    program = (
        "import sys\nfrom penstock.__main__ import main\n"
        f"sys.argv = ['penstock', *{arguments!r}]\n"
        "try:\n    main()\n"
        f"finally:\n    print('loaded:', sorted({absent!r} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Usage: penstock" in ended.stdout or "absent.h5 does not exist" in ended.stderr
    assert "loaded: []" in ended.stderr


DRY_RUNS = [
    "record --folder . --pool 64MiB",
    "simulate custom --rows 4 --columns 4 --rate 1",
    "pva X --to tcp://127.0.0.1:9900",
    "collect --folder .",
    "verdict custom . --rows 9 --columns 9 --rate 1 --quick --space 1MB",
    "bench frames . --frame-size 1MB --rate 1 --seconds 1",
    "bench stream . --size 1MiB",
    "bench metadata . --items 10",
    "bench uvbuffer . --seconds 20",
    "bench network 127.0.0.1",
    "campaign pilatus-6m-rates --target . --scale 0.01",
    "describe . --measure --size 1MiB --files 1",
]


@pytest.mark.parametrize("line", DRY_RUNS)
def test_dry_run_prints_its_result_on_standard_output_alone(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*line.split(), "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    assert "error" not in result.stderr
    assert not list(tmp_path.iterdir())
    said = [each for each in result.stderr.splitlines() if not each.startswith(("note:", "warning:"))]
    assert said == []
