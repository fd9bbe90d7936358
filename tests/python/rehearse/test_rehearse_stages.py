"""The narrowest stage, from made-up reports of the recorder and the sender."""

import pytest

from penstock.bench.rehearse.stages import (
    Window,
    index_backlog_growth,
    is_working,
    narrowest_of,
    uses_of,
    window_of,
)
from penstock.model.bench.rehearsals import Stage, StageUse
from penstock.model.events import QueueDepth, SendingWork, StageTimes, ThreadGroup

SECOND = 1_000_000_000
GIB = 1 << 30


def group(name: str, threads: int = 1, seconds: float = 1.0, **shares: float) -> ThreadGroup:
    """Threads that have lived for `seconds` and spent these shares of it."""
    alive = round(threads * seconds * SECOND)
    times = {f"{state}_ns": round(share * alive) for state, share in shares.items() if state != "busiest"}
    return ThreadGroup(
        name=name, threads=threads, alive_ns=alive, busiest=shares.get("busiest", 0.0), **times
    )


def report(
    seconds: float, frames: int, rank: int = 0, written_share: float = 1.0, **shares: dict[str, float]
) -> StageTimes:
    """The recorder's report after `seconds`, in which its threads spent these shares from the start."""
    idle = {"work": 1.0}
    names = {"receive": 1, "compress": 2, "write": 4, "index": 1}
    return StageTimes(
        event="stages",
        rank=rank,
        monotonic_ns=round(seconds * SECOND),
        frames_received=frames,
        frames_written=round(written_share * frames),
        pool_bytes=GIB,
        threads=[
            group(f"pen-{name}", threads, seconds, **shares.get(name, idle))
            for name, threads in names.items()
        ],
        queues={"frames": QueueDepth(mean=3, peak=9)},
    )


def window(written_share: float = 1.0, **shares: dict[str, float]) -> Window:
    reports = [report(second, 100 * second, 0, written_share, **shares) for second in range(11)]
    found = window_of(reports)
    assert found is not None
    return found


def uses(work: SendingWork, **shares: dict[str, float]) -> list[StageUse]:
    return uses_of(work, window(1.0, **shares))


BLOCKED = SendingWork(seconds=10, running=1, blocked=9, busiest=0.1)
HELD = {"memory": 0.9, "running": 0.1, "busiest": 0.1}


@pytest.mark.parametrize(
    ("stage", "work", "shares"),
    [
        ("sender", SendingWork(seconds=10, running=9.5, busiest=0.95), {}),
        ("sender", SendingWork(seconds=10, running=3, delayed=6.9, blocked=0.1, busiest=0.99), {}),
        ("network", BLOCKED, {"receive": {"running": 0.2, "busiest": 0.2}}),
        ("receive", BLOCKED, {"receive": {"running": 0.97, "busiest": 0.97}}),
        (
            "receive",  # on one machine, in turn with the sender
            SendingWork(seconds=10, running=2, delayed=4, blocked=4, busiest=0.6),
            {"receive": {"running": 0.3, "delayed": 0.4, "busiest": 0.7}},
        ),
        ("index", BLOCKED, {"receive": {"running": 0.7, "busiest": 0.7}, "index": {"running": 0.99}}),
        ("compress", BLOCKED, {"receive": HELD, "compress": {"running": 1.0}}),
        ("compress", BLOCKED, {"receive": HELD, "compress": {"running": 0.6, "delayed": 0.35, "work": 0.05}}),
        ("storage", BLOCKED, {"receive": HELD, "compress": {"room": 0.9, "running": 0.1}, "write": {}}),
        (
            "write",
            BLOCKED,
            {"receive": HELD, "compress": {"room": 0.9, "running": 0.1}, "write": {"running": 1}},
        ),
        (
            "write",
            BLOCKED,
            {"receive": HELD, "compress": {"room": 0.9}, "write": {"turn": 0.75, "running": 0.24}},
        ),
        (
            "index",
            BLOCKED,
            {"receive": HELD, "compress": {"room": 1.0}, "write": {"room": 0.98}, "index": {"running": 0.99}},
        ),
        (
            "storage",  # HDF5's own writes are blocked as well
            BLOCKED,
            {"receive": HELD, "compress": {"room": 1.0}, "write": {"room": 0.5}, "index": {"running": 0.02}},
        ),
        (
            "pool",
            BLOCKED,
            {
                "receive": HELD,
                "compress": {"work": 0.5, "running": 0.5},
                "write": {"work": 0.6, "running": 0.1},
            },
        ),
    ],
)
def test_narrowest_stage_is_named(
    stage: Stage, work: SendingWork, shares: dict[str, dict[str, float]]
) -> None:
    during = window(1.0, **shares)
    assert narrowest_of(uses_of(work, during), during) == stage


