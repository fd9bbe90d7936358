"""The storage's own time of each write, the replay with it, and the bounds of an unpaced run."""

import os
import threading
import time
from collections import deque
from pathlib import Path

import numpy
import pytest
from bench_documents import MEANWHILE, SECOND, frames_document, paced_document, run_of, simulated_document
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.judge.bounds import bounds_of
from penstock.bench.judge.checks import AT_HAND, NO_STEAL, QUIET
from penstock.bench.judge.generator_checks import IN_TIME, NOT_THE_BOTTLENECK
from penstock.bench.judge.holds import alone_of, outcome_of
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.judge.waits import WaitSampler
from penstock.bench.statistics.own_time import DROPPED, own_times, replay
from penstock.model.bench.load import FramesWorkload, LoadDocument
from penstock.model.bench.runs import Meanwhile, Run, StorageWaits


def waits(*waited: tuple[float, float], **changes: object) -> StorageWaits:
    """Seconds since the first frame was due, and what had been waited until then."""
    facts = {
        "kernel_threads": True,
        "daemon_threads": None,
        "at_ns": [SECOND + round(at * SECOND) for at, _ in waited],
        "waited_ns": [round(total * SECOND) for _, total in waited],
    }
    return StorageWaits.model_validate(facts | changes)


def beside(run: Run, storage_waits: StorageWaits | None, **changes: object) -> Run:
    seen: Meanwhile = MEANWHILE.model_copy(update={"storage_waits": storage_waits} | changes)
    return run.model_copy(update={"meanwhile": seen})


def test_what_the_writer_waited_is_not_the_storages() -> None:
    found = own_times(simulated_document(0.05, waited_s=0.02), None)
    assert found is not None
    assert set(found.own_ns) == {50_000_000}
    assert found.hindered_share == pytest.approx(2 / 7)


def test_what_another_writer_waited_may_have_held_a_write_up() -> None:
    """Two writers at once: one of them waits for 30 of 100 ms, perhaps with a lock of the file system."""
    document = frames_document(due=2).model_dump()
    document["records"] = {
        "offered_ns": [0, 0],
        "start_ns": [0, 50_000_000],
        "done_ns": [100_000_000, 150_000_000],
        "waited_ns": [30_000_000, 0],
    }
    found = own_times(LoadDocument.model_validate(document), None)
    assert found is not None
    assert found.own_ns.tolist() == [70_000_000, 85_000_000]
    assert found.shared_ns.tolist() == [70_000_000, 100_000_000]


def test_what_the_storages_threads_waited_is_shared_by_the_writes_under_way() -> None:
    """Two writers are in a write all the time; the storage's threads wait for 0.4 s of each second."""
    document = frames_document(due=2).model_dump()
    document["records"] = {
        "offered_ns": [0, 0],
        "start_ns": [0, 0],
        "done_ns": [SECOND, SECOND],
        "waited_ns": [0, 100_000_000],
    }
    each = [(n / 10, 0.04 * n) for n in range(11)]
    found = own_times(LoadDocument.model_validate(document), waits(*each))
    assert found is not None
    assert found.shared_ns.tolist() == pytest.approx([0.8 * SECOND, 0.7 * SECOND], rel=0.001)
    assert found.own_ns.tolist() == pytest.approx([0.5 * SECOND, 0.5 * SECOND], rel=0.001)


def test_what_the_storages_threads_waited_counts_in_the_writes_of_that_time() -> None:
    document = simulated_document(0.05)
    each = [(n / 5, min(2.0, max(0.0, (n / 5 - 10) / 5))) for n in range(151)]
    found = own_times(document, waits(*each))
    assert found is not None
    assert set(found.own_ns[:99]) == {50_000_000}
    assert found.own_ns[150] == pytest.approx(40_000_000, rel=0.01)
    assert set(found.own_ns[201:]) == {50_000_000}


def test_a_wait_between_samples_far_apart_counts_whole() -> None:
    """Nobody knows when in these 14 s it was."""
    found = own_times(simulated_document(0.05), waits((0.0, 0.0), (3.0, 0.0), (17.0, 0.03), (30.0, 0.03)))
    assert found is not None
    assert set(found.own_ns[31:169]) == {20_000_000}
    assert set(found.own_ns[:29]) | set(found.own_ns[171:]) == {50_000_000}


