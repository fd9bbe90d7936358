"""How a native program is started as the ranks of a job."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.model.errors import UsageError

Mpi = Literal["openmpi", "mpich"]
# Implementations of MPI-IO: Open MPI's own, the one that it took over, and MPICH's.
MpiIo = Literal["ompio", "romio", "mpich"]

# Debian's names, where both are installed, and everybody's.
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    "openmpi": ("mpirun.openmpi", "mpirun"),
    "mpich": ("mpiexec.mpich", "mpiexec.hydra", "mpiexec"),
}


# As Open MPI 4 calls its components.
_COMPONENTS = {"ompio": "ompio", "romio": "romio321"}


def mpi_of(mpi_io: MpiIo) -> Mpi:
    """The MPI that an implementation of MPI-IO belongs to."""
    return "mpich" if mpi_io == "mpich" else "openmpi"


@dataclass(frozen=True)
class Ranks:
    """Processes of one MPI, on this machine or on those of the job that this one is part of."""

    count: int
    mpi: Mpi = "openmpi"
    mpi_io: MpiIo | None = None  # None: the MPI's own choice

    def command(self, program: Path, inside: Sequence[str] = ()) -> list[str]:
        """What starts `program`; its arguments follow. A UsageError where the MPI is not installed.

        `inside`: a command in front of each rank.
        """
        for launcher in _LAUNCHERS[self.mpi]:
            if found := shutil.which(launcher):
                break
        else:
            raise UsageError(
                f"{self.mpi} is not installed: there is no {' and no '.join(_LAUNCHERS[self.mpi])}",
                "on Debian: apt-get install openmpi-bin, or mpich",
            )
        return [found, *self._options(), "-n", str(self.count), *inside, str(program)]

    def _options(self) -> list[str]:
        if self.mpi == "mpich":
            return ["-bind-to", "none"]
        # The ranks' threads are many, and the machine may have fewer cores than that.
        return ["--bind-to", "none", "--oversubscribe"]

    def environment(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Settings that a user's own go before."""
        defaults = {
            # Messages are small; the system call that this needs is often forbidden in containers.
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            # When a rank has died, mpirun asks the others to end after these seconds, and kills them after as
            # many again: they report what they measured meanwhile. It does not end earlier.
            "OMPI_MCA_odls_base_sigkill_timeout": "2",
        }
        if self.mpi_io in _COMPONENTS:
            defaults["OMPI_MCA_io"] = _COMPONENTS[self.mpi_io]
        if os.geteuid() == 0:
            defaults |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {**defaults, **environment}
