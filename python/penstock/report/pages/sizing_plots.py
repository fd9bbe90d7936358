"""The plots of a capacity plan."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from penstock.model.plan.blocks import BlockFigures
from penstock.model.plan.sizing import Sizing
from penstock.model.units import human_bytes, human_rate
from penstock.report.pages.page import Picture
from penstock.report.pages.svg import COLOURS, picture

_UNITS = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6))
_SHADES = (0.9, 0.55, 0.3, 0.75, 0.45, 0.2, 0.65, 0.35)  # of one colour: a page has two for data
_BAR_IN, _FRAME_IN = 0.34, 1.1
_NAME_LENGTH_MAX = 40


def _unit(values: Sequence[float]) -> tuple[str, float]:
    """Returns the unit in which the largest value has a whole part."""
    largest = max(values, default=0.0)
    return next(((name, size) for name, size in _UNITS if largest >= size), _UNITS[-1])


def _bars(
    axes: Axes, names: Sequence[str], values: Sequence[float], texts: Sequence[str], colour: str
) -> None:
    """Horizontal bars, the first one at the bottom, with their values behind them."""
    places = range(len(names))
    axes.barh(places, values, color=COLOURS[colour], height=0.6)
    axes.set_yticks(places, [name[:_NAME_LENGTH_MAX] for name in names])
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    for place, value, text in zip(places, values, texts, strict=True):
        axes.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.margins(x=0.2)


def ingest_plot(sizing: Sizing) -> Picture | None:
    """Raw and stored bandwidth of each detector; None without one."""
    needs = sizing.detectors
    if not needs:
        return None
    names = [f"{each.beamline} {each.detector} x {each.count}".strip() for each in needs]
    raw, stored = [each.raw_bytes_per_s for each in needs], [each.stored_bytes_per_s for each in needs]
    unit, size = _unit(raw)
    said = [
        f"{name}: {human_rate(before)} raw, {human_rate(after)} stored"
        for name, before, after in zip(names, raw, stored, strict=True)
    ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, title, values, colour in (
            (left, "detectors deliver", raw, "first"),
            (right, "stored", stored, "second"),
        ):
            _bars(axes, names, [value / size for value in values], [human_rate(v) for v in values], colour)
            axes.set(title=f"{title}, {unit}/s")
        left.invert_yaxis()

    return picture("Bandwidth at the peak", "; ".join(said) + ".", draw, _FRAME_IN + _BAR_IN * len(needs))


def alternatives_plot(sizing: Sizing) -> Picture | None:
    """Capacity with low, typical and high ratios; None if no ratio is from the catalogue."""
    if not sizing.scenarios:
        return None
    names = [each.level for each in sizing.scenarios]
    values = [each.capacity_bytes for each in sizing.scenarios]
    unit, size = _unit(values)
    texts = [human_bytes(value) for value in values]
    description = "Capacity: " + ", ".join(
        f"{text} with {name} ratios" for name, text in zip(names, texts, strict=True)
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        _bars(axes, names, [value / size for value in values], texts, "first")
        axes.set(title=f"capacity, {unit}")
        axes.invert_yaxis()

    return picture("Capacity by compression", description + ".", draw, _FRAME_IN + _BAR_IN * len(names))


def years_plot(sizing: Sizing) -> Picture | None:
    """Capacity at the end of each year, stacked by tier."""
    years = sizing.years
    unit, size = _unit([each.capacity_bytes for each in years])
    layers = (
        {tier.name: [each.tier_bytes[n] / size for each in years] for n, tier in enumerate(sizing.tiers)}
        if sizing.tiers
        else {"capacity": [each.capacity_bytes / size for each in years]}
    )
    description = "Capacity at the end of each year: " + ", ".join(
        f"{human_bytes(each.capacity_bytes)} in year {each.year}" for each in years
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        below = [0.0] * len(years)
        for (name, heights), shade in zip(layers.items(), _SHADES, strict=False):
            places = [each.year for each in years]
            axes.bar(places, heights, 0.6, below, color=COLOURS["first"], alpha=shade, label=name)
            below = [low + high for low, high in zip(below, heights, strict=True)]
        axes.set(xlabel="year", title=f"capacity at its end, {unit}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="x")
        axes.set_axisbelow(True)
        if len(layers) > 1:
            figure.legend(loc="outside upper right", ncols=len(layers))

    return picture("Capacity by year", description + ".", draw, 2.8)


def stages_plot(block: BlockFigures) -> Picture:
    """Data that passes each stage of a block when it is written."""
    stages = block.stages
    values = [stage.write_bytes_per_s for stage in stages]
    unit, size = _unit(values)
    description = (
        f"A block writes {human_rate(block.write_bytes_per_s)}: the slowest stage limits it. "
        + ", ".join(f"{stage.name} {human_rate(stage.write_bytes_per_s)}" for stage in stages)
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        names = [stage.name for stage in stages]
        _bars(axes, names, [value / size for value in values], [human_rate(v) for v in values], "second")
        axes.axvline(block.write_bytes_per_s / size, color=COLOURS["text"], linestyle="--", linewidth=1)
        axes.set(title=f"data written through each stage, {unit}/s (dashed: the block)")
        axes.invert_yaxis()

    return picture(f"Stages of {block.name}", description + ".", draw, _FRAME_IN + _BAR_IN * len(stages))
