"""Parts that the pages of runs, verdicts and campaigns share."""

from collections.abc import Iterable, Sequence

from penstock.bench.data.content import content_text
from penstock.model.bench.load import FramesWorkload, MetadataWorkload, NullBackend, StreamWorkload
from penstock.model.bench.runs import (
    Check,
    Conditions,
    FrameFigures,
    OperationFigures,
    Run,
    StreamFigures,
    Validity,
)
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_hz, human_number, human_rate, human_seconds, human_size
from penstock.report.cost import cost_rows, profile_rows
from penstock.report.metadata import OPERATION_TITLES, TOO_SHORT, tree_rows
from penstock.report.network import network_rows
from penstock.report.null import null_text
from penstock.report.pages.page import Banner, Block, Cell, Facts, Section, State, Table
from penstock.report.pages.plots import latency_plot, series_plot
from penstock.report.runs import layout_text, phase_text

VALIDITY_STATE: dict[Validity, State] = {"valid": "good", "warned": "warning", "invalid": "bad"}
_OUTCOME_STATE: dict[str, State] = {"ok": "good", "warning": "warning", "failed": "bad"}
_DIFFERENT_MAX = 3
_THROUGH = {"mpiio": "through MPI-IO", "hdf5": "through HDF5", "store": "through Penstock's own store"}


def milliseconds(value: float) -> str:
    return human_seconds(value * 1e-3)


def checks_block(checks: Iterable[Check]) -> Table:
    rows = [
        [
            Cell(check.name),
            Cell(check.outcome, _OUTCOME_STATE[check.outcome]),
            Cell(check.expected),
            Cell(check.actual),
            Cell(check.advice),
        ]
        for check in checks
    ]
    columns = ["check", "outcome", "expected", "found", "what to do"]
    return Table("Checks", columns, rows)


def conditions_block(conditions: Sequence[Conditions]) -> Facts:
    """Where runs differ, up to three of what they have."""
    reported = [_conditions_rows(each) for each in conditions]
    rows = {}
    for name in reported[0] if reported else ():
        different = list(dict.fromkeys(each[name] for each in reported))
        more = f" and {len(different) - _DIFFERENT_MAX} more" if len(different) > _DIFFERENT_MAX else ""
        rows[name] = "; ".join(different[:_DIFFERENT_MAX]) + more
    return Facts({name: value for name, value in rows.items() if value})


def _conditions_rows(conditions: Conditions) -> dict[str, str]:
    layout = f"blocks of {human_size(conditions.block_bytes)}"
    if conditions.stripe_bytes:
        layout += f", stripes of {human_size(conditions.stripe_bytes)}"
    return {
        "host": conditions.host,
        "kernel": conditions.kernel,
        "processors": str(conditions.processors),
        "memory": human_bytes(conditions.memory_bytes),
        "file system": f"{conditions.file_system}, {layout}",
        "mounted": f"{conditions.mount_source} on {conditions.mount}",
        "mount options": conditions.mount_options,
        "versions": ", ".join(f"{name} {version}" for name, version in conditions.versions.items()),
        "command": conditions.command,
    }


def pattern_block(run: Run) -> Facts:
    """What was written, and how."""
    plan = run.document.plan
    rows = {"target": run.target, "started": run.document.started}
    if isinstance(plan.backend, NullBackend):
        rows["access"] = null_text(plan.backend)
    else:
        cache = "with direct I/O" if run.document.storage.direct else "through the page cache"
        through = {"posix": cache} | _THROUGH
        rows["access"] = f"{through[plan.backend.kind]}, sync: {plan.backend.sync}"
    if run.document.job is not None:
        rows["ranks"] = f"{run.document.job.ranks}, {run.document.job.library}"
    rows["content"] = f"{content_text(plan)}, seed {plan.seed}"
    if isinstance(plan.workload, FramesWorkload):
        load = plan.workload
        rows["frames"] = f"{human_size(load.frame_bytes)} each, {layout_text(load.layout)}"
        rows["writers"] = str(load.writers)
        rows["buffer"] = counted(load.buffer_frames, "frame")
        rows["late after"] = human_seconds(load.late_after_s)
    elif isinstance(plan.workload, StreamWorkload):
        rows["transfers"] = (
            f"{human_size(plan.workload.transfer_bytes)}, {counted(plan.workload.threads, 'thread')}"
        )
    elif isinstance(plan.workload, MetadataWorkload):
        rows |= tree_rows(plan.workload, run.document.job.ranks if run.document.job is not None else 1)
    return Facts(rows)