def test_pauses_of_ranks_at_once_count_once() -> None:
    generator = frames_document().generator
    assert generator is not None
    paused = [(SECOND, SECOND + 30_000_000), (SECOND + 10_000_000, SECOND + 40_000_000)]
    both = generator.model_copy(update={"stood_still_ns": paused})
    found = own_times(simulated_document(0.05, generator=both.model_dump()), None)
    assert found is not None
    assert found.own_ns[10] == 10_000_000


def test_a_generator_that_was_stopped_does_not_count() -> None:
    generator = frames_document().generator
    assert generator is not None
    stopped = generator.model_copy(update={"stood_still_ns": [(SECOND, SECOND + 30_000_000)]})
    found = own_times(simulated_document(0.05, generator=stopped.model_dump()), None)
    assert found is not None
    assert found.own_ns[10] == 20_000_000
    assert found.own_ns[11] == 50_000_000


def test_of_frames_that_were_not_written_the_median_stands() -> None:
    found = own_times(simulated_document([0.05, 0.06, 0.07] + [30.0] + [0.06] * 296), None)
    assert found is not None
    assert (~found.written).any()
    assert set(found.own_ns[~found.written]) == {60_000_000}


def test_nothing_is_known_where_the_kernel_reports_no_waits() -> None:
    document = simulated_document(0.05)
    assert document.records is not None
    unknown = document.records.model_copy(update={"waited_ns": [-1] * 300})
    assert own_times(document.model_copy(update={"records": unknown}), None) is None
    assert own_times(document.model_copy(update={"records": None}), None) is None


def workload_of(frames: int, rate_hz: float, writers: int, queue: int) -> FramesWorkload:
    return FramesWorkload(frames=frames, frame_bytes=1, rate_hz=rate_hz, writers=writers, buffer_frames=queue)


@given(
    st.lists(st.integers(0, 400_000_000), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 8),
)
def test_the_replay_is_a_queue_with_writers(own: list[int], writers: int, queue: int) -> None:
    """Beside a simulation of the queue by small steps of time, written by hand."""
    found = replay(workload_of(len(own), 10.0, writers, queue), 1, numpy.array(own))
    step = 100_000_000
    waiting: deque[int] = deque()
    busy: dict[int, int] = {}  # frame: its end
    expected: dict[int, int] = {}
    for frame in range(len(own)):
        now = frame * step
        while busy and min(busy.values()) <= now:  # in the order of their ends, each takes the next
            ended = min(busy, key=lambda each: busy[each])
            at = busy.pop(ended)
            if waiting:
                follower = waiting.popleft()
                busy[follower] = expected[follower] = at + own[follower]
        if len(waiting) + len(busy) >= queue:
            expected[frame] = DROPPED
        elif len(busy) < writers:
            busy[frame] = expected[frame] = now + own[frame]
        else:
            waiting.append(frame)
    while busy:
        ended = min(busy, key=lambda each: busy[each])
        at = busy.pop(ended)
        if waiting:
            follower = waiting.popleft()
            busy[follower] = expected[follower] = at + own[follower]
    assert found.tolist() == [expected[frame] for frame in range(len(own))]


def test_ranks_have_queues_of_their_own() -> None:
    """Every second frame takes a second: one of two ranks cannot keep up, the other one can."""
    own = numpy.array([10**9, 10**6] * 50)
    done = replay(workload_of(100, 10.0, 1, 4), 2, own)
    assert (done[::2] == DROPPED).any()
    assert (done[1::2] >= 0).all()


@pytest.mark.parametrize(
    ("own_s", "waited_s", "outcome", "certain"),
    [
        (0.05, 0.0, "held", None),
        (0.05, 0.03, "held", None),
        (0.05, 0.08, "disturbed", False),  # 13 frames' time of ten
        (0.2, 0.0, "not held", True),
        (0.2, 0.2, "not held", True),
        (0.105, 0.0, "not held", False),
        (0.105, 0.02, "not held", False),
    ],
)
def test_a_loss_is_charged_to_the_storage_by_its_own_time(
    own_s: float, waited_s: float, outcome: str, certain: bool | None
) -> None:
    found, shortcomings, alone = outcome_of(run_of(simulated_document(own_s, waited_s), []), 0.5)
    assert found == outcome
    assert bool(shortcomings) == (alone is not None) == (outcome != "held")
    if alone is not None:
        assert alone.certain == certain
        assert alone.hindered_share == pytest.approx(waited_s / (own_s + waited_s))


