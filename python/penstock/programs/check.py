"""Runs the integrity check of a file and of those that it links to."""

import contextlib
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import CheckReport, Event
from penstock.model.filters import plugin_folder
from penstock.model.plans import CheckPlan
from penstock.programs.follow import follow
from penstock.programs.process import LogLine, Program, forwarding_signals

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
    """Counts the frames in the segments of an unfinished file, by their records alone.

    In the report `frames` is 0, and `bytes` is the stored size of the frames. Returns None after
    `deadline_s` seconds.
    """
    plan = check_plan(file, None).model_copy(update={"count_only": True})
    report: CheckReport | None = None
    # A call to a stalled storage ignores the signal: the program is killed 1 s later.
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
    """Checks every chunk, every frame and the NeXus structure, also in the files that Penstock linked to.

    Damage is in the report; it raises no exception.
    """
    if not plan.plugins:
        from penstock.files.hdf5 import use_no_plugins  # noqa: PLC0415  (it loads HDF5)

        use_no_plugins()
    report = follow(plan, lambda each: _of_one_file(each, on_event, on_log))
    if not report.missing or report.unfinished or not report.complete:
        return report
    from penstock.files.missing import missing_ranges  # noqa: PLC0415  (it loads HDF5)

    with contextlib.suppress(PenstockError):  # the findings say why the file cannot be read
        return report.model_copy(update={"missing_ranges": missing_ranges(Path(plan.file))})
    return report


def check_to_the_end(
    plan: CheckPlan, on_event: Callable[[Event], None], on_log: LogLine | None = None
) -> CheckReport:
    """As check(), where the check is one step of a command. KeyboardInterrupt: a signal ended it."""
    report = check(plan, on_event, on_log)
    if not report.complete:
        raise KeyboardInterrupt(report.stopped_by or signal.SIGINT.name)
    return report


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
