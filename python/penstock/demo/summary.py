"""What a demonstration found, for people and machines."""

from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.files.timing import Percentiles
from penstock.model.events import CheckReport, DetectorSeriesEnd, RecorderSeriesEnd
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_hz, human_number, human_rate, human_seconds


class PhaseResult(BaseModel):
    """One series, as reported by the detector, the recorder, the file and the check."""

    title: str
    asked_hz: float
    sent: DetectorSeriesEnd
    recorded: RecorderSeriesEnd
    timing: list[Percentiles]
    check: CheckReport

    @property
    def ratio(self) -> float:
        return self.recorded.raw_bytes / self.recorded.stored_bytes if self.recorded.stored_bytes else 0.0

    @property
    def rate_hz(self) -> float:
        return self.sent.rate_hz

    @property
    def raw_bytes_per_s(self) -> float:
        return self.recorded.raw_bytes / self.sent.seconds if self.sent.seconds > 0 else 0.0

    @property
    def lost(self) -> int:
        return self.sent.frames_sent - self.recorded.frames_written

    def problems(self) -> list[str]:
        """Returns why it failed; empty if it succeeded."""
        found = [f"{self.title}: {text}" for text in (self.sent.problem, self.recorded.problem) if text]
        if self.lost:
            found.append(f"{self.title}: {self.lost} of {self.sent.frames_sent} frames are not in the file")
        if self.check.different_frames:
            found.append(
                f"{self.title}:"
                f" {counted(self.check.different_frames, 'frame differs', 'frames differ')} from those sent"
            )
        if self.check.compared_frames != self.sent.frames_sent:
            found.append(
                f"{self.title}: {self.check.compared_frames} of {self.sent.frames_sent} frames were compared"
            )
        found += [
            f"{self.title}: {finding.what} at {finding.where}: {finding.actual} instead of {finding.expected}"
            for finding in self.check.findings
            if finding.level == "error"
        ]
        if not self.check.ok and not found:
            found.append(f"{self.title}: the check failed")
        return found


class Summary(BaseModel):
    """The whole demonstration."""

    source: str
    detector: str
    phases: list[PhaseResult]

    def problems(self) -> list[str]:
        return [problem for phase in self.phases for problem in phase.problems()]

    def answer(self) -> str:
        """Returns whether every frame is in a file as it was sent, in one line."""
        if problems := self.problems():
            more = f" (and {counted(len(problems) - 1, 'further problem')})" if problems[1:] else ""
            return f"FAILED: {problems[0]}{more}"
        frames = sum(phase.sent.frames_sent for phase in self.phases)
        return f"Recorded all {counted(frames, 'frame')}; each equals what was sent"


def summary_page(summary: Summary) -> RenderableType:
    """Returns the answer, then a table with one column for each phase."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for phase in summary.phases:
        table.add_column(phase.title, overflow="fold")
    for name in _rows(summary.phases[0]):
        table.add_row(Text(name, style="bold"), *(_rows(phase)[name] for phase in summary.phases))
    style = "bold red" if summary.problems() else "bold green"
    return Group(
        Text(summary.answer(), style=style), Text(f"{summary.detector}; {summary.source}"), Text(""), table
    )


def _rows(phase: PhaseResult) -> dict[str, str]:
    recorded, sent, checked = phase.recorded, phase.sent, phase.check
    stored, took = human_bytes(recorded.stored_bytes), human_seconds(sent.seconds)
    asked = f" ({human_number(phase.asked_hz, 6)} Hz requested)" if phase.asked_hz else ""
    late = (
        f", {sent.late} sent late (by {human_seconds(sent.late_max_ms / 1e3)} at most)" if sent.late else ""
    )
    compared = f"{counted(checked.compared_frames, 'frame')}, {checked.different_frames} different"
    return {
        "sent": f"{counted(sent.frames_sent, 'frame')}, {human_bytes(recorded.raw_bytes)} in {took}",
        "rate": f"{human_hz(phase.rate_hz)}{asked}, {human_rate(phase.raw_bytes_per_s)}{late}",
        "in the file": f"{counted(recorded.frames_written, 'frame')}, {stored} (ratio {phase.ratio:.2f})",
        "lost frames": str(phase.lost),
        "problems": _anomalies(recorded),
        "received to written": _latency(phase.timing),
        "breakdown of time": _stages(recorded.stage_seconds),
        "compared with the sent frames": compared,
        "check": "fine" if checked.ok else "FAILED",
        "file": recorded.file,
    }


def _anomalies(recorded: RecorderSeriesEnd) -> str:
    counts = {
        name: getattr(recorded, name) for name in ("missing", "duplicate", "late", "damaged", "dropped")
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _latency(timing: list[Percentiles]) -> str:
    total = next((stage for stage in timing if stage.stage == "total"), None)
    if total is None:
        return "not known"
    median, tail, worst = (human_seconds(value / 1e3) for value in (total.p50_ms, total.p99_ms, total.max_ms))
    return f"median {median}, 99 % within {tail}, at most {worst}"


def _stages(seconds: dict[str, float]) -> str:
    """Thread-seconds by stage, the largest first."""
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return (
        ", ".join(f"{name} {human_seconds(value)}" for name, value in ordered if value > 0.001) or "not known"
    )
