"""Whether runs of a campaign can be long enough to be valid, as far as that is known before."""

from collections.abc import Iterator

from penstock.bench.campaign.campaigns import GUESSED_BYTES_PER_S, CampaignPlan
from penstock.bench.judge.checks import FAR_TOO_SHORT_S, SHORT_S
from penstock.bench.run.jobs import Job
from penstock.model.bench.runs import OPERATION_S_MIN
from penstock.model.text import counted
from penstock.model.units import human_rate, human_seconds, human_size

_LONGER = "a larger --scale makes them longer"


def length_warnings(plan: CampaignPlan) -> Iterator[str]:
    """A sentence for each way in which they may be too short. Those of a network have checks of their own."""
    jobs = [job for job in plan.jobs.values() if isinstance(job, Job)]
    yield from _paced([job.due_s for job in jobs if job.due_s is not None])
    yield from _unpaced([job.phase_bytes for job in jobs if job.phase_bytes])
    if any(job.workload == "metadata" for job in jobs):
        yield (
            f"operations that take less than {human_seconds(OPERATION_S_MIN)} together are left out, and"
            f" those below {human_seconds(SHORT_S)} are warned of; {_LONGER}"
        )


def _paced(seconds: list[float]) -> Iterator[str]:
    """At a rate the length is known: it is the least."""
    for limit_s, what in ((FAR_TOO_SHORT_S, "invalid"), (SHORT_S, "warned")):
        short = [each for each in seconds if each < limit_s]
        if short:
            least = human_seconds(min(short)) if min(short) else "a moment"
            yield (
                f"in {len(short)} of {counted(len(seconds), 'case')} at a rate frames become due for only"
                f" {least}: below {human_seconds(limit_s)} a run is {what}; {_LONGER}"
            )
            return


def _unpaced(sizes: list[int]) -> Iterator[str]:
    """The duration of an unpaced run depends on the storage."""
    least = min(sizes, default=0)
    if not least or least >= SHORT_S * GUESSED_BYTES_PER_S:
        return
    yield (
        f"the shortest phase moves {human_size(least)}: from {human_rate(least / FAR_TOO_SHORT_S)} on it"
        f" takes less than {human_seconds(FAR_TOO_SHORT_S)}, which is left out or makes the run invalid; from"
        f" {human_rate(least / SHORT_S)} on less than {human_seconds(SHORT_S)}, which is warned of; {_LONGER}"
    )
