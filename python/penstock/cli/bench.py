"""`penstock bench`"""

import re
import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy
import typer

from penstock.bench.folder import BenchFolder, find_left, require_room, require_target
from penstock.bench.images import ImageRequest, PixelType, make_template
from penstock.bench.run import (
    Access,
    FramesRequest,
    Telling,
    frames_request,
    require_a_frame_a_rank,
    run_frames,
)
from penstock.bench.workloads import frames_job
from penstock.cli.campaign_runs import repeat
from penstock.cli.common import err, examples, out, print_json, reports_errors, size_option
from penstock.cli.documents import write_and_enter
from penstock.cli.ranks_choice import MpiOption, RanksOption, team_of
from penstock.model.campaign_files import BLOCKS_MAX
from penstock.model.errors import ExitCode, UsageError
from penstock.model.load import ContentKind, Layout, Sync
from penstock.model.runs import Run
from penstock.report.progress import ProgressView, show_load
from penstock.report.runs import frames_plan_view, run_view

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
    ContentKind, typer.Option(help="Random bytes, which storage cannot compress or find again; or zeros.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the random bytes.")]
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
FrameFormat = Literal["raw", "cbf", "tiff", "hdf5"]
FormatOption = Annotated[
    FrameFormat, typer.Option("--format", help="Plain bytes, or files that image readers open.")
]
Rename = Annotated[
    bool, typer.Option("--rename", help="Files are called NAME.partial until they are complete.")
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


def may_go_on(yes: bool) -> None:
    """Asks on a terminal. A UsageError where nobody can be asked; typer.Exit where the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing is written without a yes", "add --yes, or --dry-run to see what would be written"
        )
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(int(ExitCode.FAILED))


def telling(view: ProgressView) -> Telling:
    return Telling(lambda event: show_load(view, event), view.say)


def check_output(path: Path | None, option: str = "--output") -> None:
    """Before anything is measured: a UsageError where the document could not be written."""
    if path is not None and (path.exists() or not path.absolute().parent.is_dir()):
        what = "is there already" if path.exists() else "is in a folder that is not there"
        raise UsageError(f"{option} {path} {what}", "name a new file")


def refuse_keeping(keep: bool, repetitions: int | None) -> None:
    if keep and repetitions is not None:
        raise UsageError("--keep is for one run", "leave --repetitions or --keep away")


def finish(run: Run, output: Path | None, json: bool) -> None:
    """While the folder is there still: where that cannot be removed, what was measured is not lost."""
    if output is not None:
        write_and_enter(output, run)
    if json:
        print_json(run)
    else:
        out().print(run_view(run))
    if run.document.interrupted or run.document.problem:
        raise typer.Exit(int(ExitCode.FAILED))
    if run.validity == "invalid":
        raise typer.Exit(int(ExitCode.INVALID))


def _rows_and_columns(shape: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,7})x([0-9]{1,7})", shape)
    rows, columns = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= rows <= 1 << 20 and 1 <= columns <= 1 << 20):
        raise UsageError(
            f"--shape {shape} is not possible", "two numbers from 1 to 1048576, such as 2527x2463"
        )
    return rows, columns


def check_layout(layout: Layout, format_: FrameFormat, rename: bool) -> None:
    if layout == "file_a_writer" and (rename or format_ != "raw"):
        raise UsageError("--layout file_a_writer holds plain frames", "leave --format and --rename away")


def image_request(shape: str | None, type_: str, format_: FrameFormat) -> ImageRequest | None:
    """None for plain bytes. A UsageError where the format holds no such frames."""
    if format_ == "raw":
        return None
    if shape is None:
        raise UsageError(f"--format {format_} needs --shape", "for example --shape 2527x2463")
    if type_ not in get_args(PixelType):
        raise UsageError(f"image files of {type_} are not made", f"one of {', '.join(get_args(PixelType))}")
    rows, columns = _rows_and_columns(shape)
    return ImageRequest.model_validate({"format": format_, "rows": rows, "columns": columns, "type": type_})


def frame_bytes_of(size: str | None, shape: str | None, type_: PixelType, image: ImageRequest | None) -> int:
    """What a frame takes as a file."""
    if (size is None) == (shape is None):
        raise UsageError("a frame has --frame-size or --shape", "give one of them")
    if image is not None:
        return len(make_template(image).data)
    if size is not None:
        return size_option(size, "--frame-size")
    rows, columns = _rows_and_columns(shape or "")
    return rows * columns * numpy.dtype(type_).itemsize


@bench_application.command(
    "frames",
    epilog=examples(
        "penstock bench frames /data --frame-size 8MiB --rate 100 --seconds 60",
        "penstock bench frames /data --frame-size 512KiB --rate 0 --frames 1000 --yes",
        "penstock bench frames /data --format cbf --shape 2527x2463 --rate 25 --rename",
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
    type_: Annotated[PixelType, typer.Option("--type", help="Of pixels.")] = "int32",
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
    seed: Seed = 1,
    ranks: RanksOption = None,
    mpi: MpiOption = None,
    keep: Keep = False,
    repetitions: Repetitions = None,
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
    access = Access(direct=not buffered, sync=sync, content=content, seed=seed)
    image = image_request(shape, type_, format_)
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
    team = team_of(ranks, mpi)
    refuse_keeping(keep, repetitions)
    _prepare(target, output, request)
    err().print(frames_plan_view(request, str(target), repetitions=repetitions))
    if dry_run:
        return
    may_go_on(yes)
    if repetitions is not None:
        repeat(frames_job(request, team), target, repetitions, output, json, telling)
        return
    with BenchFolder.make(target, keep) as folder:
        with ProgressView(err()) as view:
            run = run_frames(request, folder, "frame-", telling(view), team)
        finish(run, output, json)


def _prepare(target: Path, output: Path | None, request: FramesRequest) -> None:
    require_a_frame_a_rank(request)
    require_target(target)
    check_output(output)
    require_room(target, request.bytes, request.files)


@bench_application.command(
    "clean", epilog=examples("penstock bench clean /data", "penstock bench clean /data --yes")
)
@reports_errors
def clean_command(
    target: Annotated[Path, typer.Argument(help="The folder that runs were started on.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is removed.")] = False,
) -> None:
    """Remove the folders of runs that were killed: what their manifests list, and nothing else.

    Folders that a run works in are refused.
    """
    folders = [BenchFolder.left_at(path) for path in find_left(target)]
    for folder in folders:
        out().print(str(folder.path), markup=False, soft_wrap=True)
    if not folders:
        return
    may_go_on(yes)
    for folder in folders:
        folder.remove()
