"""Runs the integrity check of a file, and adds what its structure lacks."""

import contextlib
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import CheckReport, Event
from penstock.model.filters import plugin_folder
from penstock.model.findings import (
    FEWER_THAN_ANNOUNCED,
    FRAMES_MISSING,
    LENGTHS_DISAGREE,
    NO_CHECKSUMS,
    NOT_COMPARED,
    NOTHING_TO_COMPARE,
    TRUNCATED,
    Finding,
    is_clean,
)
from penstock.model.plans import CheckPlan
from penstock.programs.follow import follow
from penstock.programs.process import LogLine, Program, forwarding_signals

_REMEDY_MISSING = (
    "leave them out of the analysis: they read as the fill value, and /entry/penstock/frame_state is not 1"
)
_WITH_REPORT = (ExitCode.FINE, ExitCode.FAILED, ExitCode.INTERRUPTED, ExitCode.TERMINATED)


def check_plan(
    file: Path, against: dict[str, Any] | None, threads: int = 2, plugins: bool = True
) -> CheckPlan:
    return CheckPlan(
        file=str(file.absolute()),
        against=against,
        threads=threads,
        plugin_folders=[plugin_folder()],
        plugins=plugins,
    )


def count_recoverable(file: Path, deadline_s: float = 60.0) -> CheckReport | None:
    """Counts the frames that the segments of an unfinished file hold, by their records alone.

    `frames` of the report is 0, `bytes` is what the frames take. None after `deadline_s` seconds.
    """
    plan = check_plan(file, None).model_copy(update={"count_only": True})
    report: CheckReport | None = None
    # A call that a stalled storage holds hears nothing: it is killed after 1 s more.
    with Program("penstock-check", plan, patience_s=1.0) as program, forwarding_signals(program):
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            program.signal(signal.SIGTERM)

        late = threading.Timer(deadline_s, give_up)
        late.start()
        try:
            for event in program.events():
                if isinstance(event, CheckReport):
                    report = event
            program.require_success(program.wait(), _WITH_REPORT)
        finally:
            late.cancel()
    if report is None or report.complete:
        return report
    if not is_late.is_set():
        code = ExitCode.of_signal(report.stopped_by or "SIGINT")
        raise PenstockError("interrupted while the frames were counted", code=code)
    return None


def check(plan: CheckPlan, on_event: Callable[[Event], None], on_log: LogLine | None = None) -> CheckReport:
    """Every chunk, every frame and the NeXus structure. Damage is in the report, not an exception.

    Of a file of links that Penstock made, the files behind its links too.
    """
    if not plan.plugins:
        from penstock.files.hdf5 import use_no_plugins  # noqa: PLC0415  (it loads HDF5)

        use_no_plugins()
    report = _judged(follow(plan, lambda each: _of_one_file(each, on_event, on_log)), plan)
    if not report.missing or report.unfinished or not report.complete:
        return report
    from penstock.files.missing import missing_ranges  # noqa: PLC0415  (it loads HDF5)

    with contextlib.suppress(PenstockError):  # the findings say why the file cannot be read
        return report.model_copy(update={"missing_ranges": missing_ranges(Path(plan.file))})
    return report


def _judged(report: CheckReport, plan: CheckPlan) -> CheckReport:
    """Returns the report without what only looks like damage, and without what follows from other findings.

    A missing reference for `--against` is not damage. A truncated file lacks checksums, frames and the
    description of a simulation because its end is missing. An unfinished file has fewer frames than
    announced, and its columns end at different frames.
    """
    findings = [_in_words_of_users(each, plan) for each in report.findings]
    is_truncated = any(each.what == TRUNCATED for each in findings)
    implied = {NO_CHECKSUMS, FRAMES_MISSING, NOT_COMPARED} if is_truncated else set()
    implied |= {FEWER_THAN_ANNOUNCED, LENGTHS_DISAGREE} if report.unfinished else set()
    findings = [each for each in findings if each.what not in implied]
    return report.model_copy(update={"findings": findings, "ok": report.complete and is_clean(findings)})


def _in_words_of_users(finding: Finding, plan: CheckPlan) -> Finding:
    if finding.what == NOTHING_TO_COMPARE:
        return _not_compared(finding, plan)
    if finding.what == FRAMES_MISSING:
        return finding.model_copy(update={"remedy": _REMEDY_MISSING})
    return finding


def _not_compared(finding: Finding, plan: CheckPlan) -> Finding:
    if plan.against is not None and "recorded" in plan.against:
        why, remedy = "not recorded from `penstock simulate`", "name the images with `--against PATH`"
    else:
        why, remedy = finding.actual, "name other images with `--against PATH`"
    return finding.model_copy(
        update={
            "level": "warning",
            "what": NOT_COMPARED,
            "actual": why,
            "remedy": f"{remedy}, or leave out `--against`",
        }
    )


def _of_one_file(plan: CheckPlan, on_event: Callable[[Event], None], on_log: LogLine | None) -> CheckReport:
    report: CheckReport | None = None
    with Program("penstock-check", plan, on_log=on_log) as program, forwarding_signals(program):
        for event in program.events():
            if isinstance(event, CheckReport):
                report = event
            else:
                on_event(event)
        code = program.wait()
        if report is None or code not in _WITH_REPORT:
            program.require_success(code)
            raise PenstockError("penstock-check ended without a report", "see its log above")
    return report
