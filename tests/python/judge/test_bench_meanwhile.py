"""What else goes on beside a run, and how it is seen."""

import fcntl
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bench_documents import (
    CONDITIONS,
    frames_document,
    machine,
    paced_document,
    run_of,
    simulated_document,
    step_of,
    verdict_of,
)

from penstock.bench.data.folder import BenchFolder
from penstock.bench.judge.checks import check_quiet, frame_checks
from penstock.bench.judge.conditions import check_kept, conditions_of, direct_cached, memory_below
from penstock.bench.judge.meanwhile import Watch, check_alone, check_reached
from penstock.bench.run.interference import run_beside
from penstock.files.storage import Mount, find_mount
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Meanwhile, Run
from penstock.programs.beside import Repeated, Stint

BUSY: dict[str, Any] = {"machine": machine(user=20)}


def meanwhile(moved: int = 75 * 1_003_520, **changes: Any) -> Meanwhile:
    facts: dict[str, Any] = {
        "device": "sda1",
        "device_read_bytes": 0,
        "device_written_bytes": moved,
        "other_runs": [],
    }
    return Meanwhile.model_validate(facts | changes)


class _Reader(Repeated):
    """There before the run and after it, and idle."""

    def _once(self) -> None:
        begin_s = datetime.fromisoformat(frames_document().started).timestamp() - 1
        self._is_under_way()
        self._stop.wait()
        self.stints.append(Stint(begin_s, begin_s + 60))

    def _end(self) -> None:
        pass


def test_what_was_to_run_beside_it_is_not_counted_as_others() -> None:
    """A third of the processors was somebody else's: the reader was idle."""

    def run() -> Run:
        document = frames_document(**BUSY)
        return run_of(document, frame_checks(document, 1e3, memory_file_system=False))

    found = {check.name: check.outcome for check in run_beside(run, _Reader).checks}
    assert found["background load active"] == "ok"
    assert found["machine quiet"] == "warning"


@pytest.mark.parametrize(
    ("second_s", "outcome"), [(0.0, "warning"), (7.0, "warning"), (9.0, "ok"), (99.0, "ok")]
)
def test_what_the_second_load_used_is_not_somebody_elses(second_s: float, outcome: str) -> None:
    """Of 60 s of two processors 20 were used, and a fifth is nobody's excuse."""
    (check,) = check_quiet(frames_document(**BUSY), second_s)
    assert check.outcome == outcome


@pytest.mark.parametrize(
    ("name", "partition", "plain"),
    [("sda", False, True), ("nvme0n1", False, True), ("vda1", True, True), ("dm-0", False, False),
     ("md0", False, False), ("loop3", False, False), ("nbd0", False, False), ("ram0", False, False)],
)  # fmt: skip
def test_disks_that_are_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, partition: bool, plain: bool
) -> None:
    device = tmp_path / name.rstrip("1") / name if partition else tmp_path / name
    device.mkdir(parents=True)
    (device / "stat").write_text("1 " * 17)
    if partition:
        (device / "partition").write_text("1\n")
    (tmp_path / "9:9").symlink_to(device)
    for kind, expected in (("ext4", plain), ("zfs", False)):
        mount = Mount("/", kind, "x", "9:9", {})
        monkeypatch.setattr("penstock.bench.judge.meanwhile.find_mount", lambda _, found=mount: found)
        assert Watch(tmp_path, tmp_path).seen().plain == expected


def outcome(document: LoadDocument, seen: Meanwhile, options: str = "rw") -> str:
    return ", ".join(check.outcome for check in check_alone(seen, document, options))


def test_bytes_of_others_on_the_device_are_noticed() -> None:
    document = frames_document()  # 300 MB in 30 s
    assert outcome(document, meanwhile(moved=301 * 10**6)) == "ok"
    assert outcome(document, meanwhile(moved=380 * 10**6)) == "ok", "journal, folders, logs"
    assert outcome(document, meanwhile(moved=500 * 10**6)) == "warning"
    assert outcome(document, meanwhile(moved=0)) == "ok", "storage that compresses"
    reads = meanwhile(moved=301 * 10**6, device_read_bytes=200 * 10**6)
    assert outcome(document, reads) == "warning"
    assert outcome(document, meanwhile(device="")) == "", "a network's storage tells nothing"
    assert outcome(document, meanwhile(moved=600 * 10**6), "rw,data=journal") == ""
    (check,) = check_alone(meanwhile(other_runs=["/x/penstock-bench-1"]), document, "rw")
    assert (check.outcome, check.bias) == ("warning", "worse")
    assert "/x/penstock-bench-1" in check.actual


