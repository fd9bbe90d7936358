"""A checkup of `penstock doctor` for people: the answer, the problems with their remedies, all checks."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.model.plan.checkup import Checkup
from penstock.model.text import counted

_OUTCOME_STYLE = {"ok": "green", "warning": "bold yellow", "problem": "bold red", "unknown": "yellow"}


def checkup_view(checkup: Checkup) -> RenderableType:
    """Remedies stand on lines of their own, to be copied."""
    parts: list[RenderableType] = [_answer(checkup)]
    for number, each in enumerate([*checkup.problems, *checkup.warnings], 1):
        parts += [
            Text(),
            Text.assemble((f"{number}. {each.found}", "bold"), f": {each.why}."),
            Text(f"   {each.remedy}", style="cyan"),
        ]
    parts += [Text(), _table(checkup)]
    if checkup.next:
        parts += [Text(), Text("Next, measure the storage, then the whole chain:")]
        parts += [Text(f"  {each}", style="cyan") for each in checkup.next]
    return Group(*parts)


def _answer(checkup: Checkup) -> Text:
    where = f" for recording into {checkup.path} on {checkup.host}"
    where += f" with the {checkup.detector}" if checkup.detector else ""
    if checkup.ready:
        less = f", with {counted(len(checkup.warnings), 'warning')}" if checkup.warnings else ""
        return Text.assemble(("ready", "bold green"), where, less)
    return Text.assemble((counted(len(checkup.problems), "problem"), "bold red"), where)


def _table(checkup: Checkup) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("check", "outcome", "found"):
        table.add_column(title, overflow="fold")
    for each in checkup.findings:
        table.add_row(
            escape(each.check), Text(each.outcome, style=_OUTCOME_STYLE[each.outcome]), escape(each.found)
        )
    return table
