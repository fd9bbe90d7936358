"""Runs the integrity check of a file, and adds what its structure lacks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.files.hdf5 import use_no_plugins
from penstock.files.structure import check_structure, exported_from
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import CheckReport, Event
from penstock.model.filters import plugin_folder
from penstock.model.findings import Finding, is_clean
from penstock.model.plans import CheckPlan
from penstock.programs.process import LogLine, Program, forwarding_signals


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
    """Every chunk, every frame and the NeXus structure. Damage is in the report, not an exception."""
    if not plan.plugins:
        use_no_plugins()
    report: CheckReport | None = None
    with Program("penstock-check", plan, on_log=on_log) as program, forwarding_signals(program):
        for event in program.events():
            if isinstance(event, CheckReport):
                report = event
            else:
                on_event(event)
        code = program.wait()
        if report is None or code not in (ExitCode.FINE, ExitCode.FAILED):
            program.require_success(code)
            raise PenstockError("penstock-check ended without a report", "see its log above")
    return with_structure(report, Path(plan.file))


_NO_CHECKSUMS = "no checksums in this file"  # the native check calls each file so that has no segments


def with_structure(report: CheckReport, file: Path) -> CheckReport:
    """The report with the findings about the NeXus structure; a file that h5py cannot open has none."""
    try:
        findings = [*_known(report.findings, exported_from(file)), *check_structure(file)]
    except PenstockError:
        if report.ok:  # the native check opened it, so this is news
            raise
        findings = list(report.findings)
    return report.model_copy(update={"findings": findings, "ok": report.ok and is_clean(findings)})


def _known(findings: list[Finding], source: str | None) -> list[Finding]:
    """Of a file of `penstock export` it is said where the checksums are."""
    if source is None:
        return findings
    remedy = f"it is an export of Penstock: `penstock check` of {source or 'the recorded file'} verifies them"
    return [
        each.model_copy(update={"remedy": remedy}) if each.what == _NO_CHECKSUMS else each
        for each in findings
    ]
