"""`penstock bench`"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from penstock.bench.content import chosen_content
from penstock.bench.folder import BenchFolder, find_removable
from penstock.bench.images import PixelType
from penstock.bench.jobs import frames_job
from penstock.bench.run import Access, frames_request, require_possible
from penstock.cli.bench_beside import Beside, BesideTarget, Blocks, show_second
from penstock.cli.bench_running import REMOVES, How, check_run, may_go_on, run_job, runs_of
from penstock.cli.common import err, out, reports_errors, warn
from penstock.cli.frame_choice import FormatOption, Rename, check_layout, frame_bytes_of, image_request
from penstock.cli.null_choice import NullDelay, NullFreeze, NullStraggler, null_backend
from penstock.cli.ranks_choice import MpiOption, RanksOption, team_of
from penstock.cli.words import examples
from penstock.model.campaign_files import BLOCKS_MAX
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.load import CONTENT_RATIO_MAX, ContentKind, Layout, Sync
from penstock.report.runs import frames_plan_view

bench_application = typer.Typer(
    help="Measure a storage with one workload.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    context_settings={"help_option_names": ["-h", "--help"]},
)

Target = Annotated[
    Path,
    typer.Argument(help="A folder on the storage; the run makes one of its own in it, and removes that."),
]
Writers = Annotated[int, typer.Option(min=1, max=256, help="Threads that write.")]
LayoutOption = Annotated[Layout, typer.Option(help="A file for each frame, or one for each writer.")]
Buffered = Annotated[
    bool, typer.Option("--buffered", help="Through the page cache instead of past it (direct I/O).")
]
SyncOption = Annotated[
    Sync, typer.Option(help="Force data to storage: never, when a file is complete, or after each write.")
]
Content = Annotated[
    ContentKind,
    typer.Option(
        help="Random bytes, which storage cannot compress or find again; zeros; bytes that compress by"
        " --ratio; or those of --content-file."
    ),
]
RatioOption = Annotated[
    float | None,
    typer.Option(help=f"With --content compressible: so many times smaller, 1 to {CONTENT_RATIO_MAX:g}."),
]
ContentFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --content file: its first 16 MiB, or transfer, are written again and again. With --format"
        " images of yours, or a folder of them, that are written as such files.",
    ),
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
ProfileOption = Annotated[
    bool,
    typer.Option("--profile", help="Tell where the processors' time goes; needs perf, and may need root."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the folder and the files.")]
Output = Annotated[Path | None, typer.Option(help="Write the document of the run into this file.")]
Repetitions = Annotated[
    int | None,
    typer.Option(min=1, max=BLOCKS_MAX, help="Run so many times; the document is that of a campaign then."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is written.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and end.")]
Json = Annotated[bool, typer.Option("--json", help="The document on standard output, for machines.")]


@bench_application.command(
    "frames",
    epilog=examples(
        "penstock bench frames /data --frame-size 8MiB --rate 100 --seconds 60",
        "penstock bench frames /data --frame-size 512KiB --rate 0 --frames 1000 --yes",
        "penstock bench frames /data --format cbf --shape 2527x2463 --rate 25 --rename",
        "penstock bench frames /data --frame-size 8MiB --rate 50 --beside 'stream --threads 2 --size 8GiB'",
    ),
)
@reports_errors
def frames_command(
    target: Target,
    rate: Annotated[
        float, typer.Option(min=0, max=1e7, metavar="HZ", help="Frames a second; 0: as fast as it goes.")
    ],
    frame_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a frame; or --shape says it.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="ROWSxCOLUMNS", help="Of a frame, instead of its size.")
    ] = None,
    type_: Annotated[
        PixelType | None, typer.Option("--type", help="Of pixels, with --shape. [default: int32]")
    ] = None,
    format_: FormatOption = "raw",
    rename: Rename = False,
    seconds: Annotated[float, typer.Option(min=0.001, help="How long frames become due.")] = 30.0,
    frames: Annotated[
        int | None, typer.Option(min=1, help="So many frames instead; needed with --rate 0.")
    ] = None,
    writers: Writers = 4,
    buffer_seconds: BufferSeconds = 1.0,
    late_after: LateAfter = None,
    layout: LayoutOption = "file_a_frame",
    buffered: Buffered = False,
    sync: SyncOption = "each",
    content: Content = "random",
    ratio: RatioOption = None,
    content_file: ContentFile = None,
    seed: Seed = 1,
    ranks: RanksOption = None,
    mpi: MpiOption = None,
    backend: Annotated[
        Literal["posix", "null"], typer.Option(help="Through the kernel; null: nothing is stored.")
    ] = "posix",
    null_delay: NullDelay = None,
    null_straggler: NullStraggler = None,
    null_freeze: NullFreeze = None,
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
    """Write frames that become due at a rate and wait for nobody; tell what was dropped, late and slow.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    if rate == 0 and frames is None:
        raise UsageError("--rate 0 needs --frames", "say how many frames are written as fast as it goes")
    check_layout(layout, format_, rename)
    image = image_request(shape, type_, format_, content_file if content == "file" else None)
    written = chosen_content(content, ratio, content_file, image)
    null = null_backend(backend, null_delay, null_straggler, null_freeze)
    access = Access(direct=not buffered, sync=sync, seed=seed, null=null, **written)
    request = frames_request(
        frame_bytes_of(frame_size, shape, type_, image),
        rate,
        frames / rate if frames is not None and rate > 0 else seconds,
        writers,
        buffer_seconds,
        late_after,
        layout,
        access,
        ranks or 1,
    )
    request = request.model_copy(update={"rename": rename, "image": image})
    if frames is not None:
        request = request.model_copy(update={"frames": frames})
    require_possible(request)
    team = team_of(ranks, mpi)
    how = How(target, profile, keep, repetitions, beside, beside_target, blocks, seed, output, json)
    second = check_run(how, request.bytes, request.files, bench_application)
    err().print(frames_plan_view(request, str(target), repetitions, runs_of(how)))
    show_second(second, blocks)
    if dry_run:
        return
    may_go_on(yes)
    run_job(frames_job(request, team), how, second)


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
