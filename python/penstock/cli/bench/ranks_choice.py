"""The options by which a workload is put on by the ranks of a job, and through MPI-IO or HDF5."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from penstock.model.bench.load import Hdf5Access, MpiioAccess
from penstock.model.errors import UsageError
from penstock.programs.ranks import Mpi, MpiIo, Ranks, mpi_of

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
HintOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Hint for --backend mpiio, such as cb_nodes=2; repeatable."),
]


@dataclass(frozen=True)
class RanksOptions:
    """Who puts on the load."""

    ranks: RanksOption = None
    mpi: MpiOption = None


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


def require_parallel_hdf5(library: MpiioAccess | Hdf5Access | None, team: Ranks | None) -> None:
    """A UsageError where the ranks are of an MPI that HDF5 is not built for."""
    if isinstance(library, Hdf5Access) and team is not None and team.mpi != "openmpi":
        raise UsageError(f"--backend hdf5 with --mpi {team.mpi}", "HDF5 is built for --mpi openmpi")
