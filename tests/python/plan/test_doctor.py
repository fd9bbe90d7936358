"""`penstock doctor`: made-up machines with everything wrong and with nothing wrong, and this one."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from made_up_server import LIMITS, MENDED, NIC, RINGS, SERVER_LINKS, make_tree, server_files
from typer.testing import CliRunner, Result

from penstock import __version__
from penstock.bench.doctor import doctor as module
from penstock.bench.doctor.detector import codec_of, detector_findings
from penstock.bench.doctor.doctor import checkup_of
from penstock.bench.doctor.machine import machine_findings
from penstock.bench.doctor.software import software_findings
from penstock.cli import application
from penstock.files.sheet.file_system import Target
from penstock.files.sheet.sheet import sheet_of
from penstock.files.storage import Mount
from penstock.model.catalogue import Detector
from penstock.model.errors import PenstockError
from penstock.model.plan.checkup import Checkup, Finding, ok, problem
from penstock.model.plan.datasheet import DataSheet
from penstock.model.plan.sizing import CodecMeasurement
from penstock.model.storage import StorageFacts

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
WRONG = {
    "/proc/sys/net/core/rmem_max": "212992\n",
    "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t2097152\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
    "/proc/self/limits": LIMITS.format(files=256),
    "/proc/meminfo": "MemTotal:  1048576 kB\nSwapTotal: 0 kB\n",
}
RIGHT = MENDED | {
    "/proc/sys/net/core/rmem_max": "16777216\n",
    "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t33554432\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/proc/self/limits": LIMITS.format(files="unlimited"),
    "/proc/cpuinfo": "".join(f"processor : {n}\nmodel name : Example\nflags : fpu\n\n" for n in range(16)),
    f"{NIC}/net/eth0/queues/rx-2/x": "",
    f"{NIC}/net/eth0/queues/rx-3/x": "",
}


def sheet_with(folder: Path, files: dict[str, str], kind: str = "xfs") -> DataSheet:
    """A data sheet of the made-up server, of a file system with 1 TB free."""
    system = make_tree(folder / "root", server_files() | files, SERVER_LINKS)
    mount = Mount("/data", kind, "/dev/x", "253:1", {"rw": ""})
    sheet = sheet_of(Target(folder, mount, StorageFacts(kind, "/data", 4096)), system)
    groups = []
    for group in sheet.groups:
        facts = [
            fact.model_copy(update={"value": 10**12}) if fact.name in ("free", "size") else fact
            for fact in group.facts
        ]
        groups.append(group.model_copy(update={"facts": facts}) if group.key == "file system" else group)
    return sheet.model_copy(update={"groups": groups})


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up `ethtool`, which shows what is in this file."""
    folder = tmp_path / "tools"
    folder.mkdir()
    shown = folder / "shown"
    tool = folder / "ethtool"
    tool.write_text(f'#!/bin/sh\ntest "$*" = "-g eth0" && cat {shown}\n', encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return shown


def of(findings: Sequence[Finding], check: str) -> Finding:
    (found,) = (each for each in findings if each.check == check)
    return found


def test_a_machine_with_everything_wrong(tmp_path: Path, rings: Path) -> None:
    rings.write_text(RINGS.format(now=1024))
    found = machine_findings(sheet_with(tmp_path, WRONG, "tmpfs"))
    said = {
        each.check: each.remedy
        for each in found
        if each.outcome == "problem" and not each.check.startswith("settings")
    }
    assert said == {
        "file system": "choose a folder on a disk, such as `penstock doctor /data`",
        "memory": "penstock record --pool 256MiB, or pool_bytes: 256MiB in a configuration file",
        "huge pages": "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        "processors": "record on a machine with 4 or more; `penstock doctor --detector NAME` computes how"
        " many yours needs",
        "socket buffers": "sysctl -w net.core.rmem_max=16777216",
        "TCP window": 'sysctl -w net.ipv4.tcp_rmem="4096 131072 16777216"',
        "queues of eth0": "ethtool -L eth0 combined 4",
        "ring of eth0": "ethtool -G eth0 rx 8192",
        "open files": "ulimit -n 4096",
    }
    hints = [each.found for each in found if each.check == "settings of storage and kernel"]
    assert "md0 is resyncing (recover)" in hints, "those of describe are problems, too"
    assert of(found, "time").outcome == "unknown", "only this machine's clock can be asked"
    assert all(each.why and each.remedy for each in found if each.outcome == "problem")
    assert not checkup_of("/data", None, found).ready


def test_a_machine_with_nothing_wrong_is_ready(tmp_path: Path, rings: Path) -> None:
    rings.write_text(RINGS.format(now=4096))
    found = machine_findings(sheet_with(tmp_path, RIGHT))
    assert [each for each in found if each.outcome == "problem"] == []
    assert of(found, "network interfaces").found == "eth0 (100 Gb/s, MTU 9000)"
    assert of(found, "open files").found == "unlimited"
    assert checkup_of("/data", None, found).ready


def test_what_is_not_reported_is_unknown_and_no_problem(tmp_path: Path) -> None:
    found = machine_findings(DataSheet(path="/data", host="h", made="", groups=[], hints=[]))
    assert {each.outcome for each in found if not each.check.startswith(("settings", "file system"))} == {
        "unknown"
    }
    assert all(each.found for each in found)


def codec(bytes_per_s: float, ratio: float = 8.0, others: float = 0.0) -> CodecMeasurement:
    return CodecMeasurement(
        encoding="bslz4",
        images="simulated frames",
        ratio=ratio,
        bytes_per_s=bytes_per_s,
        frames=10,
        raw_bytes=10**9,
        processor="p",
        simulated=True,
        others_share=others,
    )


def detector(bytes_per_s: float) -> Detector:
    shape = {"rows": 1000, "columns": 500, "type": "uint16"}
    return Detector.model_validate({"name": "X", "rate_hz": bytes_per_s / 1e6, **shape})


@pytest.mark.parametrize(
    ("gigabytes_per_s", "measured", "problems"),
    [
        (0.5, codec(1e9), {}),
        (1.0, codec(5e7), {"processors for bslz4": "22 processors are needed, 16 are available"}),
        (
            20.0,
            codec(2e9),
            {
                "link for the detector": "the fastest interface carries 11.9 GB/s",
                "buffer": "the default pool of 1 GiB holds 53.7 ms of the detector's data",
                "space for the detector": "1 TB hold 7 min of the X compressed 8 times",
            },
        ),
    ],
)
def test_a_machine_is_held_against_a_detector(
    tmp_path: Path, gigabytes_per_s: float, measured: CodecMeasurement, problems: dict[str, str]
) -> None:
    """It has 16 processors, 100 Gb/s, 270 GB of memory and 1 TB of free space."""
    sheet = sheet_with(tmp_path, RIGHT)
    found = detector_findings(sheet, detector(gigabytes_per_s * 1e9), "bslz4", measured)
    assert {each.check: each.found for each in found if each.outcome == "problem"} == problems


def test_remedies_have_the_numbers(tmp_path: Path) -> None:
    sheet = sheet_with(tmp_path, RIGHT)
    found = detector_findings(sheet, detector(4e9), "bslz4", codec(1e9, others=0.5))
    assert of(found, "buffer").remedy == (
        "penstock record --pool 8GiB, or pool_bytes: 8GiB in a configuration file"
    )
    assert of(found, "processors for bslz4").found == (
        "4 compression threads at 1 GB/s each, measured on simulated frames while other programs used 50 % of"
        " the processors, and 2 to receive and write: penstock record --threads 4"
    )
    small = sheet_with(tmp_path / "small", RIGHT | {"/proc/meminfo": "MemTotal: 4194304 kB\n"})
    assert "add memory" in of(detector_findings(small, detector(4e9), "bslz4", codec(1e9)), "buffer").remedy


def test_frames_that_a_detector_compresses_need_neither_threads_nor_the_raw_rate(tmp_path: Path) -> None:
    """20 GB/s are more than the link of 100 Gb/s takes, and than 16 processors compress."""
    ratios = {"low": 2, "typical": 8, "high": 9, "basis": "published", "source": "s"}
    sends = {"sends": "bslz4", "compression": ratios}
    compressing = Detector.model_validate(detector(20e9).model_dump() | sends)
    assert codec_of(compressing) == "none"
    assert codec_of(detector(20e9)) == "bslz4"
    found = detector_findings(sheet_with(tmp_path, RIGHT), compressing, "none", None)
    assert "it sends bslz4, 2.5 GB/s with the catalogue's typical ratio of 8" in of(found, "detector").found
    assert of(found, "link for the detector").outcome == "ok"
    processors = of(found, "processors for none")
    assert processors.outcome == "ok"
    assert processors.found.startswith("0 compression threads because the detector sends bslz4")
    assert of(found, "space for the detector").found.startswith("1 TB hold 7 min")
    recompressed = detector_findings(sheet_with(tmp_path / "b", RIGHT), compressing, "bslz4", codec(5e7))
    assert of(recompressed, "processors for bslz4").outcome == "problem"


def test_without_a_codec_or_its_speed_nothing_is_made_up(tmp_path: Path) -> None:
    sheet = sheet_with(tmp_path, RIGHT)
    found = detector_findings(sheet, detector(1e9), "bslz4", None, "no space")
    assert (of(found, "processors for bslz4").outcome, of(found, "processors for bslz4").found) == (
        "unknown",
        "no space",
    )
    plain = detector_findings(sheet, detector(1e9), "none", None)
    assert of(plain, "processors for none").found.startswith("0 compression threads, and 2 to receive")
    (unrated,) = detector_findings(sheet, detector(0.0), "none", None)
    assert unrated.outcome == "unknown"


def test_programs_must_be_there_and_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    missing = of(software_findings({}), "native programs")
    assert missing.outcome == "problem"
    assert "penstock-recorder does not exist" in missing.found
    for name in ("recorder", "detector", "check", "load"):
        program = tmp_path / f"penstock-{name}"
        program.write_text(f"#!/bin/sh\necho penstock-{name} {__version__}\n", encoding="utf-8")
        program.chmod(0o755)
    assert of(software_findings({}), "native programs").outcome == "ok"
    (tmp_path / "penstock-load").write_text("#!/bin/sh\necho penstock-load 0.0.1\n", encoding="utf-8")
    other = of(software_findings({}), "native programs")
    assert other.found == f"penstock-load 0.0.1, but the package is {__version__}"
    (tmp_path / "penstock-load").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    assert "does not start" in of(software_findings({}), "native programs").found


def test_the_path_of_plug_ins_must_exist(tmp_path: Path) -> None:
    wrong = of(software_findings({"HDF5_PLUGIN_PATH": f"{tmp_path}:/nowhere"}), "plug-in path")
    assert (wrong.outcome, wrong.found) == (
        "problem",
        "HDF5_PLUGIN_PATH names /nowhere, which does not exist",
    )
    assert of(software_findings({"HDF5_PLUGIN_PATH": str(tmp_path)}), "plug-in path").outcome == "ok"
    assert of(software_findings({}), "filter plug-ins").outcome == "ok"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["doctor", *arguments], catch_exceptions=False)


