"""What else goes on beside a run: how it is seen, and when it excuses a storage that lost frames."""

import fcntl
import os
import threading
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from bench_documents import CONDITIONS, frames_document, machine, paced_document, run_of, step_of, verdict_of
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.bench.data.folder import BenchFolder
from penstock.bench.judge.checks import check_quiet, frame_checks
from penstock.bench.judge.conditions import check_kept, conditions_of, direct_cached, memory_below
from penstock.bench.judge.doubts import hindered_share, waiting_somewhere
from penstock.bench.judge.meanwhile import ALONE, Watch, check_alone, check_reached
from penstock.bench.run.interference import run_beside
from penstock.files.storage import Mount, find_mount
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Meanwhile, Run, Step, Verdict
from penstock.programs.beside import Repeated, Stint
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.verdicts import verdict_rows, verdict_view

BUSY: dict[str, Any] = {"machine": machine(user=20)}
CEILING_HZ = 1000.0


def meanwhile(waits_s: float | None = 0.3, moved: int = 75 * 1_003_520, **changes: Any) -> Meanwhile:
    facts: dict[str, Any] = {
        "processor_pressure_s": waits_s,
        "device": "sda1",
        "device_read_bytes": 0,
        "device_written_bytes": moved,
        "other_runs": [],
    }
    return Meanwhile.model_validate(facts | changes)


def busy_run(
    dropped: int, seen: Meanwhile | None, ceiling_hz: float | None = CEILING_HZ, **changes: Any
) -> Run:
    """At 10 Hz x 1 MB for 30 s, while others had a third of the processors."""
    document = frames_document(dropped=dropped, **(BUSY | changes))
    checks = frame_checks(document, ceiling_hz, memory_file_system=False)
    if seen is not None:
        checks += check_alone(seen, document, "rw")
    run = run_of(document, checks)
    return run.model_copy(update={"meanwhile": seen, "ceiling_hz": ceiling_hz})


def lost_at_rate(run: Run) -> Step:
    plain = step_of("rate", run.document, *run.checks)
    return plain.model_copy(update={"run": run})


def test_storage_that_is_four_times_too_slow_is_a_no_beside_other_programs() -> None:
    run = busy_run(225, meanwhile())
    assert run.validity == "warned"
    verdict = verdict_of(lost_at_rate(run))
    assert verdict.answer == "no"
    assert "225 of 300 frames were lost" in verdict.reasons[0]
    # 75 MB in 30 s; a hundredth on average may be an eighth of them somewhere.
    assert "for at most 12 % of the time" in verdict.reasons[1]
    assert "at most 2.83 MB/s of the required 10 MB/s" in verdict.reasons[1]
    assert verdict_rows(verdict)["best case"].startswith("at most 2.83 MB/s")


def told_of(verdict: Verdict) -> str:
    """On a terminal, and on its page, in one line each."""
    console = Console(width=200, record=True, file=StringIO())
    console.print(verdict_view(verdict))
    page = html_of([page_of(verdict, "x.json")])
    return console.export_text() + page


