"""Runs to compare, without making them: each has a few values, a place in time and conditions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy
import numpy.typing
from bench_documents import CONDITIONS, frames_document, run_of

from penstock.bench.compare.sets import Measured, RunSet
from penstock.bench.statistics.values import Value
from penstock.model.bench.campaigns import Campaign, Case, CaseRun
from penstock.model.bench.runs import Check, Conditions, Run
from penstock.model.bench.science import NamedValue, ScienceFigures, ScienceName, ScienceWorkload

START = datetime(2026, 1, 1, tzinfo=UTC)
Numbers = numpy.typing.NDArray[numpy.float64]


def measured(place: float, values: Mapping[str, float], name: str = "set", **changes: object) -> Measured:
    """`values` are bandwidths, but those called latency."""
    stated = {
        key: Value(value, "ms", "lower") if "latency" in key else Value(value, "B/s", "higher")
        for key, value in values.items()
    }
    facts: dict[str, object] = {
        "case": "frames",
        "block": None,
        "document": f"{name}-{place}.json",
        "started": START + timedelta(minutes=place),
        "host": "h",
        "validity": "valid",
        "values": stated,
        "parameters": {"kind": "frames", "frame_bytes": "1"},
        "conditions": {"kernel": "6"},
    }
    return Measured(**(facts | changes))  # type: ignore[arg-type]


def set_of(name: str, places: Sequence[float], **values: Sequence[float] | Numbers) -> RunSet:
    """A value for each place in each of `values`; underscores of their names are blanks."""
    return RunSet(
        name,
        [
            measured(place, {key.replace("_", " "): float(each[at]) for key, each in values.items()}, name)
            for at, place in enumerate(places)
        ],
    )


def run_at(
    place: float,
    carried_bytes_per_s: float = 1e7,
    checks: Sequence[Check] = (),
    frame_bytes: int = 10**6,
    **conditions: object,
) -> Run:
    """A whole document of a run."""
    document = frames_document(started=(START + timedelta(minutes=place)).isoformat())
    plan = document.plan.model_dump()
    plan["workload"]["frame_bytes"] = frame_bytes
    run = run_of(document.model_validate(document.model_dump() | {"plan": plan}), list(checks))
    assert run.frames is not None
    figures = run.frames.model_copy(update={"carried_bytes_per_s": carried_bytes_per_s})
    stated = Conditions.model_validate(CONDITIONS.model_dump() | conditions)
    return run.model_copy(update={"frames": figures, "conditions": stated})


def science_run(
    place: float, name: ScienceName, values: Sequence[NamedValue], jobs: int = 1, **parameters: str | int
) -> Run:
    """A whole document of a workload of a science."""
    run = run_at(place)
    workload = ScienceWorkload(name=name, jobs=jobs, parameters=parameters)
    plan = run.document.plan.model_copy(update={"workload": workload})
    document = run.document.model_copy(update={"plan": plan, "logs": []})
    figures = ScienceFigures(
        unit="events", units=20, seconds=10, per_s=2, received_bytes_per_s=0, values=list(values)
    )
    changes = {"document": document, "science": figures, "frames": None, "cost": None}
    return Run.model_validate_json(run.model_copy(update=changes).model_dump_json())


def campaign_of(cases: Mapping[str, Sequence[float]], start: float = 0.0) -> Campaign:
    """Bandwidths of cases, one a block."""
    blocks = len(next(iter(cases.values())))
    runs = [
        CaseRun(case=name, block=block, run=run_at(start + block * len(cases) + number, values[block]))
        for block in range(blocks)
        for number, (name, values) in enumerate(cases.items())
    ]
    return Campaign(
        name="c", title="C", seed=1, blocks=blocks, cases=[Case(name=name) for name in cases], runs=runs
    )
