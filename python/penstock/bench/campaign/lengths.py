"""Whether runs of a campaign can be long enough to be valid, as far as that is known before."""

from collections.abc import Iterator

from penstock.bench.campaign.campaigns import GUESSED_BYTES_PER_S, CampaignPlan
from penstock.bench.judge.checks import FAR_TOO_SHORT_S, SHORT_S
from penstock.bench.run.jobs import Job
from penstock.model.bench.runs import OPERATION_S_MIN
from penstock.model.text import counted
from penstock.model.units import human_rate, human_seconds, human_size

_LONGER = "increase --scale to make runs longer"


def length_warnings(plan: CampaignPlan) -> Iterator[str]:
    """Yields a warning for each kind of run that may be too short. Network runs have their own checks."""
    jobs = [job for job in plan.jobs.values() if isinstance(job, Job)]
    yield from _paced([job.due_s for job in jobs if job.due_s is not None])
    yield from _unpaced([job.phase_bytes for job in jobs if job.phase_bytes])
    if any(job.workload == "metadata" for job in jobs):
        yield (
            f"operations that take less than {human_seconds(OPERATION_S_MIN)} in total are left out, and"
            f" those below {human_seconds(SHORT_S)} give a warning; {_LONGER}"
        )


def _paced(seconds: list[float]) -> Iterator[str]:
    """The minimum duration of a run at a rate is known."""
    for limit_s, what in ((FAR_TOO_SHORT_S, "are invalid"), (SHORT_S, "give a warning")):
        short = [each for each in seconds if each < limit_s]
        if short:
            least = human_seconds(min(short)) if min(short) else "a moment"
            yield (
                f"{len(short)} of {counted(len(seconds), 'case')} at a rate may last only {least}: runs below"
                f" {human_seconds(limit_s)} {what}; {_LONGER}"
            )
            return


def _unpaced(sizes: list[int]) -> Iterator[str]:
    """The duration of an unpaced run depends on the storage."""
    least = min(sizes, default=0)
    if not least or least >= SHORT_S * GUESSED_BYTES_PER_S:
        return
    yield (
        f"the shortest phase moves {human_size(least)}: above {human_rate(least / SHORT_S)} it takes less"
        f" than {human_seconds(SHORT_S)}, which gives a warning; above {human_rate(least / FAR_TOO_SHORT_S)}"
        f" less than {human_seconds(FAR_TOO_SHORT_S)}, and it is left out or the run is invalid; {_LONGER}"
    )
