"""Parts that the pages of runs, verdicts and campaigns share."""

from collections.abc import Iterable, Sequence

from penstock.bench.data.content import content_text
from penstock.lab.clients import text_of_ranks
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
from penstock.model.bench.science import ScienceWorkload
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_hz, human_rate, human_seconds, human_size
from penstock.report.cost import cost_rows, profile_rows
from penstock.report.metadata import OPERATION_TITLES, TOO_SHORT, tree_rows
from penstock.report.network import network_rows
from penstock.report.null import null_text
from penstock.report.pages.page import Banner, Block, Cell, Facts, State, Table
from penstock.report.pages.plots import latency_plot, series_plot
from penstock.report.runs import layout_text, loss_text, phase_text
from penstock.report.science import science_rows, workload_rows

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
    return Table("What each check expected and found", columns, rows)


def conditions_block(conditions: Sequence[Conditions]) -> Facts:
    """Where runs differ, up to three of what they have."""
    reported = [_conditions_rows(each) for each in conditions]
    rows = {}
    for name in reported[0] if reported else ():
        different = list(dict.fromkeys(each[name] for each in reported))
        more = f" and {len(different) - _DIFFERENT_MAX} more" if len(different) > _DIFFERENT_MAX else ""
        rows[name] = "; ".join(different[:_DIFFERENT_MAX]) + more
    if rows:
        rows["versions"] = _versions_text(conditions)
    return Facts({name: value for name, value in rows.items() if value})


def _versions_text(conditions: Sequence[Conditions]) -> str:
    """Returns "penstock 0.1.0, commit 1a2b / 3c4d": each program once, with all its versions."""
    names = dict.fromkeys(name for each in conditions for name in each.versions)
    found = {
        name: dict.fromkeys(each.versions[name] for each in conditions if name in each.versions)
        for name in names
    }
    return ", ".join(f"{name} {' / '.join(versions)}" for name, versions in found.items())


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
        "versions": "",
        "command": conditions.command,
    }


def pattern_block(run: Run) -> Facts:
    """What was done, and how."""
    plan = run.document.plan
    rows = {"target": run.target, "started": run.document.started}
    if isinstance(plan.workload, ScienceWorkload):  # its checks say how it reads
        return Facts(rows | workload_rows(plan.workload))
    rows["access"] = _access_text(run)
    if run.document.job is not None:
        rows["ranks"] = f"{run.document.job.ranks}, {run.document.job.library}"
        if folders := run.document.job.folders:
            rows["clients"] = text_of_ranks(folders)
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


def _access_text(run: Run) -> str:
    backend = run.document.plan.backend
    if isinstance(backend, NullBackend):
        return null_text(backend)
    cache = "with direct I/O" if run.document.storage.direct else "through the page cache"
    through = {"posix": cache, "remote": f"by {run.document.storage.client}"} | _THROUGH
    return f"{through[backend.kind]}, sync: {backend.sync}"


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


def figures_block(run: Run, *, is_void: bool) -> Facts:
    rows = _frame_rows(run.frames) if run.frames is not None else {}
    for phase in run.streams:
        rows |= _stream_rows(phase)
    for operation in run.metadata:
        rows |= _operation_row(operation)
    if run.network is not None:
        rows |= network_rows(run.network)
    if run.science is not None:
        rows |= science_rows(run.science)
    if run.cost is not None:
        rows |= cost_rows(run.cost)
    if run.profile is not None:
        rows |= profile_rows(run.profile, run.cost)
    return Facts(rows, "void" if is_void else "")


def _frame_rows(figures: FrameFigures) -> dict[str, str]:
    latency = figures.latency_ms
    rows = {"throughput": human_rate(figures.carried_bytes_per_s)}
    if figures.needed_hz:
        rows["needed"] = f"{human_rate(figures.needed_bytes_per_s)} ({human_hz(figures.needed_hz, 6)})"
        lost = figures.due - figures.written
        bound = loss_text(lost, figures.due, figures.lost_share_bound_95)
        rows["lost"] = f"{lost} of {figures.due}; {bound}"
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


def plots_of(run: Run, name: str, late_limit_s: float | None = None, *, is_void: bool) -> list[Block]:
    found = (
        latency_plot(run, name, late_limit_s, is_void=is_void),
        series_plot(run, name, late_limit_s, is_void=is_void),
    )
    return [plot for plot in found if plot is not None]
