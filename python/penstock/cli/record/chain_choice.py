"""Options of the recorder and of the simulated detector that `penstock rehearse` has as well."""

from typing import Annotated

import typer

from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.programs.ranks import Ranks

RecorderMpi = Annotated[
    str,
    typer.Option(
        help="MPI implementation for --ranks: openmpi or mpich.",
        rich_help_panel=panels.RESOURCES,
    ),
]
ReplayMemory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Maximum memory for the images of --replay; further images are not read.",
        rich_help_panel=panels.DETECTOR,
    ),
]


def ranks_of(count: int, mpi: str) -> Ranks | None:
    """Returns the recorder's ranks; None: a single process. Raises UsageError."""
    match mpi:
        case "openmpi" | "mpich":
            return Ranks(count, mpi) if count > 1 else None
        case _:
            raise UsageError(f'--mpi: "{mpi}" is unknown', "write openmpi or mpich")
