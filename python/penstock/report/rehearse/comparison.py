"""Two rehearsals side by side, for people."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from penstock.model.bench.rehearsals import STAGES, RehearsalComparison, RehearsalFacts
from penstock.model.units import human_hz, human_number
from penstock.report.comparisons import ANSWER_STYLE, plain_table
from penstock.report.rehearse.rehearsals import confidence_text, headroom_words, interval_of, unpaced_words


def rehearsal_comparison_view(found: RehearsalComparison) -> RenderableType:
    """Returns the answer in a sentence, then one table."""
    table = plain_table("", "A", "B")
    base, other = _rows(found.base), _rows(found.other)
    for name in base:
        if base[name] or other[name]:
            table.add_row(name, escape(base[name]) or "-", escape(other[name]) or "-")
    for stage in STAGES:
        texts = [
            headroom_words(each.headroom[stage]) if stage in each.headroom else "-"
            for each in (found.base, found.other)
        ]
        if texts != ["-", "-"]:
            table.add_row(f"headroom of {stage}", *texts)
    differing = [*found.conditions, *found.configuration]
    for each in (each for each in differing if each.name not in base):
        table.add_row(escape(each.name), escape(each.base) or "-", escape(each.other) or "-")
    parts: list[RenderableType] = [Text(answer_line(found), style=ANSWER_STYLE[found.answer]), Text(), table]
    if not differing:
        parts += [Text(), Text("All known conditions and settings are the same.")]
    return Group(*parts, *(Text(f"- {note}") for note in found.notes))


def answer_line(found: RehearsalComparison) -> str:
    """Returns "B is worse: A keeps up with the PILATUS 6M, B does not"."""
    words = {"worse": "B is worse", "nothing worse": "B is not worse"}
    return f"{words.get(found.answer, found.answer)}: {found.summary}"


def _rows(facts: RehearsalFacts) -> dict[str, str]:
    incomplete = "" if facts.complete else ", incomplete"
    return {
        "rehearsal": facts.name,
        "started": facts.started[:16].replace("T", " "),
        "answer": f"{facts.answer}{confidence_text(facts.confidence)}{incomplete}",
        "needed": human_hz(facts.needed_hz, 6),
        "sustained": interval_of(facts.sustained_hz, facts.less_than_hz, facts.frame_bytes),
        "unpaced": unpaced_words(facts.unpaced_hz, facts.needed_hz, facts.frame_bytes),
        "missing frames": f"{facts.missing} of {facts.sent}",
        "compression": f"ratio {human_number(facts.ratio)}" if facts.ratio is not None else "",
        "narrowest stage": facts.narrowest or "",
    }
