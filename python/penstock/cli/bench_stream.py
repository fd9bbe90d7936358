"""`penstock bench stream`"""

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.bench.content import chosen_content
from penstock.bench.folder import RoomAdvice
from penstock.bench.jobs import stream_job
from penstock.bench.library import check_access
from penstock.bench.run import Access, stream_bytes, stream_files, stream_workload
from penstock.cli.bench import (
    Buffered,
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
    SyncOption,
    Target,
    Yes,
    bench_application,
)
from penstock.cli.bench_beside import Beside, BesideTarget, Blocks, show_second
from penstock.cli.bench_running import How, check_run, may_go_on, run_job
from penstock.cli.common import err, reports_errors, size_option
from penstock.cli.null_choice import NullDelay, NullFreeze, NullStraggler, null_backend
from penstock.cli.option_table import command_of
from penstock.cli.ranks_choice import (
    BackendOption,
    BlockOption,
    ChunkOption,
    CollectiveOption,
    DeflateOption,
    HintOption,
    LibraryOptions,
    MpiIoOption,
    MpiOption,
    RanksOption,
    SharedOption,
    library_of,
    require_parallel_hdf5,
    team_of,
    through_text,
)
from penstock.model.load import Order, StreamWorkload
from penstock.programs.ranks import Ranks
from penstock.report.runs import stream_plan_view

SizeEach = Annotated[str, typer.Option(metavar="SIZE", help="That each thread writes.")]
Transfer = Annotated[str, typer.Option(metavar="SIZE", help="Of one read or write.")]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Of each rank; each writes and reads.")]
ReadOption = Annotated[
    bool, typer.Option("--read/--no-read", help="Read all afterwards, each part by another thread.")
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Compare what is read with what was written.")
]
SecondsMax = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="End each phase after this; 0: when it is done.")
]
Segments = Annotated[
    int, typer.Option(min=1, help="Of a shared file; each has a block of every thread, one after the other.")
]
OrderOption = Annotated[
    Order, typer.Option(help="In which a thread writes and reads: as it lies in the file, or random.")
]
QueueDepth = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Transfers of each thread under way at once; more than 1 through io_uring."
        " [default: 1; 8 with --backend store]",
    ),
]


@dataclass(frozen=True)
class StreamOptions:
    """Of `penstock bench stream`; `penstock bench hdf5` has a part of them."""

    target: Target
    size: SizeEach = "4GiB"
    transfer: Transfer = "8MiB"
    threads: Threads = 1
    shared: SharedOption = False
    segments: Segments = 1
    order: OrderOption = "sequential"
    read: ReadOption = True
    verify: VerifyOption = True
    queue_depth: QueueDepth = None
    seconds_max: SecondsMax = 0.0
    buffered: Buffered = False
    sync: SyncOption = "end"
    content: Content = "random"
    ratio: RatioOption = None
    content_file: ContentFile = None
    seed: Seed = 1
    ranks: RanksOption = None
    mpi: MpiOption = None
    backend: BackendOption = "posix"
    mpi_io: MpiIoOption = None
    collective: CollectiveOption = False
    block: BlockOption = None
    hint: HintOption = None
    chunk: ChunkOption = None
    deflate: DeflateOption = None
    null_delay: NullDelay = None
    null_straggler: NullStraggler = None
    null_freeze: NullFreeze = None
    profile: ProfileOption = False
    keep: Keep = False
    repetitions: Repetitions = None
    beside: Beside = None
    beside_target: BesideTarget = None
    blocks: Blocks = None
    output: Output = None
    yes: Yes = False
    dry_run: DryRun = False
    json: Json = False


# What HDF5 does not have, or what is of streams through something else.
_ROOM = RoomAdvice(fewer_bytes="less of each thread (--size)", fewer_files="fewer --threads, or --shared")
_NOT_OF_HDF5 = (
    "segments",
    "order",
    "queue_depth",
    "buffered",
    "mpi",
    "mpi_io",
    "block",
    "hint",
    "null_delay",
    "null_straggler",
    "null_freeze",
)


def _stream(options: StreamOptions) -> None:
    """Measure bandwidth: write a file a thread, or a shared one, then read each part with another thread.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    team, workload, access = _chosen(options)
    files, size_of_all = stream_files(workload, access, team), stream_bytes(workload, access, team)
    how = How(
        options.target,
        options.profile,
        options.keep,
        options.repetitions,
        options.beside,
        options.beside_target,
        options.blocks,
        options.seed,
        options.output,
        options.json,
    )
    second = check_run(how, size_of_all, files, bench_application, _ROOM)
    through = through_text(options.backend, team)
    target, repetitions = str(options.target), options.repetitions
    err().print(stream_plan_view(workload, access, target, files, size_of_all, repetitions, through))
    show_second(second, options.blocks)
    if options.dry_run:
        return
    may_go_on(options.yes)
    run_job(stream_job(workload, access, team), how, second)


def _chosen(options: StreamOptions) -> tuple[Ranks | None, StreamWorkload, Access]:
    """Who writes what, and how. A UsageError where options do not go together."""
    transfer_bytes = size_option(options.transfer, "--transfer")
    of_library = LibraryOptions(
        options.mpi_io,
        options.shared,
        options.collective,
        options.block,
        options.hint or [],
        options.chunk,
        options.deflate,
    )
    library = library_of(options.backend, of_library, transfer_bytes)
    needs_mpi = options.backend == "mpiio" or (library is not None and library.shared)
    team = team_of(options.ranks, options.mpi, options.mpi_io, needs_mpi)
    require_parallel_hdf5(library, team)
    null = null_backend(options.backend, options.null_delay, options.null_straggler, options.null_freeze)
    workload = stream_workload(
        options.threads,
        size_option(options.size, "--size"),
        transfer_bytes,
        options.read,
        options.verify and null is None,
        options.seconds_max,
        not options.buffered and library is None and null is None,
        options.shared and library is None,
        options.segments,
        options.order,
    )
    access = Access(
        direct=not options.buffered,
        sync=options.sync,
        **chosen_content(options.content, options.ratio, options.content_file),
        seed=options.seed,
        queue_depth=options.queue_depth,
        store=options.backend == "store",
        library=library,
        null=null,
    )
    check_access(workload, access)
    return team, workload, access


def _hdf5(options: StreamOptions) -> None:
    """Measure bandwidth through HDF5: one dataset of bytes in each file, written, then read.

    This is `penstock bench stream --backend hdf5`, and its document is that of a stream. The run is `valid`,
    `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and its figures are not
    to be used; 1: it was interrupted, or failed.
    """
    _stream(options)


stream_command = reports_errors(command_of(StreamOptions, _stream))
hdf5_command = reports_errors(command_of(StreamOptions, _hdf5, _NOT_OF_HDF5, backend="hdf5"))
