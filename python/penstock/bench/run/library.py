"""Which streams go through MPI-IO, through HDF5, or with several transfers under way."""

from collections.abc import Mapping

from penstock.bench.run.run import Access
from penstock.model.bench.load import Hdf5Access, MpiioAccess, StreamWorkload
from penstock.model.errors import UsageError
from penstock.model.plans import GIB


def hdf5_access(
    shared: bool, collective: bool, chunk_bytes: int, deflate: int, transfer_bytes: int
) -> Hdf5Access:
    """What is compressed is in chunks of a transfer, unless they are given."""
    if deflate and shared and not collective:
        raise UsageError(
            "--deflate with --shared: HDF5 compresses into a file of several ranks only in collective calls",
            "add --collective",
        )
    if chunk_bytes > GIB:
        raise UsageError(f"--chunk of {chunk_bytes} bytes exceeds the maximum of 1 GiB", "smaller chunks")
    return Hdf5Access(
        shared=shared,
        collective=collective,
        chunk_bytes=chunk_bytes or (transfer_bytes if deflate else 0),
        deflate=deflate,
    )


def parse_hint(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise UsageError(f'--hint "{text}" is not KEY=VALUE', "write for example romio_cb_write=enable")
    return name.strip(), value.strip()


def refuse_foreign(
    backend: str, of_mpiio: Mapping[str, object], of_hdf5: Mapping[str, object], collective: bool
) -> None:
    """A UsageError that names an option which another back end has."""
    of_both: dict[str, object] = {"--collective": collective}
    foreign = {"mpiio": of_hdf5, "hdf5": of_mpiio}.get(backend, {**of_mpiio, **of_both, **of_hdf5})
    for name, given in foreign.items():
        if given:
            wanted = "hdf5" if name in of_hdf5 else "mpiio"
            raise UsageError(f"{name} requires --backend {wanted}", f"add --backend {wanted}")


def check_access(workload: StreamWorkload, access: Access) -> None:
    """A UsageError where the workload cannot use the storage so."""
    library = access.library
    if workload.segments != 1 and not workload.shared and library is None:
        raise UsageError("--segments requires --shared", "add --shared: a file of one thread has no segments")
    depth = access.queue_depth or 1
    if depth > 1 and access.null is not None:
        raise UsageError(
            f"--queue-depth {depth} with --backend null", "use more --threads: this back end has no queue"
        )
    if depth > 1 and (library is not None or access.sync == "each"):
        raise UsageError(
            f"--queue-depth {depth} with --sync each, or --backend mpiio or hdf5",
            "leave out one of them: these options allow one transfer at a time",
        )
    if access.store and (access.sync == "each" or access.queue_depth == 1):
        raise UsageError(
            "--backend store with --sync each, or --queue-depth 1",
            "use --sync end, and a --queue-depth of at least 2: a store writes many transfers per segment",
        )
    if library is None:
        return
    if workload.threads != 1 and (isinstance(library, MpiioAccess) or library.shared):
        raise UsageError(
            f"--threads {workload.threads} with --backend mpiio, or --shared",
            "use more --ranks: each rank has one thread",
        )
    if workload.segments != 1:
        raise UsageError(
            "--segments with --backend mpiio or hdf5", "use --block for the consecutive bytes of a rank"
        )
    if workload.order == "random" and library.shared and library.collective:
        raise UsageError("--order random with --collective", "leave out one of them")
    if library.shared and not library.collective and access.sync == "each":
        raise UsageError(
            "--sync each with --shared: syncing a shared file is a collective call",
            "use --sync end, or --collective",
        )
    if isinstance(library, MpiioAccess):
        _check_block(workload, library.block_bytes)
    elif library.chunk_bytes and workload.transfer_bytes % library.chunk_bytes:
        raise UsageError(
            f"--transfer of {workload.transfer_bytes} bytes is not a multiple of --chunk, "
            f" {library.chunk_bytes}",
            "make --transfer a multiple of --chunk",
        )


def _check_block(workload: StreamWorkload, block: int) -> None:
    if block and (block % workload.transfer_bytes or workload.thread_bytes % block):
        raise UsageError(
            f"--block of {block} bytes is not a multiple of a transfer ({workload.transfer_bytes}), or a"
            f" rank's"
            f" {workload.thread_bytes} bytes are not a multiple of it",
            "use sizes that divide each other",
        )
