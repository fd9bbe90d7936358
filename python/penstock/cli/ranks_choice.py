"""The options by which a workload is put on by the ranks of a job, and through MPI-IO."""

from typing import Annotated, Literal

import typer

from penstock.cli.common import size_option
from penstock.model.errors import UsageError
from penstock.model.load import MpiioAccess
from penstock.programs.ranks import Mpi, MpiIo, Ranks, mpi_of

Backend = Literal["posix", "mpiio"]

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
BackendOption = Annotated[Backend, typer.Option(help="Through the kernel, or through MPI-IO.")]
MpiIoOption = Annotated[
    MpiIo | None,
    typer.Option(
        help="Implementation of MPI-IO: Open MPI's ompio or romio, or that of mpich."
        " [default: the MPI's own choice]"
    ),
]
SharedOption = Annotated[
    bool, typer.Option("--shared", help="With --backend mpiio: one file for all ranks, not one each.")
]
CollectiveOption = Annotated[
    bool, typer.Option("--collective", help="With --shared: all ranks do each call together.")
]
BlockOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="With --shared: a rank's bytes in a row, before those of the next rank. [default: all of them]",
    ),
]
HintOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="With --backend mpiio: a hint, such as cb_nodes=2. Several."),
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


def mpiio_of(
    backend: Backend,
    mpi_io: MpiIo | None,
    shared: bool,
    collective: bool,
    block: str | None,
    hints: list[str] | None,
) -> MpiioAccess | None:
    """None for another back end. A UsageError where options do not go together."""
    if backend != "mpiio":
        given = {
            "--mpi-io": mpi_io is not None,
            "--shared": shared,
            "--collective": collective,
            "--block": block is not None,
            "--hint": bool(hints),
        }
        for name, is_given in given.items():
            if is_given:
                raise UsageError(f"{name} without --backend mpiio", "add --backend mpiio")
        return None
    if not shared and (collective or block is not None):
        name = "--collective" if collective else "--block"
        raise UsageError(
            f"{name} without --shared", "add --shared: each rank has a file of its own without it"
        )
    return MpiioAccess(
        shared=shared,
        collective=collective,
        block_bytes=size_option(block, "--block") if block is not None else 0,
        hints=dict(_hint(text) for text in hints or []),
    )


def _hint(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise UsageError(f'--hint: "{text}" is no hint', "KEY=VALUE, such as romio_cb_write=enable")
    return name.strip(), value.strip()