@pytest.mark.parametrize(
    ("seen", "conditions", "outcome"),
    [
        ({"moved": 301 * 10**6}, {}, "ok"),
        ({"moved": 10**6}, {}, "warning"),  # eatmydata
        ({"moved": 10**6, "device_read_bytes": 10**9}, {}, "warning"),  # a reader beside it
        ({"moved": 301 * 10**6, "device_read_bytes": 10**9}, {}, "ok"),
        ({"moved": 10**6, "device": ""}, {}, ""),
        ({"moved": 10**6}, {"file_system": "xfs"}, "warning"),
        ({"moved": 10**6}, {"file_system": "f2fs"}, ""),  # may compress
        ({"moved": 10**6}, {"mount_options": "rw,dax=always"}, ""),
        ({"moved": 10**6}, {"file_system": "xfs", "mount_options": "rw,rtdev=/dev/sdb"}, ""),
    ],
)
def test_bytes_that_the_device_never_saw_are_noticed(
    seen: dict[str, Any], conditions: dict[str, str], outcome: str
) -> None:
    where = CONDITIONS.model_copy(update=conditions)
    found = list(check_reached(meanwhile(**seen), frames_document(), where))
    assert [check.outcome for check in found] == ([outcome] if outcome else [])
    assert all(check.bias == "better" for check in found)


def test_a_device_that_does_not_count_is_not_known(tmp_path: Path) -> None:
    disk, part = tmp_path / "sda", tmp_path / "sda" / "sda1"
    (disk / "queue").mkdir(parents=True)
    part.mkdir()
    (part / "partition").write_text("1\n")
    (tmp_path / "8:1").symlink_to(part)
    mount = Mount("/", "ext4", "/dev/sda1", "8:1", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.bench.judge.meanwhile.find_mount", lambda _: mount)
        for sectors, counts, known in ((9, "1", True), (9, "0", False), (0, "1", False)):
            (part / "stat").write_text(f" 9 9 {sectors} 9 9 9 {sectors} 9 0 9 9\n")
            (disk / "queue" / "iostats").write_text(f"{counts}\n")
            assert bool(Watch(tmp_path, tmp_path).seen().device) == known


def made_up(folder: Path, sectors: int) -> None:
    device = folder / "8:1"
    device.mkdir(parents=True, exist_ok=True)
    (device / "stat").write_text(f" 9 9 {sectors} 9 9 9 {2 * sectors} 9 0 9 9\n")


def test_the_watch_takes_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = Mount("/", "ext4", "/dev/sda1", "8:1", {})
    monkeypatch.setattr("penstock.bench.judge.meanwhile.find_mount", lambda _: mount)
    monkeypatch.setattr("penstock.bench.judge.waits.find_mount", lambda _: mount)
    made_up(tmp_path, 100)
    watch = Watch(tmp_path, tmp_path)
    made_up(tmp_path, 150)
    seen = watch.seen()
    assert (seen.device_read_bytes, seen.device_written_bytes) == (50 * 512, 100 * 512)
    assert (seen.device, seen.plain) == ("8:1", False)
    assert seen.storage_waits is not None
    (tmp_path / "8:1" / "stat").unlink()
    without = Watch(tmp_path, tmp_path).seen()
    assert (without.device, without.device_written_bytes) == ("", 0)


def test_the_watch_of_this_machine(tmp_path: Path) -> None:
    seen = Watch(tmp_path).seen()
    assert seen.other_runs == []
    assert seen.device_written_bytes >= 0
    mount = find_mount(tmp_path)
    assert mount is not None
    assert bool(seen.device) == (Path("/sys/dev/block") / mount.device / "stat").exists()


def test_another_run_in_the_target_is_seen(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path) as mine:
        watch = Watch(mine.path)
        assert watch.seen().other_runs == []
        with BenchFolder.make(tmp_path) as other:
            assert Watch(mine.path).seen().other_runs == [str(other.path)]
            assert watch.seen().other_runs == [str(other.path)]
        left = BenchFolder.make(tmp_path)
        left.close()  # killed: nobody works in it
        assert watch.seen().other_runs == []
        left.remove()


def test_what_looks_at_a_folder_for_a_moment_takes_it_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.close()
    looking = os.open(folder.path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("penstock.bench.data.folder.time.sleep", lambda _: os.close(looking))
    BenchFolder.left_at(folder.path).remove()


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """An ordinary disk, a disk of memory, and a loop device over a file."""
    for name, number in (
        ("sda1", "8:1"),
        ("ram0", "1:0"),
        ("zram1", "252:1"),
        ("nullb0", "251:0"),
        ("loop3", "7:3"),
    ):
        (tmp_path / name / "slaves").mkdir(parents=True)
        (tmp_path / number).symlink_to(tmp_path / name)
    (tmp_path / "loop3" / "loop").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "device", "found"),
    [
        ("tmpfs", "0:30", "tmpfs keeps files in memory"),
        ("ramfs", "0:31", "ramfs keeps files in memory"),
        ("ext4", "8:1", ""),
        ("xfs", "1:0", "ram0 is memory"),
        ("ext4", "252:1", "zram1 is memory"),
        ("ext4", "251:0", "nullb0 is memory"),
        ("nfs4", "0:50", ""),
    ],
)
def test_storage_that_is_memory_is_known(devices: Path, kind: str, device: str, found: str) -> None:
    assert memory_below(Mount("/mnt", kind, "x", device, {}), devices) == found


