"""`penstock bench`"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.folder import BenchFolder, find_left, require_target
from penstock.bench.profile import profiled
from penstock.bench.run import (
    Access,
    Telling,
    frames_request,
    run_frames,
    run_stream,
    stream_workload,
)
from penstock.cli.bench_beside import (
    Beside,
    BesideTarget,
    Blocks,
    Second,
    interference,
    parse_second,
    require_room_for_both,
    show_second,
)
from penstock.cli.common import err, examples, out, print_json, reports_errors, size_option
from penstock.files.space import write_document
from penstock.model.errors import ExitCode, UsageError
from penstock.model.load import ContentKind, Layout, Sync
from penstock.model.runs import Run
from penstock.report.progress import ProgressView, show_load
from penstock.report.runs import frames_plan_view, run_view, stream_plan_view

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
ProfileOption = Annotated[
    bool,
    typer.Option("--profile", help="Tell where the processors' time goes; needs perf, and may need root."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the folder and the files.")]
Output = Annotated[Path | None, typer.Option(help="Write the document of the run into this file.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is written.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and end.")]
Json = Annotated[bool, typer.Option("--json", help="The document on standard output, for machines.")]


def may_go_on(yes: bool) -> None:
    """Asks on a terminal. A UsageError where nobody can be asked; typer.Exit where the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing is done without a yes", "add --yes, or --dry-run to see what would be done")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(int(ExitCode.FAILED))


def telling(view: ProgressView) -> Telling:
    return Telling(lambda event: show_load(view, event), view.say)


def check_output(path: Path | None) -> None:
    """Before anything is measured: a UsageError where the document could not be written."""
    if path is not None and (path.exists() or not path.absolute().parent.is_dir()):
        what = "is there already" if path.exists() else "is in a folder that is not there"
        raise UsageError(f"--output {path} {what}", "name a new file")


def finish(run: Run, output: Path | None, json: bool) -> None:
    """While the folder is there still: where that cannot be removed, what was measured is not lost."""
    if output is not None:
        write_document(output, run.model_dump_json())
    if json:
        print_json(run)
    else:
        out().print(run_view(run))
    if run.document.interrupted or run.document.problem:
        raise typer.Exit(int(ExitCode.FAILED))
    if run.validity == "invalid":
        raise typer.Exit(int(ExitCode.INVALID))


@bench_application.command(
    "frames",
    epilog=examples(
        "penstock bench frames /data --frame-size 8MiB --rate 100 --seconds 60",
        "penstock bench frames /data --frame-size 512KiB --rate 0 --frames 1000 --yes",
        "penstock bench frames /data --frame-size 8MiB --rate 50 --beside 'stream --threads 2 --size 8GiB'",
    ),
)
@reports_errors
def frames_command(
    target: Target,
    frame_size: Annotated[str, typer.Option(metavar="SIZE", help="Of a frame.")],
    rate: Annotated[
        float, typer.Option(min=0, max=1e7, metavar="HZ", help="Frames a second; 0: as fast as it goes.")
    ],
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
    profile: ProfileOption = False,
    keep: Keep = False,
    beside: Beside = None,
    beside_target: BesideTarget = None,
    blocks: Blocks = 5,
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
    access = Access(direct=not buffered, sync=sync, content=content, seed=seed)
    request = frames_request(
        size_option(frame_size, "--frame-size"),
        rate,
        frames / rate if frames is not None and rate > 0 else seconds,
        writers,
        buffer_seconds,
        late_after,
        layout,
        access,
    )
    if frames is not None:
        request = request.model_copy(update={"frames": frames})
    second = _second(beside, beside_target or target, target, output)
    require_room_for_both(target, request.bytes, request.files, second)
    err().print(frames_plan_view(request, str(target)))
    show_second(second, blocks)
    if dry_run:
        return
    may_go_on(yes)
    if second is not None:

        def alone() -> Run:
            with BenchFolder.make(target, keep) as folder, ProgressView(err()) as view:
                return profiled(
                    profile, lambda: run_frames(request, folder, "frame-", telling(view)), view.say
                )

        interference(alone, second, blocks, seed, output, json)
        return
    with BenchFolder.make(target, keep) as folder:
        with ProgressView(err()) as view:
            run = profiled(profile, lambda: run_frames(request, folder, "frame-", telling(view)), view.say)
        finish(run, output, json)


def _second(beside: str | None, where: Path, target: Path, output: Path | None) -> Second | None:
    require_target(target)
    check_output(output)
    return parse_second(beside, where, bench_application) if beside is not None else None


@bench_application.command(
    "stream",
    epilog=examples(
        "penstock bench stream /data --threads 2 --size 8GiB",
        "penstock bench stream /data --transfer 1MiB --buffered --sync end --dry-run",
    ),
)
@reports_errors
def stream_command(
    target: Target,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Of each thread's file.")] = "4GiB",
    transfer: Annotated[str, typer.Option(metavar="SIZE", help="Of one read or write.")] = "8MiB",
    threads: Annotated[int, typer.Option(min=1, max=256, help="Each has a file of its own.")] = 1,
    read: Annotated[
        bool, typer.Option("--read/--no-read", help="Read the files afterwards, each by another thread.")
    ] = True,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare what is read with what was written.")
    ] = True,
    seconds_max: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="End each phase after this; 0: when it is done.")
    ] = 0.0,
    buffered: Buffered = False,
    sync: SyncOption = "end",
    content: Content = "random",
    seed: Seed = 1,
    profile: ProfileOption = False,
    keep: Keep = False,
    beside: Beside = None,
    beside_target: BesideTarget = None,
    blocks: Blocks = 5,
    output: Output = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure sequential bandwidth: write a file a thread, then read each with another thread.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    workload = stream_workload(
        threads,
        size_option(size, "--size"),
        size_option(transfer, "--transfer"),
        read,
        verify,
        seconds_max,
        not buffered,
    )
    access = Access(direct=not buffered, sync=sync, content=content, seed=seed)
    second = _second(beside, beside_target or target, target, output)
    require_room_for_both(target, workload.threads * workload.thread_bytes, workload.threads, second)
    err().print(stream_plan_view(workload, str(target)))
    show_second(second, blocks)
    if dry_run:
        return
    may_go_on(yes)
    if second is not None:

        def alone() -> Run:
            with BenchFolder.make(target, keep) as folder, ProgressView(err()) as view:
                return profiled(
                    profile, lambda: run_stream(workload, access, folder, telling(view)), view.say
                )

        interference(alone, second, blocks, seed, output, json)
        return
    with BenchFolder.make(target, keep) as folder:
        with ProgressView(err()) as view:
            run = profiled(profile, lambda: run_stream(workload, access, folder, telling(view)), view.say)
        finish(run, output, json)


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
