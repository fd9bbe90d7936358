"""From what the recorder and the sender report of their threads to what each stage did.

docs/explanation/decisions/0050-how-a-rehearsal-finds-the-narrowest-stage.md has the rules.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.model.bench.rehearsals import Stage, StageUse
from penstock.model.events import SendingWork, StageTimes, ThreadGroup

# A stage that works for so much of its time has no room for more.
BUSY = 0.8
# One that is never without work is the limit, whatever its queue looks like.
_SATURATED = 0.95
# Of a sender and a receiver together: they work in turn, and no link keeps both waiting.
_TAKING_TURNS = 1.0
# A stage that waits for so much of its time is held up.
HELD = 0.25
# A backlog in the recorder that grows by so much of what arrives: the limit is behind the receiving threads.
_GROWS = 0.05
# A smaller share is negligible.
_HARDLY = 0.05
_EVENTS_MIN = 2
# Threads that were on a processor for a smaller share of one thread's time only looked for work.
_AT_WORK = 0.1
_BEHIND = ("pen-compress", "pen-write", "pen-index")
_RECEIVERS = ("pen-receive", "ZMQbg/IO")
_QUEUE_FRAMES, _QUEUE_SEGMENTS_A_THREAD, _QUEUE_INDEX_SEGMENTS = 4096, 2, 256


@dataclass(frozen=True)
class Window:
    """What all ranks did between two events of each."""

    seconds: float
    threads: dict[str, ThreadGroup]
    """by name: differences, summed over ranks"""
    busiest: dict[str, float]
    """by name: mean share of the busiest thread, of the busiest rank"""
    queues: dict[str, tuple[float, float]]
    """by name: mean and peak depth, of all ranks together"""
    pool_bytes: int
    frames_received: int
    frames_written: int
    writing: float
    """share in which at least one segment was being written, of the busiest rank"""


def is_working(before: StageTimes, now: StageTimes) -> bool:
    """Returns whether a stage behind the receiving threads used a processor between two events of a rank.

    A thread that is blocked in a call to the storage does not.
    """
    passed_ns = now.monotonic_ns - before.monotonic_ns
    earlier = {each.name: each.running_ns + each.delayed_ns for each in before.threads}
    return any(
        each.running_ns + each.delayed_ns - earlier.get(each.name, 0) > _AT_WORK * passed_ns
        for each in now.threads
        if each.name in _BEHIND
    )


def window_of(events: Sequence[StageTimes]) -> Window | None:
    """The second half of `events`, which were reported while frames were sent; None if there are too few."""
    by_rank: dict[int, list[StageTimes]] = defaultdict(list)
    for event in events:
        by_rank[event.rank].append(event)
    parts = []
    for of_rank in by_rank.values():
        chosen = of_rank[len(of_rank) // 2 :] if len(of_rank) >= 2 * _EVENTS_MIN else of_rank
        if len(chosen) >= _EVENTS_MIN:
            parts.append(_of_rank(chosen))
    return _together(parts) if parts else None


def _of_rank(events: Sequence[StageTimes]) -> Window:
    first, last, since = events[0], events[-1], events[1:]
    seconds = (last.monotonic_ns - first.monotonic_ns) * 1e-9
    before = {each.name: each for each in first.threads}
    groups = {each.name: _difference(each, before.get(each.name)) for each in last.threads}
    names = {group.name for each in since for group in each.threads}
    return Window(
        seconds=seconds,
        threads=groups,
        busiest={name: _mean(_busiest(each, name) for each in since) for name in names},
        queues={
            name: (
                _mean(each.queues[name].mean for each in since if name in each.queues),
                max(each.queues[name].peak for each in since if name in each.queues),
            )
            for name in last.queues
        },
        pool_bytes=last.pool_bytes,
        frames_received=last.frames_received - first.frames_received,
        frames_written=last.frames_written - first.frames_written,
        writing=min(1.0, (last.writing_ns - first.writing_ns) * 1e-9 / seconds) if seconds else 0.0,
    )


def _difference(now: ThreadGroup, before: ThreadGroup | None) -> ThreadGroup:
    if before is None:
        return now
    names = [name for name in ThreadGroup.model_fields if name.endswith("_ns")]
    return now.model_copy(update={name: max(0, getattr(now, name) - getattr(before, name)) for name in names})


def _busiest(event: StageTimes, name: str) -> float:
    return max((group.busiest for group in event.threads if group.name == name), default=0.0)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _together(parts: Sequence[Window]) -> Window:
    threads: dict[str, ThreadGroup] = {}
    for part in parts:
        for name, group in part.threads.items():
            threads[name] = _sum(threads[name], group) if name in threads else group
    queues = {
        name: (
            sum(part.queues.get(name, (0.0, 0.0))[0] for part in parts),
            sum(part.queues.get(name, (0.0, 0.0))[1] for part in parts),
        )
        for name in parts[0].queues
    }
    names = {name for part in parts for name in part.busiest}
    return Window(
        seconds=max(part.seconds for part in parts),
        threads=threads,
        busiest={name: max(part.busiest.get(name, 0.0) for part in parts) for name in names},
        queues=queues,
        pool_bytes=sum(part.pool_bytes for part in parts),
        frames_received=sum(part.frames_received for part in parts),
        frames_written=sum(part.frames_written for part in parts),
        writing=max(part.writing for part in parts),
    )


def _sum(one: ThreadGroup, other: ThreadGroup) -> ThreadGroup:
    names = [name for name in ThreadGroup.model_fields if name.endswith("_ns") or name == "threads"]
    return one.model_copy(update={name: getattr(one, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class _Shares:
    """Of the time of a group of threads, without that in which they waited for their turn."""

    threads: int
    running: float = 0.0
    delayed: float = 0.0
    blocked: float = 0.0
    no_work: float = 0.0
    no_room: float = 0.0
    no_memory: float = 0.0

    @property
    def worked(self) -> float:
        return min(1.0, max(0.0, 1 - self.no_work - self.no_room - self.no_memory))


def _shares(group: ThreadGroup | None) -> _Shares:
    if group is None or group.alive_ns <= group.turn_ns:
        return _Shares(0)
    alive = group.alive_ns - group.turn_ns
    waits = group.work_ns + group.room_ns + group.memory_ns
    blocked = max(0, alive - waits - group.running_ns - group.delayed_ns)
    return _Shares(
        group.threads,
        running=min(1.0, group.running_ns / alive),
        delayed=min(1.0, group.delayed_ns / alive),
        blocked=min(1.0, blocked / alive),
        no_work=min(1.0, group.work_ns / alive),
        no_room=min(1.0, group.room_ns / alive),
        no_memory=min(1.0, group.memory_ns / alive),
    )


def _use(stage: Stage, shares: _Shares, utilisation: float, **more: object) -> StageUse:
    """With the headroom that follows from the utilisation, unless `more` has another one."""
    utilisation = min(1.0, max(0.0, utilisation))
    values: dict[str, object] = {
        "stage": stage,
        "threads": shares.threads,
        "utilisation": utilisation,
        "headroom": 1 / utilisation if utilisation > 0 else None,
        "running": shares.running,
        "delayed": shares.delayed,
        "blocked": shares.blocked,
        "no_work": shares.no_work,
        "no_room": shares.no_room,
        "no_memory": shares.no_memory,
    }
    return StageUse.model_validate(values | more)


def uses_of(work: SendingWork | None, window: Window) -> list[StageUse]:
    """Of all stages, in the order of the chain."""
    receive, compress = (
        _shares(window.threads.get("pen-receive")),
        _shares(window.threads.get("pen-compress")),
    )
    write, index = _shares(window.threads.get("pen-write")), _shares(window.threads.get("pen-index"))
    held = min(1.0, receive.no_memory + receive.no_room)
    return [
        *_sending(work, held),
        _use("receive", receive, max(window.busiest.get(name, 0.0) for name in _receivers(window))),
        _use("pool", _Shares(0), receive.no_memory, **_queue(window, "pool_bytes", window.pool_bytes)),
        _use("compress", compress, compress.worked, **_queue(window, "frames", _QUEUE_FRAMES)),
        *_writing(write, window),
        _use("index", index, index.worked, **_queue(window, "index_segments", _QUEUE_INDEX_SEGMENTS)),
    ]


def _receivers(window: Window) -> list[str]:
    return [name for name in window.busiest if name.startswith(_RECEIVERS)] or ["pen-receive"]


def _queue(window: Window, name: str, limit: float) -> dict[str, object]:
    mean, peak = window.queues.get(name, (0.0, 0.0))
    return {"queue": name, "queue_mean": mean, "queue_peak": peak, "queue_limit": float(limit)}


def _sending(work: SendingWork | None, held: float) -> list[StageUse]:
    """The network's share is that in which the sender was blocked while the recorder took what came."""
    if work is None or work.seconds <= 0:
        return []
    shares = _Shares(
        1,
        running=min(1.0, work.running / work.seconds),
        delayed=min(1.0, work.delayed / work.seconds),
        blocked=min(1.0, work.blocked / work.seconds),
        no_work=min(1.0, work.paced / work.seconds),
    )
    network = _Shares(0, blocked=max(0.0, shares.blocked - held))
    return [
        _use("sender", shares, max(work.busiest, shares.running + shares.delayed)),
        _use("network", network, network.blocked),
    ]


