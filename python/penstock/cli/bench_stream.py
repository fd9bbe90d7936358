"""`penstock bench stream`"""

from typing import Annotated

import typer

from penstock.bench.content import chosen_content
from penstock.bench.library import check_access
from penstock.bench.run import Access, stream_bytes, stream_files, stream_workload
from penstock.bench.jobs import stream_job
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
from penstock.model.errors import UsageError
from penstock.model.load import Order
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


@reports_errors
def stream_command(
    target: Target,
    size: SizeEach = "4GiB",
    transfer: Transfer = "8MiB",
    threads: Threads = 1,
    shared: SharedOption = False,
    segments: Annotated[
        int,
        typer.Option(min=1, help="Of a shared file; each has a block of every thread, one after the other."),
    ] = 1,
    order: Annotated[
        Order, typer.Option(help="In which a thread writes and reads: as it lies in the file, or random.")
    ] = "sequential",
    read: ReadOption = True,
    verify: VerifyOption = True,
    queue_depth: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Transfers of each thread under way at once; more than 1 through io_uring."
            " [default: 1; 8 with --backend store]",
        ),
    ] = None,
    seconds_max: SecondsMax = 0.0,
    buffered: Buffered = False,
    sync: SyncOption = "end",
    content: Content = "random",
    ratio: RatioOption = None,
    content_file: ContentFile = None,
    seed: Seed = 1,
    ranks: RanksOption = None,
    mpi: MpiOption = None,
    backend: BackendOption = "posix",
    mpi_io: MpiIoOption = None,
    collective: CollectiveOption = False,
    block: BlockOption = None,
    hint: HintOption = None,
    chunk: ChunkOption = None,
    deflate: DeflateOption = None,
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
    """Measure bandwidth: write a file a thread, or a shared one, then read each part with another thread.

    The run is `valid`, `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and
    its figures are not to be used; 1: it was interrupted, or failed.
    """
    transfer_bytes = size_option(transfer, "--transfer")
    options = LibraryOptions(mpi_io, shared, collective, block, hint or [], chunk, deflate)
    library = library_of(backend, options, transfer_bytes)
    if backend == "store" and (ranks is not None or mpi is not None):
        raise UsageError("--backend store with --ranks", "its threads share a file: --threads, --shared")
    needs_mpi = backend == "mpiio" or (library is not None and library.shared)
    team = team_of(ranks, mpi, mpi_io, needs_mpi)
    require_parallel_hdf5(library, team)
    workload = stream_workload(
        threads,
        size_option(size, "--size"),
        transfer_bytes,
        read,
        verify,
        seconds_max,
        not buffered and library is None,
        shared and library is None,
        segments,
        order,
    )
    access = Access(
        direct=not buffered,
        sync=sync,
        **chosen_content(content, ratio, content_file),
        seed=seed,
        queue_depth=queue_depth,
        store=backend == "store",
        library=library,
    )
    check_access(workload, access)
    files, size_of_all = stream_files(workload, access, team), stream_bytes(workload, access, team)
    how = How(target, profile, keep, repetitions, beside, beside_target, blocks, seed, output, json)
    second = check_run(how, size_of_all, files, bench_application)
    through = through_text(backend, team)
    err().print(stream_plan_view(workload, access, str(target), files, size_of_all, repetitions, through))
    show_second(second, blocks)
    if dry_run:
        return
    may_go_on(yes)
    run_job(stream_job(workload, access, team), how, second)


@reports_errors
def hdf5_command(
    target: Target,
    size: SizeEach = "4GiB",
    transfer: Transfer = "8MiB",
    threads: Threads = 1,
    shared: SharedOption = False,
    collective: CollectiveOption = False,
    chunk: ChunkOption = None,
    deflate: DeflateOption = None,
    ranks: RanksOption = None,
    read: ReadOption = True,
    verify: VerifyOption = True,
    seconds_max: SecondsMax = 0.0,
    sync: SyncOption = "end",
    content: Content = "random",
    ratio: RatioOption = None,
    content_file: ContentFile = None,
    seed: Seed = 1,
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
    """Measure bandwidth through HDF5: one dataset of bytes in each file, written, then read.

    This is `penstock bench stream --backend hdf5`, and its document is that of a stream. The run is `valid`,
    `warned` or `invalid`; the table of checks says why. Exit code 4: it is invalid, and its figures are not
    to be used; 1: it was interrupted, or failed.
    """
    stream_command(**locals(), backend="hdf5")
