"""Documents of runs as penstock-load writes them, without running it."""

from typing import Any

import numpy

from penstock.bench.judge.evidence import Measured
from penstock.bench.judge.holds import outcome_of
from penstock.bench.judge.verdict import judge
from penstock.bench.statistics.figures import frame_figures
from penstock.bench.statistics.own_time import replay
from penstock.model.bench.load import FramesWorkload, LoadDocument
from penstock.model.bench.runs import (
    Check,
    Conditions,
    Meanwhile,
    Run,
    Search,
    Step,
    StepKind,
    StorageWaits,
    Verdict,
)

EMPTY = {"count": 0, "max_ns": 0, "buckets": []}
SECOND = 10**9


def histogram(*values_ns: int) -> dict[str, Any]:
    ordered = sorted(values_ns)
    return {"count": len(ordered), "max_ns": ordered[-1], "buckets": [[v, v, 1] for v in ordered]}


def machine(**spent: float) -> dict[str, Any]:
    """Two processors for 30 s, of which so many processor-seconds were spent; the rest is idle."""
    kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    seconds = dict.fromkeys(kinds, 0.0) | spent
    seconds["idle"] = 60 - sum(spent.values())
    memory = {"total": 16 << 30, "available": 8 << 30}
    before = {
        "processors": 2,
        "processor_seconds": dict.fromkeys(kinds, 100.0),
        "own": {"user_s": 0.0, "system_s": 0.0},
        "memory_bytes": memory,
    }
    after = before | {"processor_seconds": {kind: 100.0 + value for kind, value in seconds.items()}}
    return {"before": before, "after": after}


def frames_document(
    due: int = 300, dropped: int = 0, duration_s: float = 30.0, **changes: Any
) -> LoadDocument:
    """10 Hz x 1 MB, each frame done 2 ms after it was due."""
    return paced_document(10.0, due, dropped, duration_s, **changes)


def paced_document(
    rate_hz: float, due: int, dropped: int = 0, duration_s: float = 30.0, **changes: Any
) -> LoadDocument:
    """As `frames_document`, at another rate; 0: as fast as it went."""
    written = due - dropped
    period_ns = SECOND / rate_hz if rate_hz else duration_s * SECOND / due
    start = [int(n * period_ns) for n in range(written)] + [-1] * dropped
    done = [int(n * period_ns) + 2_000_000 for n in range(written)] + [-2] * dropped
    document: dict[str, Any] = {
        "format": "penstock-load 1",
        "program": "penstock-load",
        "plan": {
            "backend": {"kind": "posix", "folder": "/x", "direct": True, "sync": "each"},
            "workload": {
                "kind": "frames",
                "frames": due,
                "frame_bytes": 10**6,
                "rate_hz": rate_hz,
                "late_after_s": 0.1,
                "buffer_frames": 10,
            },
        },
        "started": "2026-01-01T00:00:00Z",
        "interrupted": False,
        "problem": None,
        "storage": {"direct": True},
        "machine": machine(),
        "frames": {
            "planned": due,
            "due": due,
            "written": written,
            "dropped": dropped,
            "late": 0,
            "failed": 0,
            "unfinished": 0,
            "bytes": written * 10**6,
            "stored_bytes_each": 1_003_520,
        },
        "seconds": {
            "last_due": duration_s,
            "first_done": 0.002,
            "last_done": duration_s,
            "completed": duration_s,
        },
        "buffer": {"held_max": 1, "stall_s": 0.002, "stall_end_s": 0.002},
        "times": {
            "latency": histogram(*[2_000_000] * written),
            "wait": EMPTY,
            "service": histogram(*[2_000_000] * written),
            "jitter": histogram(*[10_000] * due),
        },
        "generator": {"start_ns": SECOND, "pacer_goes_first": True, "pacer_waited_ns": 0, "writers": []},
        "series": None,
        "records": {
            "offered_ns": [0] * due,
            "start_ns": start,
            "done_ns": done,
            "waited_ns": [0] * written + [-1] * dropped,
        },
    }
    return LoadDocument.model_validate(document | changes)


