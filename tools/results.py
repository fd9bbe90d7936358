"""What the steps of tools/run_tests.py found and took."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

FAILURE_LINES = 8


@dataclass
class Outcome:
    """`parts`: what ran, seconds, processor-seconds, whether it succeeded."""

    parts: list[tuple[str, float, float, bool]] = field(default_factory=list)
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.failed == 0 and all(ok for *_, ok in self.parts)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"

    def count(self, junit: Path) -> None:
        """Adds the test cases of a JUnit file. A missing or broken file counts as one failure."""
        try:
            cases = list(ElementTree.parse(junit).iter("testcase"))
        except (OSError, ElementTree.ParseError) as problem:
            print(f"run_tests: {junit} has no results: {problem}", file=sys.stderr)
            self.failed += 1
            return
        for case in cases:
            kinds = {child.tag for child in case} | {case.get("status", "run")}
            if kinds & {"failure", "error", "fail"}:
                self.failed += 1
                self.failures.append(_failure(case))
            elif kinds & {"skipped", "notrun", "disabled"}:
                self.skipped += 1
            else:
                self.passed += 1


def _failure(case: ElementTree.Element) -> str:
    """The test's name, and pytest's E lines or the last lines that the test printed."""
    text = "\n".join(child.text or "" for child in case if child.tag in ("failure", "error", "system-out"))
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [line for line in lines if line.startswith("E ")][:FAILURE_LINES] or lines[-FAILURE_LINES:]
    name = "::".join(dict.fromkeys((case.get("classname", ""), case.get("name", ""))))
    return "\n".join([name, *(f"    {line[:200]}" for line in shown)])


def total_of(outcomes: Iterable[Outcome]) -> Outcome:
    total = Outcome()
    for each in outcomes:
        total.parts += each.parts
        total.failures += each.failures
        total.passed += each.passed
        total.failed += each.failed
        total.skipped += each.skipped
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
