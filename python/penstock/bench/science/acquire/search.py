"""The largest number of jobs beside which an acquisition loses no frame and is not late.

The number is doubled until the acquisition fails, then bisected; both ends are repeated. An end that does not
repeat is on the other side from then on: an acquisition that failed once beside n jobs has not sustained n.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

RUNS_OF_AN_END = 2
_STEPS_MAX = 24


@dataclass
class JobsFound:
    """What the runs say. `failed` is None where no number of jobs failed."""

    held: int | None = None
    failed: int | None = None
    runs: list[tuple[int, bool]] = field(default_factory=list)
    """number of jobs, and whether the acquisition sustained its rate"""

    @property
    def held_runs(self) -> int:
        return sum(jobs == self.held for jobs, _ in self.runs)

    @property
    def is_confirmed(self) -> bool:
        counts = Counter(jobs for jobs, _ in self.runs)
        ends = [end for end in (self.held, self.failed) if end is not None]
        return all(counts[end] >= RUNS_OF_AN_END for end in ends)

    def note(self, jobs: int, held: bool) -> None:
        self.runs.append((jobs, held))
        failed = {each for each, outcome in self.runs if not outcome}
        self.failed = min(failed, default=None)
        below = [each for each, _ in self.runs if self.failed is None or each < self.failed]
        self.held = max(below, default=None)


def find_jobs(holds: Callable[[int], bool], jobs_max: int, found: JobsFound) -> None:
    """Runs `holds` with numbers of jobs from 0 to `jobs_max`, and notes each in `found`."""
    while len(found.runs) < _STEPS_MAX:
        jobs = _next(found, jobs_max)
        if jobs is None:
            break
        found.note(jobs, holds(jobs))


def _next(found: JobsFound, jobs_max: int) -> int | None:
    """The number of jobs of the next run; None: nothing is left to find."""
    counts = Counter(jobs for jobs, _ in found.runs)
    if found.held is None:  # not even alone, or nothing yet
        return 0 if counts[0] < RUNS_OF_AN_END and found.failed in (None, 0) else None
    if found.failed is None and found.held < jobs_max:
        return min(jobs_max, max(1, 2 * found.held))
    if found.failed is not None and found.failed - found.held > 1:
        return (found.failed + found.held) // 2
    for end in (found.held, found.failed):
        if end is not None and counts[end] < RUNS_OF_AN_END:
            return end
    return None
