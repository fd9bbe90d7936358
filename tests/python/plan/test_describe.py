"""`penstock describe` on this machine's own file systems and devices."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run as RunCommand
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from penstock.bench.run import device_read
from penstock.bench.run.device_read import read_device
from penstock.bench.run.local_speed import measure_device
from penstock.cli import application
from penstock.model.errors import PenstockError
from penstock.model.plan.datasheet import DataSheet

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "datasheet.schema.json"
MIB = 1 << 20


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["describe", *arguments], catch_exceptions=False)


def valid_sheet(text: str) -> DataSheet:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return DataSheet.model_validate_json(text)


def sheet(folder: Path) -> DataSheet:
    result = invoke(str(folder), "--json")
    assert result.exit_code == 0, result.stderr
    return valid_sheet(result.stdout)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    command = ["mount", "-t", "overlay", "-o", options, "overlay", str(tmp_path / "merged")]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting an overlay needs root, and upper layers that it can work on")
    yield tmp_path / "merged"
    subprocess.run(["umount", "--lazy", str(tmp_path / "merged")], check=True)


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """On a loop device."""
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        pytest.skip("mounting an xfs needs root and xfsprogs")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(512 * MIB)  # of which little is written
    subprocess.run(["mkfs.xfs", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_of_the_tests(tmp_path: Path) -> None:
    found = sheet(tmp_path)
    file_system, room = found.group("file system"), os.statvfs(tmp_path)
    assert file_system is not None
    assert file_system.value("size") == room.f_blocks * room.f_frsize
    assert file_system.value("type") == subprocess.run(
        ["stat", "-f", "-c", "%T", str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout.strip().replace("ext2/ext3", "ext4").replace("overlayfs", "overlay")
    kernel, processors = found.group("kernel"), found.group("processors")
    assert kernel is not None
    assert kernel.value("release") == os.uname().release
    assert processors is not None
    assert processors.value("threads") == os.cpu_count()
    facts = [fact for group in found.groups for fact in group.facts]
    assert all((fact.value is None) == bool(fact.unknown) for fact in facts)
    assert all(fact.source for fact in facts)
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_memory_has_no_devices(memory: Path) -> None:
    found = sheet(memory)
    file_system, devices = found.group("file system"), found.group("devices")
    assert file_system is not None
    assert file_system.value("type") == "tmpfs"
    assert devices is not None
    assert devices.facts[0].unknown == "tmpfs is in memory"


def test_an_overlay_says_where_it_writes(overlay: Path, tmp_path: Path) -> None:
    details = sheet(overlay).group("details")
    assert details is not None
    assert details.value("write destination") == str(tmp_path / "upper")


def test_an_xfs_on_a_loop_device(xfs: Path, tmp_path: Path) -> None:
    found = sheet(xfs)
    details = found.group("details")
    assert details is not None
    assert details.value("meta-data.crc") == "1"
    (device,) = found.of_kind("device")
    assert device.value("kind") == "loop device"
    assert device.value("size") == 512 * MIB
    assert device.value("backing file") == str(tmp_path / "image")


def test_people_see_values_and_reasons(tmp_path: Path) -> None:
    file = tmp_path / "sheet.md"
    result = invoke("/dev/shm", "--markdown", str(file))
    assert result.exit_code == 0, result.stderr
    for words in ("File system", "type tmpfs", "unknown: tmpfs is in memory", "Hints"):
        assert words in one_line(result.stdout), words
    text = file.read_text(encoding="utf-8")
    assert "| type | tmpfs | /proc/self/mountinfo |" in text
    assert invoke("/dev/shm", "--markdown", str(file)).exit_code == 2
    assert file.read_text(encoding="utf-8") == text, "it is not overwritten"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent"], ["absent", "does not exist"]),
        (["/proc/version"], ["/proc/version", "not a directory"]),
        ([".", "--devices"], ["--devices", "--measure"]),
        ([".", "--measure", "--size", "huge"], ["--size", "huge"]),
        ([".", "--measure", "--size", "4MiB"], ["cannot ask for confirmation", "--yes"]),
        ([".", "--size", "4MiB"], ["--size requires --measure"]),
        (["/nosuch"], ["/nosuch", "to describe"]),
        ([".", "--markdown", "absent/x.md"], ["--markdown", "absent/x.md"]),
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
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_and_writes_nothing(tmp_path: Path) -> None:
    result = invoke(str(tmp_path), "--measure", "--size", "16MiB", "--files", "20", "--dry-run")
    assert result.exit_code == 0
    assert "16 MiB written and read" in one_line(result.stdout)
    assert "20 of 4 KiB created" in one_line(result.stdout)
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_speeds_are_measured_with_their_doubts(run: RunCommand, tmp_path: Path) -> None:
    options = ("--measure", "--size", "16MiB", "--files", "20", "--yes", "--json")
    finished = run("describe", str(tmp_path), *options)
    assert finished.returncode == 5, finished.stderr
    assert "no answer: these measurements are invalid: sequential write, sequential read" in finished.stderr
    speeds = {speed.what: speed for speed in valid_sheet(finished.stdout).speeds}
    assert set(speeds) == {"sequential write", "sequential read", "files created"}
    assert all(speed.value is not None and speed.value > 0 for speed in speeds.values())
    # 16 MiB take no second, and that is said.
    assert any("long enough (write)" in doubt for doubt in speeds["sequential write"].doubts)
    assert not any("(read)" in doubt for doubt in speeds["sequential write"].doubts)
    assert speeds["sequential write"].validity == "invalid"
    assert "20 files" in speeds["files created"].how
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A device of 20 MiB, and its number."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(20 * MIB))
    command = ["losetup", "--find", "--show", str(image)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip("a loop device needs root")
    device = Path(found.stdout.strip())
    status = device.stat()
    yield device, f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    subprocess.run(["losetup", "--detach", str(device)], check=True)


def test_a_device_is_read_to_its_end_or_its_bound(loop_device: tuple[Path, str], tmp_path: Path) -> None:
    device, number = loop_device
    before = (tmp_path / "image").read_bytes()
    assert read_device(device, number, 60, 1 << 40).bytes == 20 * MIB
    assert read_device(device, number, 60, 8 * MIB).bytes == 8 * MIB
    assert read_device(device, number, 0, 1 << 40).bytes == 0
    assert (tmp_path / "image").read_bytes() == before


def test_a_device_is_opened_for_reading_alone(
    loop_device: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel tells of the open file; the page cache is not used either."""
    seen: list[int] = []
    read = device_read._read

    def look(handle: int, *bounds: float) -> device_read.DeviceRead:
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="ascii").splitlines()
        seen.extend(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
        return read(handle, bounds[0], int(bounds[1]))

    monkeypatch.setattr(device_read, "_read", look)
    assert read_device(*loop_device, 60, 8 * MIB).bytes == 8 * MIB
    assert [flags & os.O_ACCMODE for flags in seen] == [os.O_RDONLY]
    assert seen[0] & os.O_DIRECT


def test_a_device_that_cannot_be_read_has_a_reason_in_the_sheet(
    loop_device: tuple[Path, str], tmp_path: Path
) -> None:
    device, number = loop_device
    read = measure_device(device, number, 60)
    assert read.value is not None
    assert read.value > 0
    assert "21 MB" in read.how
    absent = measure_device(tmp_path / "absent", number, 60)
    assert (absent.value, absent.validity) == (None, "invalid")
    assert "it does not exist" in absent.doubts[0]


def test_only_the_device_that_is_meant_is_read(loop_device: tuple[Path, str], tmp_path: Path) -> None:
    device, _ = loop_device
    for path in (device, tmp_path / "image"):
        with pytest.raises(PenstockError, match="is not the block device 259:77"):
            read_device(path, "259:77", 60, 1 << 40)
    with pytest.raises(PenstockError, match="cannot be read"):
        read_device(tmp_path / "absent", "259:77", 60, 1 << 40)
