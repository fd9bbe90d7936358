"""Runs of a metadata workload for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.bench.run.metadata import bytes_at_once, names_at_once, names_made
from penstock.model.bench.load import MetadataWorkload, Operation, Sync
from penstock.model.bench.runs import OPERATION_S_MIN, OperationFigures
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_seconds, human_size
from penstock.report.tables import repeated_rows

TOO_SHORT = "too short"
"""shown in place of a metric that could not be measured"""
# As such tables have been printed for decades.
OPERATION_TITLES: dict[Operation, str] = {
    "folder_create": "Directory creation",
    "folder_stat": "Directory stat",
    "folder_rename": "Directory rename",
    "folder_remove": "Directory removal",
    "file_create": "File creation",
    "file_stat": "File stat",
    "file_read": "File read",
    "file_rename": "File rename",
    "file_remove": "File removal",
    "tree_create": "Tree creation",
    "tree_remove": "Tree removal",
}


def metadata_plan_rows(
    workload: MetadataWorkload,
    sync: Sync,
    target: str,
    repetitions: int | None = None,
    ranks: int = 1,
    clients: str = "",
) -> dict[str, str]:
    """Returns the planned run. `clients`: which one each rank uses."""
    rows = {
        "target": f"a new directory in {target}, removed afterwards",
        **tree_rows(workload, ranks),
        "at once": f"{names_at_once(workload, ranks)} names, {human_bytes(bytes_at_once(workload, ranks))}",
    }
    if workload.files:
        rows["files"] = f"{human_size(workload.file_bytes)} each, sync: {sync}"
    return rows | {"clients": clients} | repeated_rows(repetitions)


def tree_rows(workload: MetadataWorkload, ranks: int = 1) -> dict[str, str]:
    """What names there are, and who looks them up."""
    kinds = " and ".join(
        name for name, wanted in (("directories", workload.folders), ("files", workload.files)) if wanted
    )
    trees = "one tree for all threads" if workload.shared else "one tree per thread"
    rows = {
        "threads": f"{workload.threads}{f' per rank, {ranks} ranks' if ranks > 1 else ''}, {trees}",
        "tree": f"{counted(workload.tree_folders, 'directory', 'directories')} (depth {workload.depth},"
        f" branch {workload.branch})",
        "items": f"{workload.items} {kinds} per directory and thread,"
        f" {workload.items_each(ranks)} of each kind in all",
        "iterations": f"{workload.iterations}, {names_made(workload, ranks)} names in all",
    }
    if workload.shift:
        rows["shift"] = f"{workload.shift}: threads look up and remove what other threads created"
    return rows


def metadata_view(figures: list[OperationFigures]) -> RenderableType:
    """Operations a second: the most, the least, the mean and the standard deviation over iterations.

    Below that how long single operations took.
    """
    # Two tables: in one, figures of fast storage do not fit into 80 columns.
    rates = _table("per second", "max", "min", "mean", "std dev")
    times = _table("single operations", "p99", "slowest")
    by_name = {operation.operation: operation for operation in figures}
    for name, title in OPERATION_TITLES.items():
        if name in by_name:
            rates.add_row(title, *_rate_cells(by_name[name]))
            times.add_row(title, *_time_cells(by_name[name]))
    iterations = max((operation.iterations for operation in figures), default=0)
    note = f"{iterations} iterations; std dev with n - 1"
    if any(operation.too_short for operation in figures):
        note += f"; {TOO_SHORT}: less than {human_seconds(OPERATION_S_MIN)} in all; increase --items"
    return Group(rates, Text(), times, Text(note, style="dim"))


def _table(what: str, *titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(what, no_wrap=True, min_width=len("single operations"))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _rate_cells(figures: OperationFigures) -> list[str]:
    if figures.too_short:
        return [TOO_SHORT] * 3 + [""]
    deviation = "" if figures.rate_deviation is None else f"{figures.rate_deviation:.1f}"
    return [f"{rate:.1f}" for rate in (figures.rate_max, figures.rate_min, figures.rate_mean)] + [deviation]


def _time_cells(figures: OperationFigures) -> list[str]:
    if figures.too_short:
        return [TOO_SHORT] * 2
    return [human_seconds(ms * 1e-3) for ms in (figures.latency_ms.p99, figures.latency_ms.max)]