def test_what_is_needed_and_the_best_case_stand_beside_each_other_where_it_cannot_be_told() -> None:
    verdict = verdict_of(lost_at_rate(busy_run(120, meanwhile())))
    assert verdict.answer == "cannot tell"
    (told,) = (reason for reason in verdict.reasons if "may explain the loss" in reason)
    assert "at most 6.78 MB/s of the required 10 MB/s" in told
    assert verdict_rows(verdict)["best case"].startswith("at most 6.78 MB/s")
    assert told_of(verdict).count("6.78 MB/s") >= 3
    unknown = verdict_of(lost_at_rate(busy_run(225, meanwhile(waits_s=None))))
    assert "the kernel does not report" in verdict_rows(unknown)["best case"]
    assert any("best case" in reason and "required: 10 MB/s" in reason for reason in unknown.reasons)
    quiet = verdict_of(step_of("rate", frames_document(dropped=30)))
    assert "best case" not in verdict_rows(quiet)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (busy_run(120, meanwhile()), "more than half of what is needed was sustained"),
        (busy_run(225, meanwhile(waits_s=20.0)), "the rest of the time would have been enough"),
        (busy_run(225, meanwhile(waits_s=30.0)), "something waited all the time"),
        (busy_run(225, meanwhile(waits_s=None)), "the kernel does not report it"),
        (busy_run(225, None), "a document of before"),
        (busy_run(225, meanwhile(moved=10**9)), "others wrote to the device"),
        (busy_run(210, meanwhile(moved=140 * 10**6)), "a journal, or others: nobody knows"),
        (busy_run(225, meanwhile(device="")), "nobody knows who wrote to it"),
        (busy_run(225, meanwhile(other_runs=["/x/penstock-bench-1"])), "another run"),
        (busy_run(225, meanwhile(), ceiling_hz=None), "the generator's ceiling is not known"),
        (busy_run(225, meanwhile(), storage={"direct": False}), "a page cache that others fill"),
        (busy_run(225, meanwhile(), interrupted=True), "it was interrupted"),
        (busy_run(225, meanwhile(), machine=machine(user=20, steal=1)), ""),
        (busy_run(225, meanwhile(), machine=machine(user=20, softirq=16)), "interrupts took the rest"),
        (busy_run(225, meanwhile(), machine=machine(user=20, softirq=1, irq=1)), ""),
    ],
)
def test_what_others_may_explain_is_no_no(run: Run, why: str) -> None:
    verdict = verdict_of(lost_at_rate(run))
    assert verdict.answer == ("cannot tell" if why else "no"), why
    assert why == "" or any("machine quiet" in reason or ALONE in reason for reason in verdict.reasons)


class _Reader(Repeated):
    """There before the run and after it, and idle."""

    def _once(self) -> None:
        begin_s = datetime.fromisoformat(frames_document().started).timestamp() - 1
        self._is_under_way()
        self._stop.wait()
        self.stints.append(Stint(begin_s, begin_s + 60))

    def _end(self) -> None:
        pass


def test_others_are_no_part_of_what_was_to_run_beside_it() -> None:
    """A third of the processors was somebody else's: frames that were lost beside a reader are no no."""
    run = run_beside(lambda: busy_run(120, meanwhile()), _Reader)
    assert {check.name: check.outcome for check in run.checks}["background load active"] == "ok"
    verdict = verdict_of(lost_at_rate(run))
    assert verdict.answer == "cannot tell"
    assert any("machine quiet" in reason for reason in verdict.reasons)
    quiet = run_beside(lambda: busy_run(120, meanwhile(), machine=machine()), _Reader)
    assert verdict_of(lost_at_rate(quiet)).answer == "no"


@pytest.mark.parametrize(
    ("second_s", "outcome"), [(0.0, "warning"), (7.0, "warning"), (9.0, "ok"), (99.0, "ok")]
)
def test_what_the_second_load_used_is_not_somebody_elses(second_s: float, outcome: str) -> None:
    """Of 60 s of two processors 20 were used, and a fifth is nobody's excuse."""
    (check,) = check_quiet(frames_document(**BUSY), second_s)
    assert check.outcome == outcome


def test_time_that_was_stolen_or_stood_still_counts_as_waiting() -> None:
    none = meanwhile(waits_s=0.0)
    assert hindered_share(busy_run(225, none)) == 0
    run = busy_run(225, none, machine=machine(user=20, steal=3))
    assert hindered_share(run) == pytest.approx(3 / 30)
    gaps = {"longest_ns": 6 * 10**8, "sum_ns": 9 * 10**8}
    said = {"pacer_goes_first": True, "pacer_waited_ns": 0, "writers": [], "gaps": gaps}
    stood = busy_run(225, none, generator=said)
    assert hindered_share(stood) == pytest.approx(0.9 / 30)
    own = busy_run(225, none, generator=said | {"gaps": None, "pacer_waited_ns": 6 * 10**9})
    assert hindered_share(own) == pytest.approx(6 / 30), "a share of the processors that is all one is given"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=64))
