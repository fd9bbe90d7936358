"""The catalogue of runs for people."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from penstock.model.bench.entries import RECORDER, Entry, EntryValue, Listed
from penstock.model.text import counted, harmless
from penstock.model.units import human_bytes
from penstock.report.tables import fact_table
from penstock.report.values import value_text

_VALUES_SHOWN = 2
_STATE_STYLE = {"there": "", "changed": "bold yellow", "missing": "bold red"}


def entries_lines(listed: Sequence[Listed]) -> list[Text]:
    """Two lines or more a document: what it is, and below that its targets and its path, each whole.

    No line is cut: what a terminal folds is copied whole.
    """
    rows = [_row(each) for each in listed]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(_JUSTIFIED))]
    lines = []
    for each, row in zip(listed, rows, strict=True):
        cells = [
            f"{cell:>{width}}" if is_right else f"{cell:<{width}}"
            for cell, width, is_right in zip(row, widths, _JUSTIFIED, strict=True)
        ]
        lines.append(Text("  ".join([*cells, _values(each.entry)]).rstrip()))
        indent = " " * (widths[0] + 2)
        lines += [Text(f"{indent}of {harmless(target.path)}") for target in each.entry.targets]
        path = Text(f"{indent}{harmless(each.entry.path)}")
        if each.state != "there":
            path.append(f" ({each.state})", style=_STATE_STYLE[each.state])
        lines.append(path)
    return lines


# Of the columns of the first line: the number is on the right.
_JUSTIFIED = (True, False, False, False)


def _row(listed: Listed) -> tuple[str, str, str, str]:
    entry = listed.entry
    verdict = entry.answer or entry.validity or ""
    texts = (entry.started[:16].replace("T", " "), _what(entry), verdict)
    begun, what, answer = (harmless(text).replace("\n", " ") for text in texts)
    return str(listed.id), begun, what, answer


def _values(entry: Entry) -> str:
    if "invalid" in (entry.validity, entry.answer):
        return ""  # they are not metrics of the storage
    shown = list(entry.values.items())[:_VALUES_SHOWN]
    return harmless(", ".join(_value_text(name, value) for name, value in shown))


def _what(entry: Entry) -> str:
    parts = [entry.workload if entry.kind == "run" else f"{entry.kind} {entry.name}"]
    if entry.kind == "campaign":
        runs = counted(entry.runs, "run")
        parts.append(runs)
    if recorder := entry.parameters.get(RECORDER):
        parts[0] += f" ({recorder})"
    if not entry.complete:
        parts.append("not complete")
    return ", ".join(parts)


def _value_text(name: str, value: EntryValue) -> str:
    least = "at least " if value.at_least else ""
    return f"{name} {least}{value_text(value.value, value.unit)}"


def entry_sheet(listed: Listed) -> Table:
    """All that is known of one."""
    entry = listed.entry
    rows = {
        "number": f"{listed.id}, entered {listed.entered}",
        "document": harmless(entry.path),
        "file": f"{listed.state}, {human_bytes(entry.bytes)} when it was added",
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
