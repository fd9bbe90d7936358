"""Shows a data sheet on the terminal or as Markdown."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from penstock.bench.run.local_speed import SpeedRequest
from penstock.model.plan.datasheet import DataSheet, Fact, LocalSpeed
from penstock.model.units import format_size, human_bytes, human_number, human_rate, human_seconds, human_size
from penstock.report.sections import Section, sections_markdown, sections_view

_EXACT_BYTES_MAX = 1 << 30


def sheet_view(sheet: DataSheet) -> RenderableType:
    return sections_view(_sections(sheet, sources=False))


def sheet_markdown(sheet: DataSheet) -> str:
    return sections_markdown(f"Data sheet of {sheet.path} on {sheet.host}", _sections(sheet, sources=True))


def speed_plan_rows(request: SpeedRequest, target: str, seconds: float, devices: list[str]) -> dict[str, str]:
    """Returns what would be measured."""
    return {
        "target": f"a new directory in {target}, removed afterwards",
        "sequential": f"{human_size(request.stream.thread_bytes)} written and read, or"
        f" for {human_seconds(seconds)} each",
        "files": f"{request.creates.files} of {human_size(request.creates.frame_bytes)} created",
        "devices read": ", ".join(devices),
    }


def _sections(sheet: DataSheet, sources: bool) -> Iterator[Section]:
    yield Section(
        "Data sheet", ("", ""), [("path", sheet.path), ("host", sheet.host), ("created", sheet.made)]
    )
    for group in sheet.groups:
        header: Sequence[str] = ("", "value", "source") if sources else ("", "")
        rows: list[Sequence[str]] = [
            [fact.name, _value(fact), fact.source][: len(header)] for fact in group.facts
        ]
        yield Section(group.title, header, rows)
    if sheet.speeds:
        header = ("measurement", "result", "method", "", "caveats")
        yield Section("Quick measurement", header, [_speed(speed) for speed in sheet.speeds])
    lines = [f"{hint.what}. Reason: {hint.why}. Remedy: {hint.remedy}" for hint in sheet.hints]
    yield Section("Hints", ("",), lines=lines or ["no setting that limits throughput was found"])


def _value(fact: Fact) -> str:
    if fact.value is None:
        return f"unknown: {fact.unknown}"
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    if fact.unit == "B" and isinstance(fact.value, int):
        # Blocks and stripes are powers of two that matter to the byte; capacities are not.
        return format_size(fact.value) if abs(fact.value) < _EXACT_BYTES_MAX else human_bytes(fact.value)
    shown = human_number(fact.value, 6) if isinstance(fact.value, float) else str(fact.value)
    return f"{shown} {fact.unit}".rstrip()


def _speed(speed: LocalSpeed) -> tuple[str, ...]:
    if speed.value is None:
        return speed.what, "not measured", speed.how, "", "; ".join(speed.doubts)
    value = human_rate(speed.value) if speed.unit == "B/s" else f"{speed.value:,.0f} files/s"
    return speed.what, value, speed.how, speed.validity, "; ".join(speed.doubts)
