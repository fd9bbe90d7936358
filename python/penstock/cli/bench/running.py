"""Shared steps of the commands of `penstock bench`: ask, run, show, write."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.bench.data.folder import (
    ROOM_ADVICE,
    RoomAdvice,
    others_at_work,
    require_writable,
    usable,
)
from penstock.bench.data.remote_folder import make_folder
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.bench.run.second import Second
from penstock.bench.statistics.profile import profiled
from penstock.cli import completion
from penstock.cli.bench.beside import (
    BLOCKS,
    Beside,
    BesideTarget,
    Blocks,
    interference,
    parse_second,
    require_room_for_both,
)
from penstock.cli.common import fail, out, print_json, require_new, warn
from penstock.cli.documents import written_whatever_happens
from penstock.cli.lab.targets import laboratory_storage
from penstock.cli.verbosity import progress
from penstock.model import panels
from penstock.model.bench.campaign_files import BLOCKS_MAX
from penstock.model.bench.runs import Run
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.proxies import proxy_of
from penstock.model.storage_url import Place, StorageUrl, mounted, place_of
from penstock.report.progress import ProgressView, show_load
from penstock.report.runs import run_view


def parse_place(text: str) -> Any:
    try:
        return laboratory_storage(text) or place_of(text)
    except UsageError as error:
        fail(error)


def _folder(text: str) -> Path:
    try:
        return mounted(place_of(text), "this command")
    except UsageError as error:
        fail(error)


def _target(where: str, stays: str, parser: Callable[[str], Any]) -> Any:
    return typer.Argument(
        help=f"{where}. The run creates a directory in it, and removes that at the end.{stays}",
        parser=parser,
        metavar="TARGET",
        autocompletion=completion.folders,
    )


_FOLDER, _BY_URL = "Folder on the storage", "Folder on the storage, or its URL"
_DATA_STAYS = " Its data set stays for further runs until `penstock bench clean`."
Target = Annotated[Path, _target(_FOLDER, "", _folder)]
TargetOrUrl = Annotated[
    Path, _target(f"{_BY_URL} (root://, nfs://, http://, s3://, hdfs://)", "", parse_place)
]
DataTarget = Annotated[Path, _target(_FOLDER, _DATA_STAYS, _folder)]
DataTargetOrUrl = Annotated[
    Path, _target(f"{_BY_URL} (root://, http://, s3://, hdfs://)", _DATA_STAYS, parse_place)
]
ProfileOption = Annotated[
    bool,
    typer.Option(
        "--profile",
        help="Report where processor time is spent; requires perf, and possibly root.",
        rich_help_panel=panels.OUTPUT,
    ),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep the written directory and files.", rich_help_panel=panels.RUN)
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the document of the run (JSON) into this new file, and add it to the run index"
        " (`penstock runs list`).",
        rich_help_panel=panels.OUTPUT,
    ),
]
Repetitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=BLOCKS_MAX,
        help="Number of runs. With several, the document is that of a campaign. [default: 1]",
        rich_help_panel=panels.RUN,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.", rich_help_panel=panels.RUN)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be written, and exit.", rich_help_panel=panels.RUN)
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the document (JSON) on standard output (with --dry-run: the plan).",
        rich_help_panel=panels.OUTPUT,
    ),
]


@dataclass(frozen=True)
class How:
    """Options of all commands that write to a storage."""

    target: TargetOrUrl
    """what the parser returned: `place` has its type"""
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

    @property
    def place(self) -> Place:
        return self.target


def runs_of(how: How) -> int:
    """Returns how many runs there will be."""
    if how.background is not None:
        return 2 * (how.blocks or BLOCKS)
    return how.repetitions or 1


def check_run(how: How, needed_bytes: int, files: int, advice: RoomAdvice = ROOM_ADVICE) -> Second | None:
    """Returns the background load, if any. Raises UsageError before anything is written."""
    if how.background is None and (how.background_target is not None or how.blocks is not None):
        raise UsageError(
            "--background-target and --blocks require --background", "add --background, or leave them out"
        )
    if how.background is not None and how.keep:
        raise UsageError("--keep and --background exclude each other", "leave one of them out")
    if how.repetitions is not None and (how.keep or how.background is not None):
        other = "--keep" if how.keep else "--background"
        raise UsageError(f"--repetitions and {other} exclude each other", "leave one of them out")
    require_new(how.output)
    if isinstance(how.place, StorageUrl):
        if how.background is not None or how.profile:
            mounted(how.place, "--background" if how.background is not None else "--profile")
        if proxy := proxy_of(how.place):
            warn(f"note: the environment sends requests through the proxy {proxy}; set no_proxy to bypass it")
        return None
    require_writable(how.place)
    warn_of_others(how.place)
    second = None
    if how.background is not None:
        second = parse_second(how.background, how.background_target or how.place)
    require_room_for_both(how.place, needed_bytes, files, second, advice)
    return second


def run_job(job: Job, how: How, second: Second | None, seed: int) -> None:
    """Runs the job once, several times, or alone and with a background load.

    `seed` is that of the order of runs. Raises typer.Exit if the job failed or a run is invalid.
    """
    looked_at = replace(
        job,
        run=lambda folder, telling: profiled(how.profile, lambda: job.run(folder, telling), telling.log),
    )
    if how.repetitions is not None:
        from penstock.cli.campaign.running import repeat

        repeat(looked_at, how.place, how.repetitions, how.output, how.json, telling)
        return
    if second is not None:

        def alone() -> Run:
            with (
                make_folder(how.place, needed_bytes=job.bytes) as folder,
                progress() as view,
                usable(how.place),
            ):
                return looked_at.run(folder, telling(view))

        interference(alone, second, how.blocks or BLOCKS, seed, how.output, how.json)
        return
    with make_folder(how.place, how.keep, job.bytes) as folder:
        with progress() as view, usable(how.place):
            run = looked_at.run(folder, telling(view))
        finish(run, how.output, how.json)


_NO_TERMINAL = "cannot ask for confirmation, because standard input is not a terminal"
_WRITES = UsageError("nothing was written", "add --yes, or --dry-run to see what would be written")
REMOVES = UsageError("nothing was removed", "add --yes to remove the listed directories")


def may_go_on(yes: bool, unanswerable: UsageError = _WRITES) -> None:
    """Asks on a terminal. Raises `unanswerable` without a terminal, and a PenstockError after a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{_NO_TERMINAL}; {unanswerable.message}", unanswerable.remedy)
    try:
        agreed = typer.confirm("Continue?", err=True)
    except typer.Abort:  # Ctrl-C, or the end of standard input
        agreed = False
    if not agreed:
        raise PenstockError(f"not confirmed; {unanswerable.message}")


def warn_of_others(target: Path) -> None:
    """Warns if another run works on the same target."""
    for folder in others_at_work(target / "this run's"):
        warn(f"warning: another run works in {folder}; both runs slow each other down")


def telling(view: ProgressView) -> Telling:
    return Telling(lambda event: show_load(view, event), view.say)


def finish(run: Run, output: Path | None, json: bool) -> None:
    """Shows and writes the run before the directory is removed, so that a failing removal loses nothing."""
    with written_whatever_happens(output, run):
        if json:
            print_json(run)
        else:
            out().print(run_view(run))
    if run.document.interrupted or run.document.problem:
        raise typer.Exit(int(ExitCode.FAILED))
    if run.validity == "invalid":
        raise typer.Exit(int(ExitCode.INVALID))