def run_banners(run: Run, what: str = "This run") -> list[Banner]:
    banners = []
    if run.document.interrupted or run.document.problem is not None:
        why = run.document.problem or "the run was interrupted"
        banners.append(Banner("warning", f"Incomplete: {why}. The metrics cover the time until then."))
    if run.validity == "invalid":
        failed = ", ".join(check.name for check in run.checks if check.outcome == "failed")
        text = f"{what} is invalid ({failed}). Do not use its metrics."
        banners.append(Banner("void", text))
    return banners


def figures_block(run: Run) -> Facts:
    rows = _frame_rows(run.frames) if run.frames is not None else {}
    for phase in run.streams:
        rows |= _stream_rows(phase)
    for operation in run.metadata:
        rows |= _operation_row(operation)
    if run.network is not None:
        rows |= network_rows(run.network)
    if run.cost is not None:
        rows |= cost_rows(run.cost)
    if run.profile is not None:
        rows |= profile_rows(run.profile, run.cost)
    return Facts(rows, "void" if run.validity == "invalid" else "")


def _frame_rows(figures: FrameFigures) -> dict[str, str]:
    latency = figures.latency_ms
    rows = {"throughput": human_rate(figures.carried_bytes_per_s)}
    if figures.needed_hz:
        rows["needed"] = f"{human_rate(figures.needed_bytes_per_s)} ({human_hz(figures.needed_hz, 6)})"
        rows["lost"] = (
            f"{figures.due - figures.written} of {figures.due}; loss rate below"
            f" {human_number(figures.lost_share_bound_95, 2)} with 95 % confidence, if frames are lost"
            " independently"
        )
    rows["dropped, failed, unfinished"] = f"{figures.dropped}, {figures.failed}, {figures.unfinished}"
    rows["late"] = f"{figures.late} of {figures.due}"
    for name, values in (
        ("latency from due time", latency),
        ("write time", figures.service_ms),
        ("scheduling delay", figures.jitter_ms),
    ):
        shown = (("50 %", values.p50), ("99 %", values.p99), ("99.9 %", values.p999), ("all", values.max))
        rows[name] = ", ".join(f"{share} within {milliseconds(value)}" for share, value in shown)
    rows["longest stall"] = human_seconds(figures.stall_s)
    if figures.recovery_s is not None:
        rows["recovered after"] = human_seconds(figures.recovery_s)
    rows["peak queue depth"] = counted(figures.held_max, "frame")
    return rows


def _stream_rows(figures: StreamFigures) -> dict[str, str]:
    name: str = figures.phase
    rows = {name: phase_text(figures)}
    if figures.first_done_s is not None and figures.last_done_s is not None:
        rows[f"{name}: first and last thread done"] = (
            f"{human_seconds(figures.first_done_s)}, {human_seconds(figures.last_done_s)}"
        )
    if figures.cached_share is not None:
        rows[f"{name}: cached before reading"] = f"{100 * figures.cached_share:.1f} %"
    if figures.mismatches is not None:
        rows[f"{name}: corrupt blocks"] = str(figures.mismatches)
    return rows


def _operation_row(figures: OperationFigures) -> dict[str, str]:
    title = OPERATION_TITLES[figures.operation]
    if figures.too_short:
        return {title: f"{TOO_SHORT}: {human_seconds(figures.seconds)} in all"}
    deviation = "" if figures.rate_deviation is None else f", standard deviation {figures.rate_deviation:.1f}"
    rates = f"{figures.rate_mean:.1f}/s ({figures.rate_min:.1f} to {figures.rate_max:.1f}{deviation})"
    return {title: f"{rates}; slowest {milliseconds(figures.latency_ms.max)}"}


def plots_of(run: Run, name: str, late_limit_s: float | None = None) -> list[Block]:
    found = (latency_plot(run, name, late_limit_s), series_plot(run, name, late_limit_s))
    return [plot for plot in found if plot is not None]


def run_section(run: Run, title: str, late_limit_s: float | None = None) -> Section:
    blocks = [figures_block(run), *plots_of(run, title, late_limit_s)]
    return Section(title, blocks, run.validity == "invalid")
