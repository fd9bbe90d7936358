"""The page of a rehearsal."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrow, Rectangle

from penstock.model.bench.recorder_words import recorder_rows
from penstock.model.bench.rehearsals import (
    KIND_WORDS,
    Rehearsal,
    RehearsalAnswer,
    RehearsalStep,
    Stage,
    StageUse,
)
from penstock.model.units import human_hz, human_number, human_rate, human_seconds
from penstock.report.pages.page import (
    Banner,
    Block,
    Cell,
    Facts,
    Lines,
    Page,
    Picture,
    Section,
    State,
    Table,
    Tile,
    Tiles,
)
from penstock.report.pages.svg import COLOURS, picture
from penstock.report.rehearse.rehearsals import (
    OUTCOME_WORDS,
    STAGE_COLUMNS,
    chain_text,
    confidence_text,
    headroom_text,
    interval_text,
    search_text,
    stage_cells,
    stages_title,
    unpaced_text,
    why_text,
)

_ANSWER_STATE: dict[RehearsalAnswer, State] = {
    "yes": "good",
    "likely yes": "good",
    "cannot tell": "warning",
    "likely no": "bad",
    "no": "bad",
    "invalid": "void",
}
_OUTCOME_STATE: dict[str, State] = {"held": "good", "not held": "bad", "invalid": "void", "measured": ""}
# Of a box in the diagram, in the axes' units: a box a unit.
_WIDTH, _HEIGHT = 0.78, 1.0


def rehearsal_page(rehearsal: Rehearsal, source: str) -> Page:
    """`source` names the file that it was read from."""
    blocks: list[Block] = [_tiles(rehearsal)]
    found = [] if rehearsal.search is None else [search_text(rehearsal.search)]
    blocks += [
        Lines(title, lines)
        for title, lines in (
            ("Why", rehearsal.reasons),
            ("What to change", rehearsal.advice),
            ("What the search found", found),
            ("Notes", rehearsal.notes),
        )
        if lines
    ]
    return Page(
        title=f"Does the chain keep up with the {rehearsal.detector}?",
        answer=rehearsal.answer[:1].upper() + rehearsal.answer[1:] + confidence_text(rehearsal.confidence),
        answer_state=_ANSWER_STATE[rehearsal.answer],
        subtitle=f"{chain_text(rehearsal)}; {rehearsal.started}",
        source=source,
        banners=_banners(rehearsal),
        sections=[
            Section("", blocks),
            *_stage_section(rehearsal),
            Section("Steps", [_steps_table(rehearsal.steps)]),
            Section("Conditions", [_conditions(rehearsal)]),
        ],
    )


def _banners(rehearsal: Rehearsal) -> list[Banner]:
    if rehearsal.problem is None:
        return []
    return [Banner("bad", f"Incomplete: {rehearsal.problem}. The results cover the time until then.")]


def _tiles(rehearsal: Rehearsal) -> Tiles:
    more = " or more" if rehearsal.less_than_hz is None else ""
    tiles = [
        Tile("needed", human_hz(rehearsal.needed_hz, 6), human_rate(rehearsal.needed_bytes_per_s)),
        Tile(
            "sustained",
            "none" if rehearsal.sustained_hz is None else f"{human_hz(rehearsal.sustained_hz)}{more}",
            interval_text(rehearsal),
        ),
    ]
    if rehearsal.factor is not None:
        state: State = "good" if rehearsal.factor >= 1 else "bad"
        tiles.append(
            Tile("margin", f"factor {human_number(rehearsal.factor)}{more}", "sustained over needed", state)
        )
    if (unpaced := unpaced_text(rehearsal)) and rehearsal.unpaced_hz is not None:
        tiles.append(Tile("unpaced", human_hz(rehearsal.unpaced_hz), unpaced))
    if rehearsal.narrowest is not None:
        tiles.append(Tile("narrowest stage", rehearsal.narrowest, "gives out first"))
    sustained: State = "good" if _ANSWER_STATE[rehearsal.answer] == "good" else ""
    missing: State = sustained if rehearsal.missing == 0 else "bad"
    tiles.append(
        Tile("missing frames", f"{rehearsal.missing} of {rehearsal.sent}", "at the detector's rate", missing)
    )
    if rehearsal.storage_alone_bytes_per_s is not None:
        tiles.append(Tile("storage alone", human_rate(rehearsal.storage_alone_bytes_per_s), "by its verdict"))
    return Tiles(tiles)


def _stage_section(rehearsal: Rehearsal) -> list[Section]:
    if not rehearsal.stages:
        return []
    rows = [
        [Cell(text, "bad" if use.stage == rehearsal.narrowest else "") for text in stage_cells(use)]
        for use in rehearsal.stages
    ]
    caption = (
        "Utilisation is the share of the threads' time in which they worked; headroom is its inverse, a"
        " multiple of the rate in the title"
    )
    return [
        Section(stages_title(rehearsal), [_diagram(rehearsal), Table(caption, list(STAGE_COLUMNS), rows)])
    ]


def _diagram(rehearsal: Rehearsal) -> Picture:
    parts = [f"{use.stage} {100 * use.utilisation:.0f} %" for use in rehearsal.stages]
    narrow = f" The narrowest stage is {rehearsal.narrowest}." if rehearsal.narrowest else ""
    description = f"Utilisation of the stages in the order of the chain: {', '.join(parts)}.{narrow}"
    return picture(
        "The chain", description, lambda figure: _draw(figure, rehearsal.stages, rehearsal.narrowest), 1.6
    )


def _draw(figure: Figure, stages: list[StageUse], narrowest: Stage | None) -> None:
    """A box for each stage, filled as far as it was used."""
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-0.1, len(stages))
    axes.set_ylim(-0.5, 1.5)
    for place, use in enumerate(stages):
        colour = COLOURS["bad" if use.stage == narrowest else "first"]
        axes.add_patch(Rectangle((place, 0), _WIDTH, _HEIGHT * use.utilisation, color=colour, alpha=0.45))
        axes.add_patch(Rectangle((place, 0), _WIDTH, _HEIGHT, fill=False, edgecolor=colour, linewidth=1.4))
        middle = place + _WIDTH / 2
        axes.text(middle, 1.15, use.stage, ha="center", color=COLOURS["text"])
        axes.text(
            middle, 0.5, f"{100 * use.utilisation:.0f} %", ha="center", va="center", color=COLOURS["text"]
        )
        axes.text(
            middle,
            -0.3,
            headroom_text(use).replace("more than", ">") + " x",
            ha="center",
            color=COLOURS["text"],
            fontsize=8,
        )
        if place + 1 < len(stages):
            arrow = FancyArrow(
                place + _WIDTH,
                0.5,
                0.12,
                0,
                width=0.02,
                head_width=0.14,
                head_length=0.08,
                color=COLOURS["text"],
            )
            axes.add_patch(arrow)


def _steps_table(steps: list[RehearsalStep]) -> Table:
    columns = ["step", "rate", "sent", "missing", "different", "duration", "outcome", "narrowest", "why"]
    return Table("Steps in order", columns, [_step_row(number, step) for number, step in enumerate(steps, 1)])


def _rate_text(step: RehearsalStep) -> str:
    rate_hz = step.rate_hz or step.written_hz
    return human_hz(rate_hz) if rate_hz else "unknown"


def _step_row(number: int, step: RehearsalStep) -> list[Cell]:
    state = _OUTCOME_STATE[step.outcome]
    return [
        Cell(f"{number}: {KIND_WORDS[step.kind]}", is_narrow=True),
        Cell(_rate_text(step), is_narrow=True),
        Cell(str(step.total("sent")), is_narrow=True),
        Cell(str(step.total("missing")), "bad" if step.total("missing") else "", is_narrow=True),
        Cell(str(step.total("different")), "bad" if step.total("different") else "", is_narrow=True),
        Cell(human_seconds(step.seconds), is_narrow=True),
        Cell(OUTCOME_WORDS[step.outcome], state),
        Cell(step.narrowest or ""),
        Cell(why_text(step)),
    ]


def _conditions(rehearsal: Rehearsal) -> Facts:
    ratio = "" if rehearsal.ratio is None else human_number(rehearsal.ratio)
    rows = {
        "host": rehearsal.host,
        "target": f"{rehearsal.target} ({rehearsal.file_system})",
        "sender": rehearsal.sender or "on the recorder's machine",
        "transport": rehearsal.transport.upper(),
        "ranks": str(rehearsal.ranks),
        "configuration file": rehearsal.configuration_file or "none: the defaults",
        **recorder_rows(rehearsal.configuration),
        "images": rehearsal.images,
        "detector's buffer": human_seconds(rehearsal.buffer_s),
        "compression ratio": ratio,
        "version": rehearsal.version,
    }
    return Facts({name: value for name, value in rows.items() if value})
