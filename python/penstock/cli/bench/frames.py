"""`penstock bench`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from penstock.bench.data.folder import BenchFolder, find_removable
from penstock.bench.run.jobs import frames_job
from penstock.bench.run.workloads import FramesParameters
from penstock.cli.bench.beside import require_shape, show_second
from penstock.cli.bench.null_choice import NullOptions
from penstock.cli.bench.ranks_choice import RanksOptions, team_of
from penstock.cli.bench.running import REMOVES, How, check_run, may_go_on, run_job, runs_of
from penstock.cli.common import err, out, reports_errors, warn
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.words import examples
from penstock.model.bench.load import Layout, Sync
from penstock.model.errors import ExitCode, PenstockError
from penstock.report.runs import frames_plan_view

bench_application = typer.Typer(
    help="Measure a storage with one workload.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    context_settings={"help_option_names": ["-h", "--help"]},
)

Writers = Annotated[int, typer.Option(min=1, max=256, help="Threads that write.")]
LayoutOption = Annotated[Layout, typer.Option(help="A file for each frame, or one for each writer.")]
Buffered = Annotated[
    bool, typer.Option("--buffered", help="Through the page cache instead of past it (direct I/O).")
]
SyncOption = Annotated[
    Sync, typer.Option(help="Force data to storage: never, when a file is complete, or after each write.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the random bytes.")]
BufferSeconds = Annotated[
    float, typer.Option(min=0, max=3600, help="So many seconds of frames may wait; what is more is dropped.")
]
LateAfter = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        metavar="SECONDS",
        help="A frame is late when it is done so long after it was due."
        " [default: the time between frames, at least 0.01]",
    ),
]


@dataclass(frozen=True)
class _FramesBackend:
    backend: Annotated[
        Literal["posix", "null"], typer.Option(help="Write through the kernel; null: store nothing.")
    ] = "posix"


def _frames(
    parameters: FramesParameters,
    of_ranks: RanksOptions,
    through: _FramesBackend,
    of_null: NullOptions,
    how: How,
) -> None:
    """Write frames that become due at a rate and wait for nobody; report which were dropped, late and slow.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    require_shape(parameters)
    asked = parameters.model_copy(update={"ranks": of_ranks.ranks or 1})
    request = asked.request(of_null.backend(through.backend))
    team = team_of(of_ranks.ranks, of_ranks.mpi)
    second = check_run(how, request.bytes, request.files, bench_application)
    err().print(frames_plan_view(request, str(how.target), how.repetitions, runs_of(how)))
    show_second(second, how.blocks)
    if how.dry_run:
        return
    may_go_on(how.yes)
    run_job(frames_job(request, team), how, second, parameters.seed)


frames_command = reports_errors(
    command_of(
        _frames,
        ModelTable(FramesParameters),
        DataclassTable(RanksOptions),
        DataclassTable(_FramesBackend),
        DataclassTable(NullOptions),
        DataclassTable(How),
    )
)


bench_application.command(
    "frames",
    epilog=examples(
        "penstock bench frames /data --frame-size 8MiB --rate 100 --seconds 60",
        "penstock bench frames /data --frame-size 512KiB --rate 0 --frames 1000 --yes",
        "penstock bench frames /data --format cbf --shape 2527x2463 --rate 25 --rename",
        "penstock bench frames /data --frame-size 8MiB --rate 50 --background 'stream --threads 2 --size 8GiB'",
    ),
)(frames_command)


@bench_application.command(
    "clean", epilog=examples("penstock bench clean /data", "penstock bench clean /data --yes")
)
@reports_errors
def clean_command(
    target: Annotated[Path, typer.Argument(help="The folder that runs were started on.")],
    kept: Annotated[bool, typer.Option("--kept", help="Those that --keep left, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is removed.")] = False,
) -> None:
    """Remove the folders of runs that were killed: what their manifests list, and nothing else.

    Folders that a run works in, or that are not certain to be one's, stay and are named. The exit code is 1
    then.
    """
    folders, doubts = find_removable(target, kept)
    for doubt in doubts:
        warn(str(doubt))
    for folder in folders:
        out().print(str(folder.path), markup=False, soft_wrap=True)
    if folders:
        may_go_on(yes, unanswerable=REMOVES)
    troubles = [trouble for folder in folders if (trouble := _removed(folder)) is not None]
    for trouble in troubles[1:]:
        warn(str(trouble))
    if troubles:
        raise troubles[0]
    if doubts:
        raise typer.Exit(int(ExitCode.FAILED))


def _removed(folder: BenchFolder) -> PenstockError | None:
    """Why it was not: the others are removed all the same."""
    try:
        folder.remove()
    except PenstockError as error:
        return error
    return None