def test_what_waits_on_one_processor_is_not_hidden_by_the_others(shares: list[tuple[float, float]]) -> None:
    """The kernel's average, made as it makes it: the true share is never above what is made of it."""
    busy = [max(pair) for pair in shares]
    waiting = [min(pair) for pair in shares]
    pressure = sum(w * b for w, b in zip(waiting, busy, strict=True)) / sum(busy) if sum(busy) else 0.0
    bound = waiting_somewhere(pressure, len(shares), sum(busy) / len(shares))
    assert bound >= min(1.0, sum(waiting)) - 1e-9, "of waits that are never at the same time"


@pytest.mark.parametrize(
    ("waited_s", "changes", "answer"),
    [
        (0.3, {}, "no"),
        (2.0, {}, "cannot tell"),  # ten times that is two thirds of the time
        (0.3, {"plain": False}, "cannot tell"),
        (0.3, {"memory_pressure_s": 1.0}, "cannot tell"),
        (0.3, {"memory_pressure_s": None}, "cannot tell"),
        (-1e-9, {}, "cannot tell"),
    ],
)
def test_a_plain_disk_is_judged_by_how_long_its_writers_waited(
    waited_s: float, changes: dict[str, Any], answer: str
) -> None:
    """Every processor is wanted all the time, and the writers still get one at once: it is not that."""
    writer = {"written": 75, "first_done_s": 0.0, "last_done_s": 30.0, "waited_ns": round(waited_s * 1e9)}
    said = {"pacer_goes_first": True, "pacer_waited_ns": 0, "writers": [writer], "gaps": None}
    seen = meanwhile(waits_s=30.0, **({"plain": True, "memory_pressure_s": 0.0} | changes))
    run = busy_run(225, seen, generator=said, machine=machine(user=59))
    assert verdict_of(lost_at_rate(run)).answer == answer


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
        assert Watch(tmp_path, tmp_path, tmp_path).seen().plain == expected


def test_one_loss_beyond_doubt_is_enough() -> None:
    doubtful = lost_at_rate(busy_run(30, meanwhile()))
    sure = step_of("soak", frames_document(dropped=3))
    assert verdict_of(doubtful).answer == "cannot tell"
    assert verdict_of(doubtful, sure).answer == "no"


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
            assert bool(Watch(tmp_path, tmp_path, tmp_path).seen().device) == known


def made_up(folder: Path, waits_us: int, sectors: int) -> None:
    device = folder / "8:1"
    device.mkdir(parents=True, exist_ok=True)
    (device / "stat").write_text(f" 9 9 {sectors} 9 9 9 {2 * sectors} 9 0 9 9\n")
    some = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waits_us}\n"
    for name in ("cpu", "memory"):
        (folder / name).write_text(some + "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n")


def test_the_watch_takes_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = Mount("/", "ext4", "/dev/sda1", "8:1", {})
    monkeypatch.setattr("penstock.bench.judge.meanwhile.find_mount", lambda _: mount)
    made_up(tmp_path, 1_000_000, 100)
    watch = Watch(tmp_path, tmp_path, tmp_path)
    made_up(tmp_path, 3_500_000, 150)
    seen = watch.seen()
    assert seen.processor_pressure_s == pytest.approx(2.5)
    assert (seen.device_read_bytes, seen.device_written_bytes) == (50 * 512, 100 * 512)
    assert seen.memory_pressure_s == pytest.approx(2.5)
    assert (seen.device, seen.plain) == ("8:1", False)
    (tmp_path / "cpu").write_text("damaged")
    (tmp_path / "8:1" / "stat").unlink()
    without = watch.seen()
    assert (without.processor_pressure_s, without.device, without.device_written_bytes) == (None, "", 0)


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


def test_what_looks_at_a_folder_for_a_moment_takes_it_from_nobody(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.close()
    looking = os.open(folder.path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, (looking,)).start()
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
    assert verdict_of(step_of("rate", frames_document(dropped=1), kept)).answer == "no"