def test_stage_is_named_while_the_pool_is_still_filling_up() -> None:
    """Nobody is held up yet, and the sender keeps its schedule."""
    on_time = SendingWork(seconds=10, paced=8, running=2, busiest=0.2)
    during = window(0.7, receive={"running": 0.2}, compress={"running": 0.99})
    assert narrowest_of(uses_of(on_time, during), during) == "compress"
    idle = window(0.99, receive={"running": 0.2}, compress={"running": 0.5, "work": 0.5})
    assert narrowest_of(uses_of(on_time, idle), idle) is None
    assert narrowest_of(uses_of(on_time, idle), idle, in_transit=True) == "network"


def test_unpaced_sender_keeps_no_schedule() -> None:
    """Of very small frames, looking at the schedule alone takes a share of the sender's time."""
    busy = window(receive={"running": 0.45, "delayed": 0.45, "busiest": 0.9})
    sender = SendingWork(seconds=10, running=1.6, delayed=3.5, blocked=3.6, paced=1.3, busiest=0.5)
    assert narrowest_of(uses_of(sender, busy), busy, paced=False) == "receive"
    assert narrowest_of(uses_of(sender, busy), busy, paced=True) is None


@pytest.mark.parametrize(
    ("written_share", "running", "growth"), [(0.6, 1.0, 0.4), (0.97, 1.0, 0.0), (0.6, 0.5, 0.0)]
)
def test_frames_that_wait_for_a_busy_index_are_a_backlog(
    written_share: float, running: float, growth: float
) -> None:
    busy = window(written_share, index={"running": running, "work": 1 - running})
    assert index_backlog_growth(uses_of(BLOCKED, busy), busy) == pytest.approx(growth)


def test_headroom_follows_from_the_utilisation() -> None:
    by_stage = {use.stage: use for use in uses(BLOCKED, compress={"running": 0.25, "work": 0.75})}
    assert by_stage["compress"].utilisation == pytest.approx(0.25)
    assert by_stage["compress"].headroom == pytest.approx(4.0)
    assert by_stage["compress"].threads == 2
    assert by_stage["index"].headroom is None
    assert by_stage["compress"].queue_mean == 3


def test_waits_for_a_processor_count_as_work() -> None:
    by_stage = {
        use.stage: use for use in uses(BLOCKED, compress={"running": 0.5, "delayed": 0.4, "work": 0.1})
    }
    assert by_stage["compress"].utilisation == pytest.approx(0.9)
    assert by_stage["compress"].delayed == pytest.approx(0.4)


def test_only_the_second_half_counts() -> None:
    """While the pool fills up, nobody waits for memory."""
    filling = [report(second, 100 * second, receive={"running": 0.5}) for second in range(6)]
    full = []
    for second in range(6, 11):
        event = report(second, 100 * second, receive={"running": 0.5})
        held_ns = (second - 5) * SECOND
        receive = next(each for each in event.threads if each.name == "pen-receive")
        held = receive.model_copy(update={"memory_ns": held_ns, "running_ns": round(2.5 * SECOND)})
        full.append(event.model_copy(update={"threads": [held, *event.threads[1:]]}))
    found = window_of([*filling, *full])
    assert found is not None
    by_stage = {use.stage: use for use in uses_of(BLOCKED, found)}
    assert by_stage["receive"].no_memory == pytest.approx(1.0, abs=0.05)


def test_ranks_are_summed() -> None:
    reports = [
        report(second, 100 * second, rank, compress={"running": 1.0})
        for second in range(11)
        for rank in (0, 1)
    ]
    found = window_of(reports)
    assert found is not None
    assert found.threads["pen-compress"].threads == 4
    assert found.pool_bytes == 2 * GIB


def test_too_short_a_series_says_nothing() -> None:
    assert window_of([report(1, 10)]) is None
    assert narrowest_of([], None) is None


def test_compression_is_work_and_waiting_for_the_storage_is_not() -> None:
    """A recorder whose frames are being compressed is not stalled, though none has reached the file."""
    compressing = [report(seconds, 100, compress={"running": 0.5, "work": 0.5}) for seconds in (1, 2)]
    assert is_working(*compressing)
    delayed = [report(seconds, 100, compress={"delayed": 0.5, "work": 0.5}) for seconds in (1, 2)]
    assert is_working(*delayed)
    blocked = [report(seconds, 100, write={"running": 0.001}, compress={"room": 1.0}) for seconds in (1, 2)]
    assert not is_working(*blocked)
