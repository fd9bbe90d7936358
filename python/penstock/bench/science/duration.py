"""How long a run takes, about, for plans: what is measured, what is around it, and data that is made before.

Times of processors are those that `getrusage` gave on one machine of 2026; others differ by a factor of two.
"""

import os
from dataclasses import dataclass

from penstock.model.units import human_seconds

_PROGRAM_S, _HELPER_S = 1.2, 0.5
"""of a processor: this program, and a process that looks for data, checks or removes files"""
_HELPERS, _MAKERS_HELPERS = 2, 3
GUESSED_BYTES_PER_S = 1e9
"""of storage that nobody has measured"""


def processors() -> int:
    return len(os.sched_getaffinity(0))


def start_s(processes: int, each_s: float) -> float:
    """Until processes work that take `each_s` of a processor to import their libraries."""
    return _PROGRAM_S + _HELPERS * _HELPER_S + each_s * max(1.0, processes / processors())


def making_s(processor_s: float, makers: int, each_s: float) -> float:
    """Of data that takes `processor_s` in all, by as many processes."""
    workers = min(makers, processors())
    return _MAKERS_HELPERS * _HELPER_S + each_s + processor_s / workers


@dataclass(frozen=True)
class Duration:
    """`work_s`: from the common start to the end of the work; `work_max_s`: if it may take longer.

    `around_s`: start, checks and end. `making_s`: of data, unless an earlier run has made it.
    """

    work_s: float
    around_s: float
    making_s: float = 0.0
    work_max_s: float = 0.0
    is_storage_bound: bool = False
    """what is measured takes as long as the storage makes it"""

    @property
    def run_s(self) -> float:
        return self.work_s + self.around_s

    def text(self) -> str:
        """ "about 23 s on an idle machine; 9 s more if no earlier run made the files".

        Other programs stretch it: with the processors in use, twice that was measured.
        """
        said = f"about {human_seconds(_rounded(self.run_s))}"
        if self.work_max_s > self.work_s:
            said += f" to {human_seconds(_rounded(self.work_max_s + self.around_s))}"
        said += " on an idle machine"
        if self.making_s:
            said += f"; {human_seconds(_rounded(self.making_s))} more if no earlier run made the files"
        if self.is_storage_bound:
            said += "; longer if the storage is slower than 1 GB/s"
        return said


def _rounded(seconds: float) -> float:
    """To what an estimate is worth: whole seconds, then multiples of five."""
    return max(1, round(seconds)) if seconds < 30 else 5 * round(seconds / 5)