def _writing(shares: _Shares, window: Window) -> list[StageUse]:
    """Both are of the same threads: each has the headroom of both together.

    While one write at a time is all that the storage does, it has no more than what is left of the time in
    which nothing was written.
    """
    worked = max(shares.worked, window.writing)
    headroom = 1 / worked if worked > 0 else None
    queue = _queue(window, "segments", _QUEUE_SEGMENTS_A_THREAD * max(1, shares.threads))
    processor = min(1.0, shares.running + shares.delayed)
    # In the same share in which the threads were blocked and not on a processor.
    storage = window.writing * shares.blocked / (shares.blocked + processor) if shares.blocked else 0.0
    return [
        _use("write", shares, processor, headroom=headroom, **queue),
        _use("storage", shares, max(shares.blocked, storage), headroom=headroom, **queue),
    ]


def narrowest_of(
    uses: Sequence[StageUse], window: Window | None, in_transit: bool = False, paced: bool = True
) -> Stage | None:
    """The stage that gives out first in a step that was not sustained, or was unpaced; None: not known.

    `uses` are those of `window`; `in_transit`: the delay of arrivals grew. A recorder that is not held up
    although its backlog grows has a pool that is still filling up. An unpaced sender has no schedule to keep,
    whatever it waited for.
    """
    by_stage = {use.stage: use for use in uses}
    receive = by_stage.get("receive")
    if receive is None or window is None:
        return None
    sender = by_stage.get("sender")
    held = receive.no_memory + receive.no_room >= HELD
    punctual = paced and sender is not None and sender.no_work > _HARDLY
    stage, share = _busiest_behind(by_stage)
    behind = held or punctual or _backlog_growth(window) > _GROWS
    if share >= (BUSY if behind else _SATURATED):
        return stage
    if held:
        return "pool"
    if not punctual:
        return _in_front(sender, receive)
    # Whoever waits for the schedule is neither late nor held up; buffers of the network may hide what is.
    return _receive_or("network", receive) if in_transit else None


