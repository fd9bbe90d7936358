"""Runs and verdicts for people."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.bench.run import FramesRequest
from penstock.model.load import StreamWorkload
from penstock.model.runs import Check, FrameFigures, Percentiles, Run, StreamFigures, Verdict
from penstock.model.units import human_bytes, human_rate, human_seconds
from penstock.report.cost import cost_rows, profile_rows
from penstock.report.network import network_rows
from penstock.report.tables import fact_table

_STYLE = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_VALIDITY_STYLE = {"valid": "bold green", "warned": "bold yellow", "invalid": "bold red"}
_ANSWER_STYLE = {"yes": "bold green", "no": "bold red", "cannot tell": "bold yellow", "invalid": "bold red"}


def frames_plan_view(request: FramesRequest, target: str, more: FramesRequest | None = None) -> Table:
    """What will be done, before it is."""
    files = request.files + (more.files if more else 0)
    size = request.bytes + (more.bytes if more else 0)
    access = "past the page cache" if request.access.direct else "through the page cache"
    layout = request.layout.replace("_", " ")
    rows = {
        "target": f"a new folder in {target}, removed afterwards",
        "frames": f"{request.frames} of {human_bytes(request.frame_bytes)}, {_rate_text(request)}",
        "files": f"{files}, {human_bytes(size)} together",
        "takes": _duration_text(request, more),
        "writers": f"{request.writers}, {layout}, {access}, sync: {request.access.sync}",
        "buffer": f"{request.buffer_frames} frames; late after {human_seconds(request.late_after_s)}",
    }
    return fact_table(rows)


def _rate_text(request: FramesRequest) -> str:
    if not request.rate_hz:
        return "as fast as it goes"
    return f"{request.rate_hz:g} Hz, {human_rate(request.rate_hz * request.frame_bytes)}"


def _duration_text(request: FramesRequest, more: FramesRequest | None) -> str:
    if not request.rate_hz:
        return "as long as the storage needs"
    after = f", then {more.frames} frames as fast as it goes" if more else ""
    return f"{human_seconds(request.frames / request.rate_hz)}{after}"


def stream_plan_view(workload: StreamWorkload, target: str) -> Table:
    phases = "write, then read" if workload.read else "write"
    verified = ", verified" if workload.verify else ""
    return fact_table(
        {
            "target": f"a new folder in {target}, removed afterwards",
            "files": f"{workload.threads} of {human_bytes(workload.thread_bytes)},"
            f" {human_bytes(workload.threads * workload.thread_bytes)} together",
            "transfers": human_bytes(workload.transfer_bytes),
            "phases": f"{phases}{verified}",
        }
    )


def run_view(run: Run) -> RenderableType:
    figures = _frames_rows(run.frames) if run.frames else {}
    for phase in run.streams:
        figures |= _stream_rows(phase)
    if run.network:
        figures |= network_rows(run.network)
    if run.cost:
        figures |= cost_rows(run.cost)
    if run.profile:
        figures |= profile_rows(run.profile, run.cost)
    validity = Text.assemble("The run is ", (run.validity, _VALIDITY_STYLE[run.validity]), ".")
    return Group(fact_table(figures), Text(), checks_table(run.checks), Text(), validity)


def _frames_rows(figures: FrameFigures) -> dict[str, str]:
    of_due = f"of {figures.due}"
    rate = f"{figures.needed_hz:g} Hz, {human_rate(figures.needed_bytes_per_s)}"
    rows = {"needed": rate} if figures.needed_hz else {}
    rows |= {
        "carried": human_rate(figures.carried_bytes_per_s),
        "written": f"{figures.written} {of_due}",
        "dropped": f"{figures.dropped} {of_due}",
        "late": f"{figures.late} {of_due}",
    }
    if figures.failed or figures.unfinished:
        rows["failed, unfinished"] = f"{figures.failed}, {figures.unfinished}"
    if figures.needed_hz:
        rows["lost share"] = f"{figures.lost_share:.3g}, below {figures.lost_share_bound_95:.2g} at 95 %"
    rows |= {
        "from due to done": _percentiles(figures.latency_ms),
        "a write": _percentiles(figures.service_ms),
        "generator's jitter": _percentiles(figures.jitter_ms),
        "longest stall": human_seconds(figures.stall_s),
        "buffer held": f"{figures.held_max} frames at most",
    }
    if figures.recovery_s is not None:
        rows["recovered after"] = human_seconds(figures.recovery_s)
    return rows


def _stream_rows(figures: StreamFigures) -> dict[str, str]:
    name: str = figures.phase
    rows = {name: f"{human_rate(figures.bytes_per_s)} ({human_bytes(figures.bytes)})"}
    if figures.first_done_s is not None and figures.last_done_s is not None:
        done = f"{human_seconds(figures.first_done_s)}, {human_seconds(figures.last_done_s)}"
        rows[f"{name}: first, last done"] = done
    rows[f"{name}: a transfer"] = _percentiles(figures.service_ms)
    if figures.mismatches is not None:
        rows[f"{name}: wrong blocks"] = str(figures.mismatches)
    return rows


def _percentiles(values: Percentiles) -> str:
    named = (("p50", values.p50), ("p90", values.p90), ("p99", values.p99), ("p99.9", values.p999))
    texts = [f"{name} {human_seconds(value * 1e-3)}" for name, value in named]
    return ", ".join([*texts, f"max {human_seconds(values.max * 1e-3)}"])


def checks_table(checks: Iterable[Check]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("check", "", "expected", "found"):
        table.add_column(title, overflow="fold")
    for check in checks:
        outcome = Text(check.outcome, style=_STYLE[check.outcome])
        table.add_row(escape(check.name), outcome, escape(check.expected), escape(check.actual))
    return table


def verdict_view(verdict: Verdict) -> RenderableType:
    rows = {"needed": human_rate(verdict.needed_bytes_per_s)}
    if verdict.measured_bytes_per_s is not None and verdict.margin is not None:
        rows["measured"] = f"{human_rate(verdict.measured_bytes_per_s)} as fast as it goes"
        rows["margin"] = f"{100 * verdict.margin:+.0f} %"
        rows["such detectors"] = str(verdict.detectors)
    rows["lost"] = f"{verdict.lost} of {verdict.due}, below {verdict.lost_share_bound_95:.2g} at 95 %"
    answer = Text.assemble(
        f"Can it take a {verdict.detector}? ", (verdict.answer, _ANSWER_STYLE[verdict.answer])
    )
    reasons = [Text(f"- {reason}") for reason in verdict.reasons]
    advice = [Text(f"what to do: {line}") for line in verdict.advice]
    return Group(fact_table(rows), Text(), answer, *reasons, *advice)
