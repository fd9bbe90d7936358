"""Axes of values: where they begin, and how their numbers are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from penstock.model.units import human_number

_SCALES = {"B/s": (1e-6, "MB/s"), "B": (1e-6, "MB"), "share": (100.0, "%")}
_MILLION = 1e6
_NARROW, _MARGIN = 0.2, 0.25
"""spread of values, of the largest, below which 0 would hide it; and the room at both ends, of the spread"""


@dataclass(frozen=True)
class ValueAxis:
    """An axis for values with this unit."""

    scale: float
    unit: str
    low: float
    high: float | None
    """of the scaled axis; None: matplotlib's choice"""

    @property
    def note(self) -> str:
        """For the description of a plot."""
        return " The axis does not begin at 0." if self.low > 0 else ""

    def apply(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """After the values are drawn."""
        plain_numbers(axes, which)
        if which == "x":
            axes.set_xlim(left=self.low, right=self.high)
        else:
            axes.set_ylim(bottom=self.low, top=self.high)


def plain_numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Without a power of ten, or a number that is to be added to all, at the end of the axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: human_number(value, 6)))


def value_axis(unit: str, values: Sequence[float]) -> ValueAxis:
    """Begins at 0, unless all values are so close to each other that they would look the same."""
    scale, name = _SCALES.get(unit, (1.0, unit))
    least, most = min(values, default=0.0) * scale, max(values, default=0.0) * scale
    if most >= _MILLION:
        scale, least, most = scale / _MILLION, least / _MILLION, most / _MILLION
        name = f"million{name.removeprefix('1')}" if name.startswith("1/") else f"million {name}"
    spread = most - least
    if least <= 0 or not 0 < spread < _NARROW * most:
        return ValueAxis(scale, name, 0.0, None)
    return ValueAxis(scale, name, max(0.0, least - _MARGIN * spread), most + _MARGIN * spread)