def index_backlog_growth(uses: Sequence[StageUse], window: Window) -> float:
    """Share of the frames that arrived and wait for the index; 0 if it has time left, or hardly any wait.

    Frames are written before they are indexed, so that their delays do not show it.
    """
    saturated = any(use.stage == "index" and use.utilisation >= _SATURATED for use in uses)
    growth = _backlog_growth(window)
    return growth if saturated and growth > _GROWS else 0.0


def _backlog_growth(window: Window) -> float:
    """Share of the frames that arrived and were not written meanwhile."""
    if not window.frames_received:
        return 0.0
    return 1 - window.frames_written / window.frames_received


def _in_front(sender: StageUse | None, receive: StageUse) -> Stage | None:
    if sender is None:
        return _receive_or(None, receive)
    if sender.utilisation + receive.utilisation >= _TAKING_TURNS:
        return "sender" if sender.utilisation > receive.utilisation else "receive"
    of_sender = sender.blocked < _HARDLY or sender.utilisation >= BUSY
    return _receive_or("sender" if of_sender else "network", receive)


def _receive_or(stage: Stage | None, receive: StageUse) -> Stage | None:
    return "receive" if receive.utilisation >= BUSY else stage


def _busiest_behind(by_stage: dict[Stage, StageUse]) -> tuple[Stage, float]:
    """And its share.

    Write and storage count together, since their threads are the same; an index that is blocked in calls
    waits for the storage as well.
    """
    shares: dict[Stage, float] = {"compress": by_stage["compress"].utilisation}
    for stage in ("write", "index"):
        use = by_stage[stage]
        worked = min(1.0, max(0.0, 1 - use.no_work - use.no_room - use.no_memory)) if use.threads else 0.0
        blocked = use.blocked >= use.running + use.delayed
        of_storage: Stage = "storage" if blocked else stage
        shares[of_storage] = max(worked, shares.get(of_storage, 0.0))
    busiest = max(shares, key=lambda each: shares[each])
    return busiest, shares[busiest]
