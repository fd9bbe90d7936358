"""What the commands of `penstock bench` do when all options are read: ask, run, show, write."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import (
    ROOM_ADVICE,
    BenchFolder,
    RoomAdvice,
    others_at_work,
    require_writable,
    usable,
)
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.bench.run.second import Second
from penstock.bench.statistics.profile import profiled
from penstock.cli.bench.beside import (
    BLOCKS,
    Beside,
    BesideTarget,
    Blocks,
    interference,
    parse_second,
    require_room_for_both,
)
from penstock.cli.campaign.running import repeat
from penstock.cli.common import err, out, print_json, require_new, warn
from penstock.cli.documents import written_whatever_happens
from penstock.model.bench.campaign_files import BLOCKS_MAX
from penstock.model.bench.runs import Run
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.report.progress import ProgressView, show_load
from penstock.report.runs import run_view

Target = Annotated[
    Path,
    typer.Argument(help="Folder on the storage; the run makes one of its own in it, and removes that."),
]
ProfileOption = Annotated[
    bool,
    typer.Option("--profile", help="Report where processor time goes; requires perf, and may require root."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the folder and the files.")]
Output = Annotated[Path | None, typer.Option(help="File for the document of the run.")]
Repetitions = Annotated[
    int | None,
    typer.Option(
        min=1, max=BLOCKS_MAX, help="Number of runs; with several the document is that of a campaign."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is written.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and end.")]
Json = Annotated[bool, typer.Option("--json", help="Print the document on standard output, for machines.")]


@dataclass(frozen=True)
class How:
    """How a job is run: the options that all commands have which write to a storage."""

    target: Target
    profile: ProfileOption = False
    keep: Keep = False
    repetitions: Repetitions = None
    background: Beside = None
    background_target: BesideTarget = None
    blocks: Blocks = None
    output: Output = None
    yes: Yes = False
    dry_run: DryRun = False
    json: Json = False


def runs_of(how: How) -> int:
    """How often the job is run."""
    if how.background is not None:
        return 2 * (how.blocks or BLOCKS)
    return how.repetitions or 1


def check_run(
    how: How, needed_bytes: int, files: int, group: typer.Typer, advice: RoomAdvice = ROOM_ADVICE
) -> Second | None:
    """Before anything is written: what runs beside the job, if anything. A UsageError where that cannot be.

    `group` has the commands whose options are understood there.
    """
    if how.background is None and (how.background_target is not None or how.blocks is not None):
        raise UsageError(
            "--background-target and --blocks are for --background", "add --background, or leave them away"
        )
    if how.background is not None and how.keep:
        raise UsageError("--keep is for one run", "leave --background or --keep away")
    if how.repetitions is not None and (how.keep or how.background is not None):
        other = "--keep" if how.keep else "--background"
        raise UsageError(f"--repetitions with {other}", "leave one of them away")
    require_writable(how.target)
    warn_of_others(how.target)
    require_new(how.output)
    second = None
    if how.background is not None:
        second = parse_second(how.background, how.background_target or how.target, group)
    require_room_for_both(how.target, needed_bytes, files, second, advice)
    return second


def run_job(job: Job, how: How, second: Second | None, seed: int) -> None:
    """Once, several times, or alone and beside another load. typer.Exit where it failed or is invalid.

    `seed`: of the order of runs.
    """
    looked_at = replace(
        job,
        run=lambda folder, telling: profiled(how.profile, lambda: job.run(folder, telling), telling.log),
    )
    if how.repetitions is not None:
        repeat(looked_at, how.target, how.repetitions, how.output, how.json, telling)
        return
    if second is not None:

        def alone() -> Run:
            with (
                BenchFolder.make(how.target, needed_bytes=job.bytes) as folder,
                ProgressView(err()) as view,
                usable(how.target),
            ):
                return looked_at.run(folder, telling(view))

        interference(alone, second, how.blocks or BLOCKS, seed, how.output, how.json)
        return
    with BenchFolder.make(how.target, how.keep, job.bytes) as folder:
        with ProgressView(err()) as view, usable(how.target):
            run = looked_at.run(folder, telling(view))
        finish(run, how.output, how.json)


_WRITES = UsageError(
    "nothing is written without a yes", "add --yes, or --dry-run to see what would be written"
)
REMOVES = UsageError("nothing is removed without a yes", "add --yes to remove the folders that are listed")


def may_go_on(yes: bool, unanswerable: UsageError = _WRITES) -> None:
    """Asks on a terminal. Where nobody can be asked `unanswerable`; on a no a PenstockError that says it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise unanswerable
    try:
        agreed = typer.confirm("Go on?", err=True)
    except typer.Abort:  # Ctrl-C, or the end of what is typed
        agreed = False
    if not agreed:
        raise PenstockError(unanswerable.message)


def warn_of_others(target: Path) -> None:
    """Before a run: it and another one on the same target measure each other."""
    for folder in others_at_work(target / "this run's"):
        warn(f"warning: another run works in {folder}: each slows the other one down")


def telling(view: ProgressView) -> Telling:
    return Telling(lambda event: show_load(view, event), view.say)


def finish(run: Run, output: Path | None, json: bool) -> None:
    """While the folder is there still: where that cannot be removed, what was measured is not lost."""
    with written_whatever_happens(output, run):
        if json:
            print_json(run)
        else:
            out().print(run_view(run))
    if run.document.interrupted or run.document.problem:
        raise typer.Exit(int(ExitCode.FAILED))
    if run.validity == "invalid":
        raise typer.Exit(int(ExitCode.INVALID))
