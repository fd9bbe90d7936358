"""`penstock bench`"""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from penstock.bench.run.by_protocol import require_by_protocol
from penstock.bench.run.jobs import frames_job
from penstock.bench.run.workloads import FramesParameters
from penstock.cli.bench.beside import beside_rows, require_shape
from penstock.cli.bench.null_choice import NullOptions
from penstock.cli.bench.ranks_choice import RanksOptions, clients_text, team_of
from penstock.cli.bench.running import How, check_run, may_go_on, run_job, runs_of
from penstock.cli.common import reports_errors
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import show_plan, shows_progress
from penstock.model import panels
from penstock.model.bench.load import Layout, Sync
from penstock.report.runs import frames_plan_rows

Writers = Annotated[
    int, typer.Option(min=1, max=256, help="Number of writer threads.", rich_help_panel=panels.WORKLOAD)
]
LayoutOption = Annotated[
    Layout,
    typer.Option(help="Layout of files: one per frame, or one per writer.", rich_help_panel=panels.WORKLOAD),
]
Buffered = Annotated[
    bool,
    typer.Option(
        "--buffered",
        help="Write through the page cache. [default: direct I/O]",
        rich_help_panel=panels.ACCESS,
    ),
]
SyncOption = Annotated[
    Sync,
    typer.Option(
        help="When data is synced to storage: never, when a file is complete, or after each write.",
        rich_help_panel=panels.ACCESS,
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, max=2**63 - 1, help="Seed of the random bytes.", rich_help_panel=panels.WORKLOAD)
]
BufferSeconds = Annotated[
    float,
    typer.Option(
        min=0,
        max=3600,
        help="Size of the frame queue in seconds of frames; a frame that finds it full is dropped.",
        rich_help_panel=panels.WORKLOAD,
    ),
]
LateAfter = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        metavar="SECONDS",
        help="Deadline in seconds: a frame that is written later than this after its due time is late."
        " [default: the time between frames, at least 0.01]",
        rich_help_panel=panels.WORKLOAD,
    ),
]


@dataclass(frozen=True)
class _FramesBackend:
    backend: Annotated[
        Literal["posix", "null"],
        typer.Option(
            help="Back end: posix writes through the kernel, null stores nothing.",
            rich_help_panel=panels.ACCESS,
        ),
    ] = "posix"


def _frames(
    parameters: FramesParameters,
    of_ranks: RanksOptions,
    through: _FramesBackend,
    of_null: NullOptions,
    how: How,
) -> None:
    """Write frames at a fixed rate (open loop), and report dropped frames, late frames and latency.

    The run is `valid`, `warned` or `invalid`; the table of checks gives the reason. Exit code 4: the run is
    invalid, do not use its metrics; 1: it failed or was interrupted.
    """
    require_shape(parameters)
    asked = parameters.model_copy(update={"ranks": of_ranks.ranks or 1})
    request = asked.request(of_null.backend(through.backend))
    team = team_of(of_ranks.ranks, of_ranks.mpi)
    require_by_protocol(how.place, request, request.access, team)
    second = check_run(how, request.bytes, request.files)
    clients = clients_text(how.place, team) if request.access.null is None else ""
    rows = frames_plan_rows(request, str(how.place), how.repetitions, runs_of(how), clients)
    show_plan(rows | beside_rows(second, how.blocks), dry_run=how.dry_run, json=how.json)
    if how.dry_run:
        return
    may_go_on(how.yes)
    run_job(frames_job(request, team), how, second, parameters.seed)


frames_command = reports_errors(
    shows_progress(
        command_of(
            _frames,
            ModelTable(FramesParameters),
            DataclassTable(RanksOptions),
            DataclassTable(_FramesBackend),
            DataclassTable(NullOptions),
            DataclassTable(How),
        )
    )
)
