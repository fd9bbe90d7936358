"""Options for workloads of several MPI ranks, through MPI-IO or HDF5."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from penstock.lab.clients import folders_of_ranks, ranks_text
from penstock.model import panels
from penstock.model.bench.load import Hdf5Access, MpiioAccess
from penstock.model.errors import UsageError
from penstock.model.storage_url import Place
from penstock.programs.ranks import Mpi, MpiIo, Ranks, mpi_of

Backend = Literal["posix", "mpiio", "hdf5", "store", "null"]

RanksOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="Number of MPI processes that generate the load. [default: one process without MPI]",
        rich_help_panel=panels.WORKLOAD,
    ),
]
MpiOption = Annotated[
    Mpi | None,
    typer.Option(
        help="MPI implementation for --ranks. [default: openmpi, or that of --mpi-io]",
        rich_help_panel=panels.WORKLOAD,
    ),
]
HintOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="MPI-IO hint for --backend mpiio, such as cb_nodes=2. Repeatable.",
        rich_help_panel=panels.ACCESS,
    ),
]


@dataclass(frozen=True)
class RanksOptions:
    """Processes that put on the load."""

    ranks: RanksOption = None
    mpi: MpiOption = None


def team_of(
    ranks: int | None, mpi: Mpi | None, mpi_io: MpiIo | None = None, needs_mpi: bool = False
) -> Ranks | None:
    """Returns None if one process puts on the load. Raises UsageError if options exclude each other."""
    if ranks is None and not needs_mpi:
        if mpi is not None:
            raise UsageError(f"--mpi {mpi} requires --ranks", "add --ranks N")
        return None
    if mpi_io is not None and mpi not in (None, mpi_of(mpi_io)):
        raise UsageError(
            f"--mpi-io {mpi_io} is not part of {mpi}", f"leave --mpi out, or give --mpi {mpi_of(mpi_io)}"
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


def clients_text(target: Place, team: Ranks | None) -> str:
    """ "client-1: ranks 0, 2; client-2: ranks 1, 3"; empty unless ranks use different clients."""
    return ranks_text(folders_of_ranks(target, team), team.count) if team is not None else ""


def require_parallel_hdf5(library: MpiioAccess | Hdf5Access | None, team: Ranks | None) -> None:
    """Raises UsageError if HDF5 is not built for the MPI of the ranks."""
    if isinstance(library, Hdf5Access) and team is not None and team.mpi != "openmpi":
        raise UsageError(f"--backend hdf5 does not support --mpi {team.mpi}", "use --mpi openmpi")
