"""Runs the integrity check of a file, and adds what its structure lacks."""

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


def check(plan: CheckPlan, on_event: Callable[[Event], None], on_log: LogLine | None = None) -> CheckReport:
    """Every chunk, every frame and the NeXus structure. Damage is in the report, not an exception.

    Of a file of links that Penstock made, the files behind its links too.
    """
    if not plan.plugins:
        from penstock.files.hdf5 import use_no_plugins  # noqa: PLC0415  (it loads HDF5)

        use_no_plugins()
    return follow(plan, lambda each: _of_one_file(each, on_event, on_log))


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
