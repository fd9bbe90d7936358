"""`penstock bench metadata`"""

from typing import Annotated, Literal

import typer

from penstock.bench.content import chosen_content
from penstock.bench.folder import RoomAdvice
from penstock.bench.jobs import metadata_job
from penstock.bench.run import Access
from penstock.cli.bench import (
    Content,
    ContentFile,
    DryRun,
    Json,
    Keep,
    Output,
    ProfileOption,
    RatioOption,
    Repetitions,
    Seed,
    Target,
    Yes,
    bench_application,
)
from penstock.cli.bench_beside import Beside, BesideTarget, Blocks, show_second
from penstock.cli.bench_running import How, check_run, may_go_on, run_job
from penstock.cli.common import err, reports_errors
from penstock.cli.metadata_choice import chosen_metadata
from penstock.cli.ranks_choice import MpiOption, RanksOption, team_of
from penstock.report.metadata import metadata_plan_view

_ROOM = RoomAdvice(fewer_bytes="smaller or fewer files (--size, --items)", fewer_files="fewer --items")


@reports_errors
def metadata_command(
    target: Target,
    items: Annotated[
        int,
        typer.Option(
            min=1, help="Folders, and as many files, that a thread makes in each folder of its tree."
        ),
    ] = 1000,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Of each rank; each begins a phase with all others.")
    ] = 1,
    depth: Annotated[int, typer.Option(min=0, max=20, help="Of a tree of folders, below its top.")] = 0,
    branch: Annotated[
        int, typer.Option(min=1, max=10_000, help="Folders of the tree in each of its folders.")
    ] = 1,
    iterations: Annotated[
        int, typer.Option(min=1, max=1000, help="All of it so often; figures are of these.")
    ] = 3,
    shared: Annotated[
        bool, typer.Option("--shared/--unique", help="One tree for all threads and ranks, or one for each.")
    ] = False,
    shift: Annotated[
        int,
        typer.Option(
            min=0,
            help="Threads look up and remove what the thread so many further made; as many as a rank has lead"
            " to the next rank.",
        ),
    ] = 0,
    only: Annotated[
        Literal["both", "folders", "files"], typer.Option(help="What items are: folders, files, or both.")
    ] = "both",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Of a file; with more than 0 files are read, too.")
    ] = "0",
    rename: Annotated[bool, typer.Option("--rename", help="Rename each item, too.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove/--no-remove", help="Measure how fast items and trees are removed.")
    ] = True,
    sync: Annotated[
        Literal["none", "each"], typer.Option(help="Force each file to storage when it is made, or none.")
    ] = "none",
    content: Content = "random",
    ratio: RatioOption = None,
    content_file: ContentFile = None,
    seed: Seed = 1,
    ranks: RanksOption = None,
    mpi: MpiOption = None,
    profile: ProfileOption = False,
    keep: Keep = False,
    repetitions: Repetitions = None,
    beside: Beside = None,
    beside_target: BesideTarget = None,
    blocks: Blocks = None,
    output: Output = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure how fast folders, files and trees of folders are made, found, read, renamed and removed.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    team = team_of(ranks, mpi)
    workload = chosen_metadata(
        {
            "ranks": ranks,
            "threads": threads,
            "items": items,
            "depth": depth,
            "branch": branch,
            "shared": shared,
            "shift": shift,
            "iterations": iterations,
            "only": only,
            "size": size,
            "rename": rename,
            "remove": remove,
        }
    )
    written = chosen_content(content, ratio, content_file)
    job = metadata_job(workload, Access(direct=False, sync=sync, seed=seed, **written), team)
    how = How(target, profile, keep, repetitions, beside, beside_target, blocks, seed, output, json)
    second = check_run(how, job.bytes, job.files, bench_application, _ROOM)
    err().print(metadata_plan_view(workload, sync, str(target), repetitions, ranks or 1))
    show_second(second, blocks)
    if dry_run:
        return
    may_go_on(yes)
    run_job(job, how, second)