def test_a_file_in_memory_is_memory_whatever_stands_for_it(devices: Path) -> None:
    behind = devices / "loop3" / "loop" / "backing_file"
    on_loop = Mount("/mnt", "ext4", "/dev/loop3", "7:3", {})
    behind.write_text("/dev/shm\n")
    assert memory_below(on_loop, devices) == "loop3 is a file: tmpfs keeps files in memory"
    behind.write_text("/dev/shm/image (deleted)\n")
    assert memory_below(on_loop, devices) == "loop3 is a file: tmpfs keeps files in memory", "it has it still"
    behind.write_text("/not/there\n")
    assert memory_below(on_loop, devices) == ""
    behind.write_text("/not/there (deleted)\n")
    assert memory_below(on_loop, devices) == "", "the root is no memory"
    over = Mount("/", "overlay", "overlay", "0:40", {"upperdir": "/dev/shm"})
    assert memory_below(over, devices) == "tmpfs keeps files in memory"
    unseen = Mount("/", "overlay", "overlay", "0:40", {"upperdir": "/not/there"})
    assert memory_below(unseen, devices) == ""


def test_a_file_system_with_a_number_of_its_own_lies_on_what_it_was_mounted_from(devices: Path) -> None:
    """As btrfs does. Any block device of this machine stands for a disk of memory."""
    nodes = (Path("/dev", place.resolve().name) for place in Path("/sys/dev/block").glob("*:*"))
    node = next((node for node in nodes if node.is_block_device()), None)
    if node is None:
        pytest.skip("there is not a block device here")
    number = node.stat().st_rdev
    (devices / f"{os.major(number)}:{os.minor(number)}").symlink_to(devices / "ram0")
    assert memory_below(Mount("/mnt", "btrfs", str(node), "0:44", {}), devices) == "ram0 is memory"
    (devices / "ram0" / "loop").mkdir()
    (devices / "ram0" / "loop" / "dio").write_text("0\n")
    assert "whose file is cached" in direct_cached(Mount("/mnt", "btrfs", str(node), "0:44", {}), devices)
    assert memory_below(Mount("/mnt", "btrfs", "/dev/not-there", "0:44", {}), devices) == ""
    assert memory_below(Mount("/mnt", "nfs4", "server:/x", "0:44", {}), devices) == ""


def test_figures_of_memory_are_no_yes(tmp_path: Path) -> None:
    kept = check_kept(conditions_of(Path("/dev/shm")))
    assert (kept.name, kept.outcome, kept.bias) == ("storage, not memory", "warning", "better")
    assert "tmpfs" in kept.actual
    assert check_kept(CONDITIONS).outcome == "ok"
    rate = step_of("rate", frames_document(), kept)
    verdict = verdict_of(rate, step_of("full speed", paced_document(0.0, 100, duration_s=5.0)))
    assert verdict.answer == "cannot tell"
    assert any("tmpfs keeps files in memory" in reason for reason in verdict.reasons)
    assert verdict_of(step_of("rate", simulated_document(0.2), kept)).answer == "no"
