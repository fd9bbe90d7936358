"""Figures of a run of a science's workload, as rows: the same for terminal and page."""

from penstock.model.bench.percentiles import Percentiles
from penstock.model.bench.science import ScienceFigures, ScienceWorkload
from penstock.model.text import counted
from penstock.model.units import human_rate, human_seconds
from penstock.report.values import value_text


def science_rows(figures: ScienceFigures) -> dict[str, str]:
    """What the jobs did together; the values are first."""
    rows = {each.name: value_text(each.value, each.unit) for each in figures.values}
    at_work = ", all jobs at work" if len(figures.jobs) > 1 else ""
    rows["counted"] = f"{_units_text(figures)} in {human_seconds(figures.seconds)}{at_work}"
    if not figures.seconds:
        rows["counted"] = "nothing"
    if figures.received_bytes_per_s:
        rows["through the client"] = human_rate(figures.received_bytes_per_s)
    if figures.call_ms is not None:
        rows["read and write calls"] = _percentiles(figures.call_ms)
    total = sum(figures.spent_s.values()) or 1.0
    of_all = " of all jobs" if len(figures.jobs) > 1 else ""
    for name, seconds in sorted(figures.spent_s.items(), key=lambda each: -each[1]):
        rows[f"time: {name}"] = f"{human_seconds(seconds)}{of_all} ({100 * seconds / total:.0f} %)"
    for job in figures.jobs:
        if job.problem is not None:
            rows[f"job {job.job}"] = job.problem
    for number, finding in enumerate(figures.findings):
        rows["found" if number == 0 else f"found ({number + 1})"] = finding
    return rows


def _units_text(figures: ScienceFigures) -> str:
    """ "1 frame", "20 traces written"."""
    name, blank, rest = figures.unit.partition(" ")
    return counted(figures.units, name.removesuffix("s"), name) + blank + rest


def workload_rows(workload: ScienceWorkload) -> dict[str, str]:
    """What was asked for."""
    return {"jobs": str(workload.jobs)} | {
        name.replace("_", " "): str(value) for name, value in workload.parameters.items()
    }


def _percentiles(values: Percentiles) -> str:
    named = (("p50", values.p50), ("p90", values.p90), ("p99", values.p99), ("max", values.max))
    return ", ".join(f"{name} {human_seconds(value * 1e-3)}" for name, value in named)
