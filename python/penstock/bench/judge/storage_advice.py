"""What to do about the storage, and the one command that would make the answer certain."""

import math
import shlex
from collections.abc import Iterator

from penstock.bench.judge.answer import Decision
from penstock.bench.judge.checks import SHORT_S
from penstock.bench.judge.evidence import Measured, too_good
from penstock.bench.judge.holds import GROWTH_MAX
from penstock.model.bench.load import FramesWorkload
from penstock.model.bench.runs import StepKind
from penstock.model.units import human_hz, human_number, human_rate, human_seconds

_SMALL_FRAME_BYTES = 16 << 20
_LONGER = 5
# An unpaced run that would have been faster by more than this without other programs was disturbed.
_DISTURBED = 1.05


def storage_advice(measured: Measured, decision: Decision) -> list[str]:
    """Most effective first; empty for a yes. For an invalid measurement, what made it so."""
    if decision.answer == "invalid":
        runs = [step.run for step in measured.steps if step.kind != "probe"]
        failed = (check for run in runs for check in run.checks if check.outcome == "failed")
        return list(dict.fromkeys(f"{check.name}: {check.advice}" for check in failed if check.advice))
    if decision.answer not in ("no", "likely no", "cannot tell"):
        return []
    compressed = _compressed(measured) if decision.answer in ("no", "likely no") else []
    return [*compressed, *_faster(measured), *_larger_writes(measured), *measured.hints]


def _compressed(measured: Measured) -> Iterator[str]:
    """The detector compresses, and uncompressed frames were measured: the question may be another one."""
    if (ratio := measured.typical_ratio) is None:
        return
    needed = human_rate(measured.needed_bytes_per_s / ratio)
    option = f"--ratio {ratio:g}"
    command = _with(measured.command, "--ratio", f"{ratio:g}") if measured.command else option
    yield (
        f"measure what the detector sends: it compresses its frames, and with the catalogue's typical ratio"
        f" of {ratio:g} it needs {needed}: {command}"
    )


def _faster(measured: Measured) -> Iterator[str]:
    """From what was measured: what the storage would do without other programs is an estimate."""
    needed = measured.needed_bytes_per_s
    sustained = measured.bytes_per_s if _is_found(measured) else measured.bounds and measured.bounds.measured
    if not sustained:
        return
    if sustained >= needed:
        yield from _stalls(measured, sustained)
        return
    factor = human_number(needed / sustained, 2)
    yield f"use storage that is at least {factor} times as fast: {_seen(measured, sustained)}"
    if _is_raw(measured.command):  # what has a format has a ratio of its own
        ratio = math.ceil(10.5 * (_ratio_of(measured) * needed / sustained)) / 10
        yield f"compress: with a ratio of {ratio:g} or more the frames fit; measure with --ratio {ratio:g}"
    fits_hz = sustained / measured.frame_bytes / (1 + GROWTH_MAX)
    yield f"reduce the frame rate: about {human_hz(fits_hz, 3)} of this detector fits"


def _ratio_of(measured: Measured) -> float:
    """Of the frames that were written: 1 if they were not to be compressed ones."""
    return _number_of(measured.command, "--ratio") or 1


def _is_found(measured: Measured) -> bool:
    return measured.searches and measured.bytes_per_s is not None


def _seen(measured: Measured, sustained: float) -> str:
    """ "this one reached 1.76 GB/s, unpaced, of 4.5 GB/s; without other programs it may reach …"."""
    needed, bounds = human_rate(measured.needed_bytes_per_s), measured.bounds
    if _is_found(measured) or bounds is None:
        return f"this one sustains {human_rate(sustained)} of {needed}"
    seen = f"this one reached {human_rate(sustained)}, unpaced, of {needed}"
    if not _DISTURBED * bounds.measured < bounds.expected < math.inf:
        return seen
    return f"{seen}; without other programs it may reach about {human_rate(bounds.expected)}"


