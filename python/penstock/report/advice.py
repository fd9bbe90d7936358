"""Advice for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.model.plan.advice import Advice, Choice
from penstock.model.units import human_bytes, human_number


def advice_view(advice: Advice) -> RenderableType:
    return Group(
        Text("Add this to the configuration of penstock record:", style="bold"),
        Text(""),
        Text(advice.configuration()),
        Text("Why:", style="bold"),
        *(Text(f"- {reason}", no_wrap=False) for reason in advice.reasons),
        Text(""),
        Text(
            "Bytes read per byte wanted (from storage, if compressed), and requests per access:",
            style="bold",
        ),
        advice_table(advice),
    )


def advice_table(advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("chunk")
    table.add_column("size", justify="right")
    for cost in advice.recommended.costs:
        table.add_column(cost.pattern, justify="right")
    table.add_column("cost", justify="right")
    for choice in (advice.recommended, *advice.alternatives):
        table.add_row(*_cells(choice, advice, choice is advice.recommended))
    return table


def _cells(choice: Choice, advice: Advice, recommended: bool) -> list[str]:
    of = "" if choice.chunk.frames == 1 else f"{choice.chunk.frames} x "
    shape = f"{of}{choice.chunk.rows} x {choice.chunk.columns}"
    mark = " (recommended)" if recommended else (" (whole frame)" if choice.is_frame else "")
    cells = [shape + mark, human_bytes(choice.bytes)]
    compressed = advice.ratios.of(advice.codec.encoding) != 1
    for cost in choice.costs:
        stored = f" ({human_number(cost.storage_amplification)})" if compressed else ""
        cells.append(f"{human_number(cost.amplification)}{stored}, {human_number(cost.chunks)}")
    return [*cells, f"{choice.relative_cost:.2f}"]
