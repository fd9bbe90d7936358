"""Completes the index of a file whose recorder died."""

from collections.abc import Callable
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.events import Event, RecoverReport
from penstock.model.failure import MALFORMED, NO_SPACE
from penstock.model.plans import RecoverPlan
from penstock.programs.process import LogLine, Program, forwarding_signals

_REMEDIES = {
    MALFORMED: (
        "name a file that `penstock record` wrote; if it is one, restore its start from a copy of any age"
    ),
    NO_SPACE: "free space on the storage, then run `penstock recover` again",
}


def recover(
    file: Path,
    dry_run: bool,
    on_event: Callable[[Event], None],
    on_log: LogLine | None = None,
    rebuild: bool = False,
    salvage: bool = False,
    not_in_use: bool = False,
) -> RecoverReport:
    """What was found and done. A file that cannot be recovered is a PenstockError."""
    report: RecoverReport | None = None
    plan = RecoverPlan(
        file=str(file.absolute()), dry_run=dry_run, rebuild=rebuild, salvage=salvage, not_in_use=not_in_use
    )
    with (
        Program("penstock-recover", plan, on_log=on_log, patience_s=None) as program,
        forwarding_signals(program),
    ):
        for event in program.events():
            if isinstance(event, RecoverReport):
                report = event
            else:
                on_event(event)
        code = program.wait()
        if program.failure is not None and program.failure.code in _REMEDIES:
            raise PenstockError(program.failure.detail, _REMEDIES[program.failure.code])
        program.require_success(code)
    if report is None:
        raise PenstockError("penstock-recover ended without a report", "see its log above")
    return report