def _stalls(measured: Measured, sustained: float) -> Iterator[str]:
    """Fast enough on average."""
    stall_s = max(
        (s.run.frames.stall_s for s in measured.of("not held") if s.run.frames is not None), default=0.0
    )
    if not stall_s:
        return
    yield (
        f"find out what stalls the storage: on average it sustains {human_rate(sustained)}, which is enough,"
        f" but no write ended for {human_seconds(stall_s)}"
    )
    longer = human_number(1.5 * stall_s, 2)
    yield f"or increase --buffer-seconds to {longer}, if the detector's queue is that long"


def _larger_writes(measured: Measured) -> Iterator[str]:
    steps = measured.at_rate
    workload = steps[0].run.document.plan.workload if steps else None
    if (
        isinstance(workload, FramesWorkload)
        and workload.layout == "file_a_frame"
        and workload.frame_bytes < _SMALL_FRAME_BYTES
    ):
        yield (
            "write many frames into one file: each new file costs the storage several operations; measure"
            " with --layout file_a_writer"
        )


def next_command(measured: Measured, decision: Decision) -> str:
    """What would turn a likely answer into a certain one; empty where the answer is certain.

    --quick is left out where the search and the soak would add evidence. No run is shorter than its checks
    require.
    """
    command = _next_command(measured, decision)
    for option in ("--seconds", "--soak") if command else ():
        seconds = _number_of(command, option)
        if seconds is not None and 0 < seconds < SHORT_S:
            command = _with(command, option, f"{SHORT_S:g}")
    return command


def _next_command(measured: Measured, decision: Decision) -> str:
    is_certain = decision.answer in ("yes", "no")
    if is_certain or not measured.command or any(too_good(step) for step in measured.of("held")):
        return ""  # a repetition would not measure anything else
    if measured.problem is not None:
        return measured.command
    if decision.lacks == {"duration"}:
        return _with(measured.command, "--seconds", f"{SHORT_S:g}")
    command = _without_quick(measured.command)
    if not measured.of("held"):
        return command
    # One that is missing or invalid need not be longer.
    is_unpaced_slow = "unpaced run" in decision.lacks and measured.full_speed is not None
    is_soak_needed = "soak" in decision.lacks or not decision.lacks
    if is_unpaced_slow:
        command = _with(command, "--seconds", str(_longer(measured, "rate")))
    elif "duration" in decision.lacks and not is_soak_needed:
        command = _with(command, "--seconds", f"{SHORT_S:g}")
    if is_soak_needed:
        command = _with(
            _without(command, "--minutes"), "--soak", str(_longer(measured, "rate", "search", "soak"))
        )
    return command


def _longer(measured: Measured, *kinds: StepKind) -> int:
    """Returns several times the seconds that the longest of these steps took."""
    seconds = [step.run.document.active_seconds for step in measured.at_rate if step.kind in kinds]
    return _LONGER * max(60, math.ceil(max(seconds, default=0)))


def _without_quick(command: str) -> str:
    return shlex.join(word for word in shlex.split(command) if word != "--quick")


def _with(command: str, option: str, value: str) -> str:
    """Returns the command with the option, and without the one that it had."""
    return f"{_without(command, option)} {option} {shlex.quote(value)}"


def _number_of(command: str, option: str) -> float | None:
    """Returns the value of the option; None if it has none, or not a number."""
    words = _words(command)
    values = words[words.index(option) + 1 :] if option in words else []
    try:
        return float(values[0]) if values else None
    except ValueError:
        return None


def _is_raw(command: str) -> bool:
    words = _words(command)
    return "--format" not in words or "raw" in words[words.index("--format") :][1:2]


def _words(command: str) -> list[str]:
    """Returns the options and their values, also of "--ratio=4"."""
    return [part for word in shlex.split(command) for part in word.split("=", 1)]


def _without(command: str, option: str) -> str:
    """Returns the command without the option and its value."""
    kept: list[str] = []
    is_value = False
    for word in shlex.split(command):
        is_option = not is_value and word.split("=")[0] == option
        if not is_option and not is_value:
            kept.append(word)
        is_value = is_option and "=" not in word
    return shlex.join(kept)
