"""The catalogue of runs for people."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.model.entries import Entry, EntryValue, Listed
from penstock.model.text import counted, harmless
from penstock.model.units import human_bytes
from penstock.report.tables import fact_table
from penstock.report.values import value_text

_VALUES_SHOWN = 2
_STATE_STYLE = {"there": "", "changed": "bold yellow", "missing": "bold red"}


def entries_table(listed: Sequence[Listed]) -> Table:
    """One row a document."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "begun", "what", "target", "validity", "values", "document"):
        table.add_column(
            title, justify="left" if title else "right", overflow="fold", no_wrap=title in ("", "begun")
        )
    for each in listed:
        entry = each.entry
        values = [_value_text(name, value) for name, value in list(entry.values.items())[:_VALUES_SHOWN]]
        path = Text(harmless(entry.path))
        if each.state != "there":
            path.append(f" ({each.state})", style=_STATE_STYLE[each.state])
        table.add_row(
            str(each.id),
            escape(entry.started[:16].replace("T", " ")),
            escape(_what(entry)),
            escape(", ".join(target.path for target in entry.targets)),
            escape(entry.answer or entry.validity or ""),
            escape(", ".join(values)),
            path,
        )
    return table


def _what(entry: Entry) -> str:
    parts = [entry.workload if entry.kind == "run" else f"{entry.kind} {entry.name}"]
    if entry.kind == "campaign":
        runs = counted(entry.runs, "run")
        parts.append(runs)
    if not entry.complete:
        parts.append("not complete")
    return ", ".join(parts)


def _value_text(name: str, value: EntryValue) -> str:
    return f"{name} {value_text(value.value, value.unit)}"


def entry_sheet(listed: Listed) -> Table:
    """All that is known of one."""
    entry = listed.entry
    rows = {
        "number": f"{listed.id}, entered {listed.entered}",
        "document": harmless(entry.path),
        "file": f"{listed.state}, {human_bytes(entry.bytes)} when it was entered",
        "SHA-256": entry.sha256,
        "what": _what(entry),
        "begun": entry.started or "no run yet",
        "host": entry.host,
        "workload": entry.workload,
        "targets": ", ".join(f"{target.path} ({target.file_system})" for target in entry.targets),
        "parameters": ", ".join(f"{name} {value}" for name, value in entry.parameters.items()),
        "validity": entry.validity or "no run yet",
        "runs": f"{entry.runs}, {entry.failures} failed" if entry.failures else str(entry.runs),
    }
    if entry.answer:
        rows["answer"] = entry.answer
    rows |= {name: _value_text("", value).strip() for name, value in entry.values.items()}
    return fact_table(rows)
