"""Why a figure may be better or worse than the storage is, and when that does not matter."""

import math
from dataclasses import dataclass

from penstock.bench.judge.checks import AT_HAND, NO_STEAL, QUIET, waits_ns
from penstock.bench.judge.clock import CLOCK_SOURCE
from penstock.bench.judge.generator_checks import IN_TIME, NOT_THE_BOTTLENECK
from penstock.bench.judge.meanwhile import ALONE, own_and_noted_bytes
from penstock.model.bench.runs import Bias, Check, Run
from penstock.model.units import human_percent, human_rate

# Other programs take processor time, and what is made of them is reckoned with below.
_OF_PROCESSORS = frozenset((NO_STEAL, QUIET, AT_HAND, IN_TIME, NOT_THE_BOTTLENECK, CLOCK_SOURCE))
# What shares more than processors with others (their caches, their memory) is not reckoned with.
FAR_SHARE = 0.5
# For each wake of a writer: threads of a journal, of the block layer, of interrupts and their like.
_WAKES = 10
_MEMORY_SHARE = 0.01


def doubtful(run: Run, bias: Bias) -> list[Check]:
    """The warnings for which figures may look better, or worse, than the storage is."""
    return [c for c in run.checks if c.outcome == "warning" and c.bias in (bias, "either")]


@dataclass(frozen=True)
class BestCase:
    """The most that storage which lost frames under other load would have sustained without that load."""

    needed_bytes_per_s: float
    bytes_per_s: float | None  # None: not known
    hindered: float = 0.0  # the share of the time that is taken out
    unknown: str = ""  # why

    @property
    def is_far_too_slow(self) -> bool:
        return self.bytes_per_s is not None and self.bytes_per_s <= FAR_SHARE * self.needed_bytes_per_s

    @property
    def reported(self) -> str:
        """A sentence, with what is needed beside it."""
        needed = human_rate(self.needed_bytes_per_s)
        if self.bytes_per_s is None:
            return f"the best case for the storage is unknown because {self.unknown}; required: {needed}"
        kept = f"other load delayed the run for at most {human_percent(self.hindered, 2)} of the time"
        found = f"at most {human_rate(self.bytes_per_s)} of the required {needed}"
        if self.is_far_too_slow:
            return f"{kept}, which does not explain the loss: without it, the storage would sustain {found}"
        return (
            f"{kept}, which may explain the loss: without it, the storage would sustain {found} (at half"
            " of the required rate or less, the answer is no)"
        )


def best_case(run: Run) -> BestCase | None:
    """Of a run that others on the machine may have hindered; None where nothing says that they did.

    All that it carried is put into the time in which nothing on the machine waited for a processor, and all
    that the device moved is taken for what the run could have had: it cannot have carried more then. Where
    even that is less than half of what is needed, others are no excuse. Their use of the storage may cost
    more than their bytes, so that has to be known, and little.
    """
    figures, hindered = run.frames, hindered_share(run)
    doubts = {check.name for check in doubtful(run, "worse")}
    if figures is None or not doubts & _OF_PROCESSORS:
        return None
    needed = figures.needed_bytes_per_s
    if unknown := _why_unknown(run, doubts, hindered):
        return BestCase(needed, None, unknown=unknown)
    assert hindered is not None
    most = figures.carried_bytes_per_s / (1 - hindered) * _moved_for_own(run)
    if not math.isfinite(most):
        return BestCase(needed, None, unknown="the traffic of the device is unknown")
    return BestCase(needed, most, hindered)


def _why_unknown(run: Run, doubts: set[str], hindered: float | None) -> str:
    """Returns why no best case can be computed; empty if it can."""
    known = {check.name: check.outcome for check in run.checks}
    if not run.document.storage.direct:
        return "the data went through the page cache, which other programs also fill"
    if hindered is None:
        return "the kernel does not report how long threads waited for a processor"
    if run.ceiling_hz is None:
        return "the generator's own ceiling was not measured"
    if others := doubts - _OF_PROCESSORS:
        return f"more than the processors limited the run ({', '.join(sorted(others))})"
    if known.get(ALONE) != "ok":
        return f'the check "{ALONE}" did not pass'
    return "threads waited for a processor all the time" if hindered >= 1 else ""


def _moved_for_own(run: Run) -> float:
    """Bytes that the device moved for each one of the run, whoever asked for them, journals among them."""
    seen, (own, _) = run.meanwhile, own_and_noted_bytes(run.document)
    if seen is None or not own:
        return math.inf
    return max(1.0, (seen.device_read_bytes + seen.device_written_bytes) / own)


def hindered_share(run: Run) -> float | None:
    """Of the time of a run, at most: in which others may have kept it from going on. None where not known."""
    document = run.document
    before, after = document.machine["before"], document.machine["after"]
    pressure_s = run.meanwhile.processor_pressure_s if run.meanwhile is not None else None
    seconds, counted = document.active_seconds, before.get("processor_seconds")
    if pressure_s is None or not counted or seconds <= 0:
        return None
    spent: dict[str, float] = {
        name: after["processor_seconds"][name] - before_s for name, before_s in counted.items()
    }
    gaps = document.generator.gaps if document.generator is not None else None
    stood_s = gaps.sum_ns * 1e-9 if gaps is not None else 0.0
    # Where a share of the processors is all that this program is given, the kernel may count it elsewhere.
    own_s = max(waits_ns(document), default=0) * 1e-9
    busy_share = 1 - spent["idle"] / sum(spent.values()) if sum(spent.values()) > 0 else 1.0
    somewhere = waiting_somewhere(pressure_s / seconds, before["processors"], busy_share)
    if (path := _waiting_on_a_plain_path(run, seconds)) is not None:
        somewhere = min(somewhere, path)
    # Who is interrupted does not wait, as the kernel counts it.
    taken_s = spent["steal"] + spent["irq"] + spent["softirq"]
    return min(1.0, max(somewhere, own_s / seconds) + (taken_s + stood_s) / seconds)


def _waiting_on_a_plain_path(run: Run, seconds: float) -> float | None:
    """The share of the time, at most, in which a write waited for processors on its way to a plain disk.

    What the kernel does on that way is short, and wakes up as the generator's own threads do: it waits as
    long as these each time. So many times of theirs are allowed for it. None where something on that way may
    need processors for longer, or lack memory.
    """
    seen, waits = run.meanwhile, waits_ns(run.document)
    if seen is None or not seen.plain or not waits or min(waits) < 0:
        return None
    if seen.memory_pressure_s is None or seen.memory_pressure_s > _MEMORY_SHARE * seconds:
        return None
    return _WAKES * max(waits) * 1e-9 / seconds


def waiting_somewhere(pressure: float, processors: int, busy_share: float) -> float:
    """The share of the time, at most, in which something waited for any of the processors.

    The kernel's `pressure` is the mean over processors, each with the weight of its busy time: a wait on one
    that is seldom busy hardly shows in it. With w and b the waiting and the busy share of each processor,
    w <= b, the pressure is sum(w b) / sum(b) >= sum(w^2) / sum(b), and by Cauchy and Schwarz sum(w) is at
    most sqrt(processors * sum(w^2)).
    """
    return min(1.0, math.sqrt(max(0.0, pressure) * processors * processors * busy_share))
