"""The options by which a workload is put on by the ranks of a job, and through MPI-IO or HDF5."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from penstock.bench.library import hdf5_access, parse_hint
from penstock.cli.common import size_option
from penstock.model.errors import UsageError
from penstock.model.load import Hdf5Access, MpiioAccess
from penstock.programs.ranks import Mpi, MpiIo, Ranks, mpi_of

_BLOCK_BYTES_MAX = 2**50
Backend = Literal["posix", "mpiio", "hdf5", "store", "null"]

RanksOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="Put the load on by so many processes (MPI) that begin together. [default: one without MPI]",
    ),
]
MpiOption = Annotated[
    Mpi | None, typer.Option(help="The MPI of --ranks. [default: openmpi, or that of --mpi-io]")
]
BackendOption = Annotated[
    Backend,
    typer.Option(help="Through the kernel, MPI-IO, HDF5, or Penstock's own store; null: nothing is stored."),
]
MpiIoOption = Annotated[
    MpiIo | None,
    typer.Option(
        help="Implementation of MPI-IO: Open MPI's ompio or romio, or that of mpich."
        " [default: the MPI's own choice]"
    ),
]
SharedOption = Annotated[
    bool, typer.Option("--shared/--own-files", help="One file for all threads and ranks, or one for each.")
]
CollectiveOption = Annotated[
    bool, typer.Option("--collective", help="With --shared: all ranks do each call together.")
]
BlockOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="With mpiio --shared: a rank's bytes in a row, before those of the next rank."
        " [default: all of them]",
    ),
]
HintOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="With --backend mpiio: a hint, such as cb_nodes=2. Several."),
]
ChunkOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Of HDF5: of a chunk of the dataset. [default: contiguous; with --deflate a transfer]",
    ),
]
DeflateOption = Annotated[
    int | None,
    typer.Option(min=0, max=9, help="Of HDF5: compress chunks; random bytes do not get smaller."),
]


def team_of(
    ranks: int | None, mpi: Mpi | None, mpi_io: MpiIo | None = None, needs_mpi: bool = False
) -> Ranks | None:
    """None where one process puts on the load. A UsageError where options do not go together."""
    if ranks is None and not needs_mpi:
        if mpi is not None:
            raise UsageError(f"--mpi {mpi} without --ranks", "say how many processes with --ranks")
        return None
    if mpi_io is not None and mpi not in (None, mpi_of(mpi_io)):
        raise UsageError(
            f"--mpi-io {mpi_io} is not part of {mpi}", f"leave --mpi away, or --mpi {mpi_of(mpi_io)}"
        )
    chosen: Mpi = mpi or (mpi_of(mpi_io) if mpi_io is not None else "openmpi")
    return Ranks(ranks or 1, chosen, mpi_io)


def through_text(backend: Backend, team: Ranks | None) -> str:
    """ "MPI-IO of ompio, 4 ranks of openmpi"; empty for system calls of one process."""
    text = {
        "posix": "system calls",
        "store": "Penstock's own store",
        "mpiio": "MPI-IO",
        "hdf5": "HDF5",
        "null": "nothing is stored",
    }[backend]
    if team is not None and team.mpi_io is not None:
        text += f" of {team.mpi_io}"
    if team is not None:
        return f"{text}, {team.count} {'rank' if team.count == 1 else 'ranks'} of {team.mpi}"
    return "" if backend == "posix" else text


@dataclass(frozen=True)
class LibraryOptions:
    """As they were given."""

    mpi_io: MpiIo | None
    shared: bool
    collective: bool
    block: str | None
    hints: list[str]
    chunk: str | None
    deflate: int | None

    def refuse(self, backend: Backend) -> None:
        """A UsageError that names an option which another back end has."""
        of_mpiio: dict[str, object] = {"--mpi-io": self.mpi_io, "--block": self.block, "--hint": self.hints}
        of_hdf5: dict[str, object] = {"--chunk": self.chunk, "--deflate": self.deflate}
        of_both: dict[str, object] = {"--collective": self.collective}
        foreign = {
            "posix": {**of_mpiio, **of_both, **of_hdf5},
            "store": {**of_mpiio, **of_both, **of_hdf5},
            "null": {**of_mpiio, **of_both, **of_hdf5},
            "mpiio": of_hdf5,
            "hdf5": of_mpiio,
        }[backend]
        for name, given in foreign.items():
            if given not in (None, False, []):
                wanted = "hdf5" if name in of_hdf5 else "mpiio"
                raise UsageError(f"{name} without --backend {wanted}", f"add --backend {wanted}")
        if not self.shared and (self.collective or self.block is not None):
            name = "--collective" if self.collective else "--block"
            raise UsageError(
                f"{name} without --shared", "add --shared: each rank has a file of its own without it"
            )


def library_of(
    backend: Backend, options: LibraryOptions, transfer_bytes: int
) -> MpiioAccess | Hdf5Access | None:
    """None for files through the kernel. A UsageError where options do not go together."""
    options.refuse(backend)
    if backend == "mpiio":
        return MpiioAccess(
            shared=options.shared,
            collective=options.collective,
            block_bytes=_block_bytes(options.block),
            hints=dict(parse_hint(text) for text in options.hints),
        )
    if backend == "hdf5":
        chunk_bytes = size_option(options.chunk, "--chunk") if options.chunk is not None else 0
        return hdf5_access(
            options.shared, options.collective, chunk_bytes, options.deflate or 0, transfer_bytes
        )
    return None


def _block_bytes(text: str | None) -> int:
    size = 0 if text is None else size_option(text, "--block")
    if size > _BLOCK_BYTES_MAX:
        raise UsageError(f"--block {text} is more than 1 PiB", "a smaller block")
    return size


def require_parallel_hdf5(library: MpiioAccess | Hdf5Access | None, team: Ranks | None) -> None:
    """A UsageError where the ranks are of an MPI that HDF5 is not built for."""
    if isinstance(library, Hdf5Access) and team is not None and team.mpi != "openmpi":
        raise UsageError(f"--backend hdf5 with --mpi {team.mpi}", "HDF5 is built for --mpi openmpi")
