"""The effect of a background load, for people."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.bench.run.interference import ALONE, BESIDE, UNDER_WAY, Effect, sound_pairs
from penstock.bench.run.second import Second
from penstock.bench.statistics.values import values_of
from penstock.model.bench.campaigns import Campaign, CaseRun
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent, human_size
from penstock.report.runs import checks_table
from penstock.report.values import value_text


def second_plan_rows(second: Second, blocks: int) -> dict[str, str]:
    """Returns the planned background load."""
    return {**second_rows(second), "blocks": f"{blocks}, each alone and with background load"}


def second_rows(second: Second) -> dict[str, str]:
    where = second.about
    if second.target is not None:
        where = f"a new directory in {second.target}, removed afterwards; {human_size(second.bytes)}"
    return {"background load": second.text, "in": where}


def run_line(done: CaseRun) -> str:
    """ "block 2, with background load: throughput 410 MB/s (valid)"."""
    values = values_of(done.run)
    name = next(iter(values), "")
    shown = f"{name} {value_text(values[name].value, values[name].unit)}" if name else "nothing measured"
    return f"{_run_name(done)}: {shown} ({done.run.validity})"


def effects_view(campaign: Campaign, effects: list[Effect]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", ALONE, BESIDE, f"{BESIDE} / {ALONE}", "interval"):
        table.add_column(title, justify="left" if not title else "right", overflow="fold")
    for effect in effects:
        ratio = effect.ratio
        table.add_row(
            effect.name,
            value_text(effect.alone, effect.unit),
            value_text(effect.beside, effect.unit),
            human_number(ratio.middle) if ratio else "",
            f"{human_number(ratio.low)} to {human_number(ratio.high)} ({human_percent(ratio.confidence)})"
            if ratio
            else "",
        )
    blocks, sound = len({each.block for each in campaign.runs}), len(sound_pairs(campaign))
    left_out = (
        f" {blocks - sound} left out, with a run that is invalid or ended early." if sound < blocks else ""
    )
    of_blocks = f"Medians of {counted(sound, 'block')}; the ratio compares runs of the same block.{left_out}"
    heading = Text(campaign.title, style="bold")
    return Group(heading, Text(), table, Text(), Text(of_blocks), *_wanting(campaign))


def _wanting(campaign: Campaign) -> Iterator[RenderableType]:
    """Yields the checks that did not pass, once each, under the run that they are of."""
    seen: set[str] = set()
    last = max((n for n, each in enumerate(campaign.runs) if each.case == BESIDE), default=-1)
    for number, each in enumerate(campaign.runs):
        shown = [
            check
            for check in each.run.checks
            if check.name not in seen
            and (check.outcome != "ok" or (number == last and check.name == UNDER_WAY))
        ]
        seen |= {check.name for check in shown}
        if shown:
            yield Text()
            yield Text(f"Checks of {_run_name(each)}:")
            yield checks_table(shown)
    for each in campaign.runs:
        yield from _why_invalid(each)


def _why_invalid(done: CaseRun) -> Iterator[Text]:
    failed = [check for check in done.run.checks if check.outcome == "failed"]
    if done.run.validity != "invalid" or not failed:
        return
    yield Text(f"\n{_run_name(done)} is invalid. Why:")
    yield from (Text(f"- {check.reported}") for check in failed)
    if advice := [f"- {check.name}: {check.advice}" for check in failed if check.advice]:
        yield Text("What to do:")
        yield from map(Text, advice)


def _run_name(done: CaseRun) -> str:
    """Returns "block 1, with background load"."""
    return f"block {done.block + 1}, {ALONE if done.case == ALONE else 'with background load'}"