def simulated_document(
    own_s: float | list[float],
    waited_s: float = 0.0,
    rate_hz: float = 10.0,
    due: int = 300,
    writers: int = 1,
    **changes: Any,
) -> LoadDocument:
    """What the generator would record: each write takes its own time, and waits for a processor in it."""
    own = [own_s] * due if isinstance(own_s, float) else own_s
    workload = FramesWorkload(
        frames=due, frame_bytes=10**6, rate_hz=rate_hz, writers=writers, buffer_frames=10, late_after_s=0.1
    )
    took = numpy.array([round((each + waited_s) * SECOND) for each in own])
    done = replay(workload, 1, took)
    written = done >= 0
    latencies = [int(done[n] - n * SECOND / rate_hz) for n in range(due) if written[n]]
    plain = paced_document(rate_hz, due, int((~written).sum()), due / rate_hz).model_dump()
    plain["plan"]["workload"] = workload.model_dump()
    plain["records"] |= {
        "start_ns": [int(end - took[n]) if end >= 0 else -1 for n, end in enumerate(done)],
        "done_ns": done.tolist(),
        "waited_ns": [round(waited_s * SECOND) if end >= 0 else -1 for end in done],
    }
    plain["times"] |= {
        "latency": histogram(*latencies),
        "service": histogram(*(int(took[n]) for n in range(due) if written[n])),
    }
    return LoadDocument.model_validate(plain | changes)


CONDITIONS = Conditions(
    host="h",
    kernel="6",
    processors=2,
    memory_bytes=16 << 30,
    file_system="ext4",
    mount="/",
    mount_source="/dev/x",
    mount_options="rw",
    block_bytes=4096,
    stripe_bytes=0,
    free_bytes=1 << 40,
    versions={},
    command="",
)


# Kernel threads were seen, and never waited.
MEANWHILE = Meanwhile(
    device="",
    device_read_bytes=0,
    device_written_bytes=0,
    other_runs=[],
    storage_waits=StorageWaits(
        kernel_threads=True, daemon_threads=None, at_ns=[0, 100 * SECOND], waited_ns=[0, 0]
    ),
)


def run_of(document: LoadDocument, checks: list[Check]) -> Run:
    from penstock.bench.judge.checks import validity_of

    return Run(
        workload="frames",
        target="/x",
        conditions=CONDITIONS,
        validity=validity_of(checks),
        checks=checks,
        frames=frame_figures(document),
        document=document,
        meanwhile=MEANWHILE,
    )


def step_of(kind: StepKind, document: LoadDocument, *checks: Check, late_limit_s: float = 0.5) -> Step:
    run = run_of(document, list(checks))
    return step_from(kind, run, late_limit_s)


def step_from(kind: StepKind, run: Run, late_limit_s: float = 0.5) -> Step:
    outcome, shortcomings, alone = outcome_of(run, late_limit_s)
    rate_hz = run.frames.needed_hz if run.frames else 0.0
    return Step(kind=kind, rate_hz=rate_hz, outcome=outcome, shortcomings=shortcomings, alone=alone, run=run)


def verdict_of(
    *steps: Step,
    search: Search | None = None,
    problem: str | None = None,
    detector: str = "X",
    searches: bool = False,
    **more: Any,
) -> Verdict:
    """Of a detector of 10 Hz x 1 MB."""
    return judge(
        Measured(
            detector=detector,
            needed_hz=10.0,
            frame_bytes=10**6,
            late_limit_s=0.5,
            searches=searches or search is not None,
            steps=steps,
            search=search,
            problem=problem,
            **more,
        )
    )


def searched(held_hz: float | None = 20.0, not_held_hz: float | None = 21.0, **changes: Any) -> Search:
    found: dict[str, Any] = {
        "held_hz": held_hz,
        "not_held_hz": not_held_hz,
        "held_runs": 2,
        "not_held_runs": 2,
        "full_speed_hz": 22.0,
        "top_hz": 100.0,
        "top_reason": "asked",
        "ended": "narrow",
    }
    return Search.model_validate(found | changes)
