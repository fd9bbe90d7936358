"""Checks a file and, if Penstock made it of links, the linked files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.files.links import LINKS_MAX, Lead, Maker, absent_paths, leads_in, maker_of
from penstock.files.structure import check_structure, exported_from, is_recorded
from penstock.model.errors import PenstockError
from penstock.model.events import CheckReport, Reached
from penstock.model.findings import (
    ANY_FRAME,
    NO_CHECKSUMS,
    NOT_HDF5,
    SIGNATURE_IS_CORRUPT,
    UNFINISHED_RECOVERY,
    Finding,
    Level,
    is_clean,
)
from penstock.model.plans import CheckPlan
from penstock.programs.signals import signal_of

CheckOne = Callable[[CheckPlan], CheckReport]

_DEPTH_MAX = 8  # files of links that show files of links
_FINDINGS_MAX = 1000
_PLACES_KEPT = 20  # of each kind of finding, as the native check keeps them
_ORDER: list[Level] = ["error", "warning", "info"]
_ELSEWHERE = "a dataset cannot be examined"
_SUMS = (
    *("chunks", "frame_chunks", "frames", "missing", "partial"),
    *("damaged_frames", "dropped_frames", "lost_frames", "segments", "bytes"),
    *("compared_frames", "different_frames", "seconds"),
)
_REMEDY_GONE = "move it back to the target of the link: links are relative to this file"
_BESIDE: dict[Maker, str] = {
    "join": "it has only links; the linked files have checksums and are checked with it",
    "attach": "a file of `penstock attach` has no checksums of its values; the series is checked with it",
}


def follow(plan: CheckPlan, check_one: CheckOne) -> CheckReport:
    """Returns the report on a file and those that it links to: numbers are sums, findings name their file."""
    return _bounded(_Following(check_one).file(plan, ()))


def with_structure(report: CheckReport, file: Path, maker: Maker | None) -> CheckReport:
    """Returns the report with findings about the NeXus structure, which needs a file that HDF5 opens."""
    if any(_is_unreadable(each) or each.what == UNFINISHED_RECOVERY for each in report.findings):
        return report
    try:
        structure = check_structure(file, report.unfinished)
        source = exported_from(file) if maker == "export" else None
        findings = [*_of_export(report.findings, source), *structure]
    except PenstockError as error:
        findings = list(report.findings)
        # The native check opened it, so this is news, unless HDF5 rejects a file that was not closed.
        if report.ok and not report.unfinished:
            findings.append(_unread_structure(file, error))
    return _with(report, findings)


@dataclass
class _Following:
    check_one: CheckOne
    seen: set[tuple[int, int]] = field(default_factory=set)  # files that were checked, or are being so
    stopped: bool = False

    def file(self, plan: CheckPlan, above: tuple[tuple[int, int], ...]) -> CheckReport:
        path = Path(plan.file)
        maker = maker_of(path)
        if maker is None:
            return self._until_stopped(
                self._checked(plan), lambda report: with_structure(report, path, maker)
            )
        # There are no frames in it to compare.
        report = self._checked(plan.model_copy(update={"against": None}))
        if maker == "export":
            report = self._until_stopped(report, lambda report: with_structure(report, path, maker))
        if self.stopped or any(_is_unreadable(each) for each in report.findings):
            return report
        report = _with(report, _without_own(report.findings, maker))
        report = self._until_stopped(report, lambda report: self._with_links(report, plan, above, maker))
        return _with_place_of_sums(report, path) if maker == "export" and report.complete else report

    def _with_links(
        self, report: CheckReport, plan: CheckPlan, above: tuple[tuple[int, int], ...], maker: Maker
    ) -> CheckReport:
        path = Path(plan.file)
        try:
            leads, all_of_them = leads_in(path)
        except PenstockError as error:
            return _with(report, [*report.findings, _unread_structure(path, error)])
        findings = [] if all_of_them else [_too_many(path)]
        if is_clean(report.findings):  # otherwise an export's structure lists the missing ones
            findings += [_gone(lead) for lead in leads if lead.problem]
        report = _with(report, [*report.findings, *findings])
        return self._behind(report, plan, leads, (*above, _identity(path)), maker)

    def _checked(self, plan: CheckPlan) -> CheckReport:
        self.seen.add(_identity(Path(plan.file)))
        report = self.check_one(plan)
        self.stopped = self.stopped or not report.complete
        return report

    def _until_stopped(self, report: CheckReport, step: Callable[[CheckReport], CheckReport]) -> CheckReport:
        """Returns the report after `step`; an incomplete one if a signal stopped it."""
        if self.stopped:
            return report
        try:
            return step(report)
        except KeyboardInterrupt as stop:
            self.stopped = True
            end = {"ok": False, "complete": False, "stopped_by": signal_of(stop)}
            return report.model_copy(update={**end, "reached": Reached(what="checking the structure")})

    def _behind(
        self,
        report: CheckReport,
        plan: CheckPlan,
        leads: list[Lead],
        above: tuple[tuple[int, int], ...],
        maker: Maker,
    ) -> CheckReport:
        """Returns the report with those on the linked files, each checked once."""
        by_file: dict[Path, list[Lead]] = {}
        for lead in leads:
            if lead.target is not None:
                by_file.setdefault(lead.target, []).append(lead)
        for target, those in by_file.items():
            if self.stopped:
                break
            identity = _identity(target)
            if identity in above or len(above) > _DEPTH_MAX:
                report = _with(report, [*report.findings, _circle(those[0])])
                continue
            if identity not in self.seen:
                found = self._target(plan.model_copy(update={"file": str(target)}), above, maker)
                report = _sum(report, found, those[0].file, str(target))
                if any(_is_unreadable(each) for each in found.findings):
                    continue
            absent = [_absent(lead) for lead in absent_paths(those)]
            report = _with(report, [*report.findings, *absent])
        return report

    def _target(self, plan: CheckPlan, above: tuple[tuple[int, int], ...], maker: Maker) -> CheckReport:
        """Checks a linked file. One with frames alone, such as a copy in an export, has no structure."""
        path = Path(plan.file)
        links = maker_of(path)
        if is_recorded(path) or (links is not None and not links == maker == "export"):
            return self.file(plan, above)
        report = self._checked(plan)
        return _with(report, [each for each in report.findings if each.what != NO_CHECKSUMS])


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _is_unreadable(finding: Finding) -> bool:
    """Returns whether the finding is that HDF5 cannot open the file; then nothing else opens it."""
    return finding.level == "error" and finding.what in (
        "the file cannot be read",
        NOT_HDF5,
        SIGNATURE_IS_CORRUPT,
        "HDF5 cannot read the index",
        "the storage cannot read the data",
    )


def _with(report: CheckReport, findings: list[Finding]) -> CheckReport:
    return report.model_copy(update={"findings": findings, "ok": report.ok and is_clean(findings)})


def _sum(report: CheckReport, other: CheckReport, name: str, path: str) -> CheckReport:
    findings = [_of_source_file(each, name, path) for each in other.findings]
    sums: dict[str, Any] = {key: getattr(report, key) + getattr(other, key) for key in _SUMS}
    ok = report.ok and other.ok
    if not other.complete and report.complete:
        where = Reached(what=f"{name}: {other.reached.what}") if other.reached else None
        sums |= {"complete": False, "reached": where, "stopped_by": other.stopped_by}
    if other.recoverable is not None:
        sums["recoverable"] = (report.recoverable or 0) + other.recoverable
        sums |= {"unfinished": True, "being_recorded": report.being_recorded or other.being_recorded}
    summed = _with(report.model_copy(update={**sums, "ok": ok}), [*report.findings, *findings])
    return _bounded(summed) if len(summed.findings) > _FINDINGS_MAX else summed


def _of_source_file(finding: Finding, name: str, path: str) -> Finding:
    """Returns a finding of a source file as one of the series, in which its frames have other numbers."""
    where = name if finding.where in ("", path) else f"{name}: {finding.where}"
    frames = ANY_FRAME if finding.frames else None
    return finding.model_copy(update={"where": where, "source_file": name, "frames": frames})


def _bounded(report: CheckReport) -> CheckReport:
    """Returns the report with the first places of each kind of finding, errors first, and counts the rest."""
    kinds: dict[tuple[Level, str], list[Finding]] = {}
    for each in report.findings:
        kinds.setdefault((each.level, each.what), []).append(each)
    findings: list[Finding] = []
    for level, what in sorted(kinds, key=lambda kind: _ORDER.index(kind[0])):
        named = [each for each in kinds[level, what] if each.places == 1]
        findings += named[:_PLACES_KEPT]
        rest = sum(each.places for each in kinds[level, what]) - len(named[:_PLACES_KEPT])
        if rest > 0:
            findings.append(Finding(level=level, what=what, where=f"{rest} more", places=rest))
    return report.model_copy(update={"findings": findings})


def _of_export(findings: list[Finding], source: str | None) -> list[Finding]:
    """Returns the findings with the location of the checksums if the file is an export."""
    if source is None:
        return findings
    return _where_sums_are(
        findings, f"it is an export of Penstock: `penstock check` of {source} verifies them"
    )


def _with_place_of_sums(report: CheckReport, path: Path) -> CheckReport:
    """Returns the report on an export that says whether the checksums of its frames were compared."""
    source = exported_from(path)
    if source is None:
        return report
    remedy = (
        f"it is an export with links; {source} has the checksums and was checked with it"
        if report.segments
        else f"it is an export with copied frames, which have no checksums; `penstock check` of {source}"
        " verifies the recorded ones"
    )
    return report.model_copy(update={"findings": _where_sums_are(report.findings, remedy)})


def _without_own(findings: list[Finding], maker: Maker) -> list[Finding]:
    """Skips the finding that frames are in other files, which is normal for files of links."""
    kept = [each for each in findings if each.what != _ELSEWHERE]
    remedy = _BESIDE.get(maker)
    return kept if remedy is None else _where_sums_are(kept, remedy)


def _where_sums_are(findings: list[Finding], remedy: str) -> list[Finding]:
    """Returns the findings with `remedy` for missing checksums, which are then information only."""
    return [
        each.model_copy(update={"level": "info", "remedy": remedy}) if each.what == NO_CHECKSUMS else each
        for each in findings
    ]


def _unread_structure(file: Path, error: PenstockError) -> Finding:
    return Finding(
        level="error",
        what="the structure cannot be read",
        where=str(file),
        actual=error.message,
        remedy="the frames are readable; copy them into a new file",
    )


def _gone(lead: Lead) -> Finding:
    return Finding(
        level="error",
        what="the target of a link cannot be checked",
        where=lead.where,
        expected=lead.text,
        actual=f"{lead.file} {lead.problem}",
        remedy=_REMEDY_GONE,
    )


def _absent(lead: Lead) -> Finding:
    return Finding(
        level="error",
        what="the target of a link is missing in its file",
        where=lead.where,
        expected=lead.text,
        actual="no such object",
        remedy="another file may have its name: replace it by the right one",
    )


def _circle(lead: Lead) -> Finding:
    return Finding(
        level="error",
        what="links form a loop",
        where=lead.where,
        expected="a file with frames",
        actual=lead.text,
        remedy="create the file again from the recorded files",
    )


def _too_many(path: Path) -> Finding:
    return Finding(
        level="error",
        what="too many links",
        where=str(path),
        expected=f"at most {LINKS_MAX}",
        remedy="further links were not followed: check their files one by one",
    )
