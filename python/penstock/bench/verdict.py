"""Can this storage take this detector?

Measured in two runs: at the detector's own rate, which tells whether frames are lost, and then the same
pattern as fast as it goes, which tells how much is left. `judge` looks at nothing but the runs.
"""

import math
from collections.abc import Iterator
from typing import Literal

from penstock.bench.checks import CEILING_FACTOR
from penstock.bench.folder import BenchFolder
from penstock.bench.run import FramesRequest, Telling, run_frames
from penstock.model.catalogue import Detector
from penstock.model.errors import ExitCode
from penstock.model.runs import Bias, Check, Run, Verdict

# Of the frames of the run at the detector's rate.
_FULL_SPEED_SHARE = 3
_FULL_SPEED_FRAMES_MIN = 20

EXIT_CODES = {
    "yes": ExitCode.FINE,
    "no": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}


def full_speed_request(request: FramesRequest) -> FramesRequest:
    """What follows the run at the detector's rate."""
    return request.as_fast_as_it_goes(max(_FULL_SPEED_FRAMES_MIN, request.frames // _FULL_SPEED_SHARE))


def measure(detector: Detector, request: FramesRequest, folder: BenchFolder, telling: Telling) -> Verdict:
    """Both runs; the second one is left out where the first was cut short."""
    at_rate = run_frames(request, folder, "rate-", telling)
    cut_short = at_rate.document.interrupted or at_rate.document.problem is not None
    runs = [at_rate]
    if not cut_short:
        runs.append(run_frames(full_speed_request(request), folder, "full-", telling))
    return judge(detector.name, runs)


def judge(detector: str, runs: list[Run]) -> Verdict:
    """`runs`: at the detector's rate, and as fast as it goes where that was measured."""
    at_rate, full = runs[0], runs[1] if len(runs) > 1 else None
    figures = at_rate.frames
    assert figures is not None
    measured = full.frames.carried_bytes_per_s if full is not None and full.frames is not None else None
    if full is not None and full.validity == "invalid":
        measured = None
    margin = measured / figures.needed_bytes_per_s - 1 if measured else None
    answer, reasons = _answer(at_rate, full, margin)
    wanting = [check for run in runs for check in run.checks if check.outcome != "ok"]
    advice = [check.advice for check in wanting if check.advice]
    if full is not None and _generator_limited(full, at_rate.ceiling_hz):
        advice.append(
            "what was measured is near what the generator can do: the storage carries at least that"
        )
    return Verdict(
        detector=detector,
        answer=answer,
        reasons=reasons,
        advice=list(dict.fromkeys(advice)),
        needed_bytes_per_s=figures.needed_bytes_per_s,
        measured_bytes_per_s=measured,
        margin=margin,
        detectors=math.floor(measured / figures.needed_bytes_per_s) if measured else None,
        lost=figures.due - figures.written,
        due=figures.due,
        lost_share_bound_95=figures.lost_share_bound_95,
        runs=runs,
    )


def _generator_limited(full: Run, ceiling_hz: float | None) -> bool:
    """Frames went nearly as fast as they do without any storage."""
    seconds = full.document.seconds.completed if full.document.seconds else None
    if full.frames is None or not seconds or ceiling_hz is None:
        return False
    return full.frames.written / seconds * CEILING_FACTOR > ceiling_hz


_Answer = tuple[Literal["yes", "no", "cannot tell", "invalid"], list[str]]


def _answer(run: Run, full: Run | None, margin: float | None) -> _Answer:
    """What a condition may have made too good is no yes; what it may have made too bad is no no."""
    assert run.frames is not None
    failed = [check for check in run.checks if check.outcome == "failed"]
    if failed:
        return "invalid", [_sentence(check) for check in failed]
    lost = run.frames.due - run.frames.written
    if lost > 0:
        found = (
            f"{lost} of {run.frames.due} frames were lost ({run.frames.dropped} because the buffer was full)"
        )
        doubts = list(_doubts(run, "worse"))
        return ("cannot tell", [found, *doubts]) if doubts else ("no", [found])
    found = f"none of {run.frames.due} frames was lost"
    doubts = [*_doubts(run, "better"), *(_doubts(full, "better") if full else ()), *_margin_doubts(margin)]
    return ("cannot tell", [found, *doubts]) if doubts else ("yes", [found])


def _doubts(run: Run, bias: Bias) -> Iterator[str]:
    return (_sentence(c) for c in run.checks if c.outcome == "warning" and c.bias in (bias, "either"))


def _margin_doubts(margin: float | None) -> Iterator[str]:
    if margin is None:
        yield "how much the storage carries at most was not measured"
    elif margin < 0:
        yield "as fast as it goes, the storage carried less than the detector needs"


def _sentence(check: Check) -> str:
    return f"{check.name}: {check.actual}; expected {check.expected}"