def test_a_freeze_of_the_storage_is_charged_and_one_of_its_threads_is_not() -> None:
    own = [0.01] * 100 + [2.0] + [0.01] * 199
    run = run_of(simulated_document(own), [])
    assert outcome_of(run, 0.5)[0] == "not held"
    # From 10 to 12 s a kernel thread had no processor.
    excused = beside(run, waits((0.0, 0.0), (10.0, 0.0), (12.0, 2.0), (30.0, 2.0)))
    assert outcome_of(excused, 0.5)[0] == "disturbed"


def test_waits_of_many_threads_do_not_excuse_a_freeze() -> None:
    """20 kernel threads wait for 0.1 s of each second, and have nothing to do with the storage."""
    run = run_of(simulated_document([0.01] * 100 + [2.0] + [0.01] * 199), [])
    all_s, one_s = ([(n / 10, share * n) for n in range(301)] for share in (0.2, 0.01))
    many = waits(*all_s, longest_ns=waits(*one_s).waited_ns)
    frozen = beside(run, many)
    assert outcome_of(frozen, 0.5)[0] == "not held"
    found = own_times(frozen.document, many)
    assert found is not None
    assert found.own_ns[100] == pytest.approx(1.8 * SECOND, rel=0.01)
    assert (found.shared_ns >= found.own_ns).all()
    assert outcome_of(beside(run, waits(*all_s)), 0.5)[0] == "disturbed", "of a document without the longest"


def test_what_cannot_be_seen_is_charged_on_a_quiet_machine_only() -> None:
    from bench_documents import machine

    from penstock.bench.judge.checks import frame_checks

    for busy, outcome in ((False, "not held"), (True, "disturbed")):
        document = simulated_document(0.2, machine=machine(user=30.0 if busy else 0.0))
        checks = frame_checks(document, 1e4, memory_file_system=False)
        for storage_waits in (
            None,
            waits((0.0, 0.0), (1.0, 0.0), kernel_threads=False),
            waits((0.0, 0.0), (1.0, 0.0), daemon_threads=0),
        ):
            run = beside(run_of(document, checks), storage_waits)
            assert outcome_of(run, 0.5)[0] == outcome
            assert bool(alone_of(run, 0.5).unknown) == busy


@pytest.mark.parametrize(
    ("warned", "outcome"),
    [("", "not held"), (NOT_THE_BOTTLENECK, "disturbed"), (AT_HAND, "disturbed"), (IN_TIME, "disturbed")],
)
def test_generator_that_may_have_been_the_limit_is_not_the_storage(warned: str, outcome: str) -> None:
    """The soak has too many frames for their times to be recorded, and the machine is quiet."""
    names = (QUIET, NO_STEAL, IN_TIME, AT_HAND, NOT_THE_BOTTLENECK)
    checks = [make_check(name, "warning" if name == warned else "ok", "", "", "worse") for name in names]
    run = run_of(simulated_document(0.2, records=None), checks)
    assert outcome_of(run, 0.5)[0] == outcome


def unpaced(own_s: float, waited_s: float, frames: int = 300) -> Run:
    """One writer, always in a write."""
    each = own_s + waited_s
    document = paced_document(0.0, frames, duration_s=frames * each).model_dump()
    document["records"] |= {
        "start_ns": [round(n * each * SECOND) for n in range(frames)],
        "done_ns": [round((n + 1) * each * SECOND) for n in range(frames)],
        "waited_ns": [round(waited_s * SECOND)] * frames,
    }
    return run_of(type(frames_document()).model_validate(document), [])


