"""`penstock bench`"""

import contextlib
import os
import time
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
from penstock.cli.common import out, reports_errors, warn
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import info, shows_progress
from penstock.model import panels
from penstock.model.bench.load import Layout, Sync
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_seconds
from penstock.report.runs import frames_plan_view

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
    second = check_run(how, request.bytes, request.files)
    info().print(frames_plan_view(request, str(how.target), how.repetitions, runs_of(how)))
    show_second(second, how.blocks)
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


@reports_errors
def clean_command(
    target: Annotated[Path, typer.Argument(help="Directory that runs were started on.")],
    kept: Annotated[
        bool,
        typer.Option(
            "--kept", help="Also remove directories that runs with --keep left.", rich_help_panel=panels.RUN
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove without asking.", rich_help_panel=panels.RUN)
    ] = False,
) -> None:
    """Remove the directories of killed runs: only the files that their manifests list.

    Directories that a run still uses, or that may not belong to a run, stay and are listed; the exit code is
    then 1.
    """
    folders, doubts = find_removable(target, kept)
    for doubt in doubts:
        warn(str(doubt))
    for folder in folders:
        out().print(f"{folder.path}: {_left_text(folder)}", markup=False, soft_wrap=True)
    if folders:
        may_go_on(yes, unanswerable=REMOVES)
    troubles = [trouble for folder in folders if (trouble := _removed(folder)) is not None]
    for trouble in troubles[1:]:
        warn(str(trouble))
    if troubles:
        raise troubles[0]
    if not folders:
        info().print(f"nothing to remove: {target} has no directory of a killed run", markup=False)
    if doubts:
        raise typer.Exit(int(ExitCode.FAILED))


def _left_text(folder: BenchFolder) -> str:
    """Returns "312 files, 20 MB, 4 min old"."""
    count, size = 0, 0
    for place, _, names in os.walk(folder.path):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone already
                size += Path(place, name).lstat().st_size
                count += 1
    with contextlib.suppress(OSError):
        age = human_seconds(max(0.0, time.time() - folder.path.stat().st_mtime))
        return f"{counted(count, 'file')}, {human_bytes(size)}, {age} old"
    return counted(count, "file")


def _removed(folder: BenchFolder) -> PenstockError | None:
    """Reports the removal, or returns why it failed; the other directories are removed nevertheless."""
    try:
        folder.remove()
    except PenstockError as error:
        return error
    info().print(f"removed {folder.path}", markup=False, soft_wrap=True)
    return None