def test_the_answer_comes_first_and_remedies_stand_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkup_of(
        str(tmp_path), None, [ok("a", "fine"), problem("b", "it is [bad]", "reasons", "mend --it")]
    )
    monkeypatch.setattr("penstock.cli.plan.doctor.examine", lambda *_: made)
    shown = invoke(str(tmp_path))
    assert shown.exit_code == 1
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("1 problem for recording into ")
    assert lines[2:4] == ["1. it is [bad]: reasons.", "   mend --it"]
    found = invoke(str(tmp_path), "--json")
    assert (found.exit_code, Checkup.model_validate_json(found.stdout)) == (1, made)
    ready = checkup_of(str(tmp_path), None, [ok("a", "fine")])
    monkeypatch.setattr("penstock.cli.plan.doctor.examine", lambda *_: ready)
    assert invoke(str(tmp_path)).exit_code == 0
    assert invoke(str(tmp_path)).stdout.startswith("ready for recording into ")


def test_this_machine_with_a_detector(tmp_path: Path) -> None:
    found = invoke(str(tmp_path), "--detector", "eiger2-500k", "--codec", "bslz4", "--json")
    assert found.exit_code in (0, 1), found.output
    checkup = Checkup.model_validate_json(found.stdout)
    schema = json.loads((REFERENCE / "checkup.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(found.stdout))
    assert checkup.ready == (found.exit_code == 0)
    checks = [each.check for each in checkup.findings]
    assert {"processors for bslz4", "native programs", "socket buffers", "time"} <= set(checks)
    assert "processors" not in checks, "the detector says how many it needs"
    assert (
        "at"
        in of(checkup.findings, "processors for bslz4").why
        + of(checkup.findings, "processors for bslz4").found
    )
    assert list(tmp_path.iterdir()) == []


def test_a_codec_that_cannot_be_measured_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> CodecMeasurement:
        raise PenstockError("no space for it")

    monkeypatch.setattr(module, "measure_codec", fails)
    found = json.loads(invoke(str(tmp_path), "--detector", "pilatus-6m", "--codec", "zstd", "--json").stdout)
    (speed,) = (each for each in found["findings"] if each["check"] == "processors for zstd")
    assert (speed["outcome"], speed["found"]) == ("unknown", "no space for it")


@pytest.mark.parametrize(
    ("free_bytes", "outcome"), [(10**11, "problem"), (10**13, "warning"), (10**14, "ok")]
)
def test_space_for_less_than_a_shift_is_a_warning(tmp_path: Path, free_bytes: int, outcome: str) -> None:
    """1 GB/s: 100 s, 2.8 hours, and 28 hours."""
    sheet = sheet_with(tmp_path, RIGHT)
    groups = [
        group.model_copy(
            update={
                "facts": [
                    fact.model_copy(update={"value": free_bytes}) if fact.name == "free" else fact
                    for fact in group.facts
                ]
            }
        )
        for group in sheet.groups
    ]
    sheet = sheet.model_copy(update={"groups": groups})
    found = of(detector_findings(sheet, detector(1e9), "none", None), "space for the detector")
    assert found.outcome == outcome
    if outcome == "warning":
        assert "8 hours take 28.8 TB" in found.remedy
        made = checkup_of("/data", None, [found])
        assert made.ready, "a warning is not a problem"
        assert made.warnings == [found]


def test_configuration_gives_folder_codec_and_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[object, ...]] = []

    def measures(*arguments: object) -> CodecMeasurement:
        measured.append(arguments)
        return codec(1e9)

    monkeypatch.setattr(module, "measure_codec", measures)
    folder = tmp_path / "data"
    folder.mkdir()
    config = tmp_path / "beamline.yaml"
    settings = {"folder": str(folder), "pool_bytes": "64 MiB", "codec": {"encoding": "bszstd", "level": 9}}
    config.write_text(json.dumps(settings), encoding="utf-8")
    done = invoke("--config", str(config), "--detector", "pilatus-6m", "--json")
    made = Checkup.model_validate_json(done.stdout)
    assert made.path == str(folder)
    assert (measured[0][1], measured[0][-1]) == ("bszstd", 9)
    buffer = of(made.findings, "buffer")
    assert buffer.found.startswith("the pool of 64 MiB (beamline.yaml) holds")
    assert buffer.remedy.startswith("set pool_bytes: 2GiB in beamline.yaml")
    assert made.next == [
        f"penstock verdict pilatus-6m {folder}",
        f"penstock rehearse pilatus-6m {folder} --config {config}",
    ]


def test_configuration_in_the_place_of_the_folder_is_explained(tmp_path: Path) -> None:
    config = tmp_path / "beamline.yaml"
    config.write_text("threads: 2\n", encoding="utf-8")
    refused = invoke(str(config))
    assert refused.exit_code == 2
    assert f"penstock doctor --config {config}" in " ".join(refused.stderr.split())


def test_next_steps_are_shown(tmp_path: Path) -> None:
    shown = " ".join(invoke(str(tmp_path)).stdout.split())
    assert f"penstock verdict DETECTOR {tmp_path}" in shown
    assert f"penstock rehearse DETECTOR {tmp_path}" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/nowhere"], "/nowhere does not exist"),
        (["/", "--codec", "zstd"], "--codec requires --detector"),
        (["/", "--detector", "nothing-like-it"], "unknown detector"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    found = invoke(*arguments)
    assert found.exit_code == 2
    assert words in " ".join(found.output.split())