def test_an_unpaced_run_bounds_the_storage_from_both_sides() -> None:
    quiet = bounds_of(unpaced(0.05, 0.0))
    assert quiet is not None
    assert quiet.low == pytest.approx(20e6, rel=0.01)
    assert quiet.high == pytest.approx(20e6, rel=0.01)
    busy = bounds_of(unpaced(0.05, 0.05))
    assert busy is not None
    assert busy.low == pytest.approx(10e6, rel=0.01)
    assert busy.high == pytest.approx(20e6, rel=0.01)
    few = bounds_of(unpaced(0.05, 0.0, frames=4))
    assert few is not None
    assert few.low < 0.9 * few.measured < few.measured < 0.9 * few.high


def fake_thread(proc: Path, number: int, name: str, waited_ns: int, parent: int = 2) -> None:
    (proc / str(number)).mkdir(exist_ok=True)
    flags = 0x208040 if parent == 2 else 0x400000
    (proc / str(number) / "stat").write_text(f"{number} ({name}) S {parent} 0 0 0 -1 {flags} 0 0")
    (proc / str(number) / "schedstat").write_text(f"1 {waited_ns} 1\n")
    (proc / str(number) / "comm").write_text(f"{name}\n")


def test_the_sampler_adds_the_waits_of_kernel_threads_and_steal(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2 3 4 5 6 7 100 0 0\n")
    fake_thread(tmp_path, 10, "kworker/u4:1-kblockd", 5_000_000)
    fake_thread(tmp_path, 11, "rcu_preempt", 5_000_000)
    fake_thread(tmp_path, 12, "firefox (2)", 5_000_000, parent=1)
    fake_thread(tmp_path, 13, "kworker/1:2-events", 5_000_000)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("1:cpu:/a/b\n0::/\n")
    for group in ("a", "a/b"):
        (tmp_path / "cpu" / group).mkdir(parents=True)
        (tmp_path / "cpu" / group / "cpu.stat").write_text("nr_throttled 1\nthrottled_time 10\n")
    sampler = WaitSampler(Path("/"), tmp_path, tmp_path)
    sampler.start()
    (tmp_path / "cpu" / "a" / "cpu.stat").write_text("nr_throttled 1\nthrottled_time 3000010\n")
    names = (
        (10, "kworker/u4:1-kblockd", 2),
        (11, "rcu_preempt", 2),
        (12, "x", 1),
        (13, "kworker/1:2-vsock", 2),
    )
    for number, name, parent in names:
        fake_thread(tmp_path, number, name, 7_000_000, parent)
    (tmp_path / "stat").write_text(f"cpu 1 2 3 4 5 6 7 {100 + os.sysconf('SC_CLK_TCK')} 0 0\n")
    sampler.stop()
    found = sampler.found
    assert found.kernel_threads
    assert found.daemon_threads is None
    assert found.waited_ns[-1] == 2_000_000 + 3_000_000 + SECOND
    assert found.at_ns == sorted(found.at_ns)


def test_the_longest_wait_of_each_kind_of_thread_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WaitSampler, "_serves_fuse", lambda _, process: process.name == "20")

    def write(wait_ns: int) -> None:
        for number in (10, 11, 12):
            fake_thread(tmp_path, number, "kworker/u4:1-kblockd", (number - 9) * wait_ns)
        for number in (21, 22):
            fake_thread(tmp_path, 20, "daemon", 0, parent=1)
            (tmp_path / "20" / "task").mkdir(exist_ok=True)
            fake_thread(tmp_path / "20" / "task", number, "daemon", number * wait_ns, parent=1)

    write(0)
    sampler = WaitSampler(Path("/"), tmp_path, tmp_path)
    sampler._fuse = True
    sampler.start()
    write(1_000_000)
    sampler.stop()
    found = sampler.found
    assert found.waited_ns[-1] == (1 + 2 + 3 + 21 + 22) * 1_000_000
    assert found.longest_ns[-1] == (3 + 22) * 1_000_000


def test_the_sampler_sees_threads_of_this_machine(tmp_path: Path) -> None:
    before, files = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    sampler = WaitSampler(tmp_path)
    sampler.start()
    time.sleep(0.25)
    assert len(list(Path("/proc/self/fd").iterdir())) <= files + 1
    sampler.stop()
    sampler.stop()
    found = sampler.found
    assert threading.active_count() == before
    assert len(found.at_ns) == len(found.waited_ns) >= 2
    assert found.waited_ns == sorted(found.waited_ns)
