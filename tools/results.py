"""What the steps of tools/run_tests.py found and took."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

FAILURE_LINES = 8
SKIPPED = 77  # exit code of a build or a linter that cannot run here; it prints the reason last
_SKIPPED = re.compile(r": Skipped\n(.+)")
# Of sanitizers. ctest takes a test that prints that it skips for skipped, whatever its exit code.
_FOUND = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ")
_FRAMES = ("[---", "[===", "[  PASSED", "[  FAILED  ] 1 test", " 1 FAILED")  # of GoogleTest around a test
_WHERE = re.compile(_FOUND.pattern + r"|: Failure$")


@dataclass(frozen=True)
class Case:
    """One test. `state`: passed, failed or skipped. `processor_s`: None if it was not measured."""

    name: str
    state: str
    seconds: float
    processor_s: float | None = None
    reason: str = ""  # why it failed or was skipped

    @property
    def directory(self) -> str:
        """`bench` for tests/python/bench, `store` for tests/native/store."""
        parts = self.name.split("::")[0].replace("/", ".").split(".")
        return parts[2] if parts[:2] == ["tests", "python"] else parts[1] if parts[0] == "tests" else parts[0]


@dataclass
class Outcome:
    """`parts`: what ran, seconds, processor-seconds, success. `flaky`: failed once, then passed alone."""

    parts: list[tuple[str, float, float, bool]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    flaky: list[Case] = field(default_factory=list)
    broken: int = 0  # builds, linters and results that cannot be read
    said: list[str] = field(default_factory=list)  # by builds and linters that failed, last

    def of(self, state: str) -> list[Case]:
        return [case for case in self.cases if case.state == state]

    @property
    def failed(self) -> int:
        return len(self.of("failed")) + self.broken

    @property
    def ok(self) -> bool:
        return self.failed == 0 and all(ok for *_, ok in self.parts)

    def __str__(self) -> str:
        skipped = f", {len(self.of('skipped'))} skipped" if self.of("skipped") else ""
        return f"{len(self.of('passed'))} passed, {self.failed} failed{skipped}"

    def count(self, junit: Path) -> None:
        """Adds the test cases of a JUnit file. A missing or corrupt file counts as one failure."""
        try:
            self.cases += cases_of(junit)
        except (OSError, ElementTree.ParseError) as problem:
            print(f"run_tests: {junit} has no results: {problem}", file=sys.stderr)
            self.broken += 1

    def count_again(self, junit: Path) -> None:
        """Replaces failed cases by those of a second run that passed. Such a case is flaky.

        What it took follows from the second run: the first may have waited for something that never came.
        """
        try:
            passed = {case.name: case for case in cases_of(junit) if case.state == "passed"}
        except (OSError, ElementTree.ParseError):
            return
        self.flaky += [case for case in self.of("failed") if case.name in passed]
        kept = [case for case in self.cases if case not in self.flaky]
        self.cases = kept + [passed[case.name] for case in self.flaky]


def cases_of(junit: Path) -> list[Case]:
    return [_case(element) for element in ElementTree.parse(junit).iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    # Of a parameter that cannot be printed, googletest adds its bytes, which differ from build to build.
    names = (element.get(each, "").partition("  # GetParam()")[0] for each in ("classname", "name"))
    name = "::".join(dict.fromkeys(names))
    seconds = float(element.get("time", "0"))
    measured = [each.get("value") for each in element.iter("property") if each.get("name") == "processor_s"]
    processor_s = float(measured[0]) if measured and measured[0] else None
    kinds = {child.tag for child in element} | {element.get("status", "run")}
    skipped = kinds & {"skipped", "notrun", "disabled"}
    if kinds & {"failure", "error", "fail"} or (skipped and _is_no_skip(element)):
        return Case(name, "failed", seconds, processor_s, _failure(element))
    if skipped:
        return Case(name, "skipped", seconds, processor_s, _reason_of_skip(element))
    return Case(name, "passed", seconds, processor_s)


def _reason_of_skip(element: ElementTree.Element) -> str:
    """What pytest says, or the line in which a native test says it: ctest knows no reason."""
    said = _SKIPPED.search(element.findtext("system-out", ""))
    if said:
        return said[1]
    skipped = element.find("skipped")
    return "" if skipped is None else skipped.get("message", "")


def _is_no_skip(element: ElementTree.Element) -> bool:
    """ctest found no program for the test; or the test said that it skips, and a sanitizer failed it."""
    skipped = element.find("skipped")
    message = "SKIP_" if skipped is None else skipped.get("message", "")
    not_run = element.get("status") == "notrun" and not message.startswith("SKIP_")
    return not_run or bool(_FOUND.search(element.findtext("system-out", "")))


def _failure(element: ElementTree.Element) -> str:
    """pytest's E lines, or those from the first failure on, or the last ones that the test printed."""
    text = "\n".join(child.text or "" for child in element if child.tag in ("failure", "error", "system-out"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_FRAMES)]
    lines = lines or [_reason_of_skip(element)]
    first = next((i for i, line in enumerate(lines) if _WHERE.search(line)), len(lines))
    shown = [line for line in lines if line.startswith("E ")] or lines[first:] or lines[-FAILURE_LINES:]
    return indented(shown[:FAILURE_LINES])


def indented(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line[:200]}" for line in lines)


def total_of(outcomes: Iterable[Outcome]) -> Outcome:
    total = Outcome()
    for each in outcomes:
        total.parts += each.parts
        total.cases += each.cases
        total.flaky += each.flaky
        total.broken += each.broken
        total.said += each.said
    return total


def table(outcomes: Mapping[str, Outcome], total_s: float) -> str:
    lines = [f"{'step':<10} {'part':<12} {'seconds':>8} {'processor':>9}  result"]
    for name, outcome in outcomes.items():
        for what, seconds, processor_s, ok in outcome.parts:
            lines.append(
                f"{name:<10} {what:<12} {seconds:>8.1f} {processor_s:>9.1f}  {'ok' if ok else 'FAILED'}"
            )
        lines.append(f"{name:<10} {'':<12} {'':>18}  {outcome}")
    all_s = sum(processor_s for _, _, processor_s, _ in total_of(outcomes.values()).parts)
    return "\n".join([*lines, f"{'all':<10} {'':<12} {total_s:>8.1f} {all_s:>9.1f}"])


def skips(cases: Iterable[Case]) -> list[str]:
    """One line for each reason, with the number of tests."""
    counts = Counter(case.reason or "(no reason given)" for case in cases)
    return [f"{count:>5} skipped: {reason[:160]}" for reason, count in counts.most_common()]
