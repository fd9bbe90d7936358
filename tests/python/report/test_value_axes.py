"""Axes of plots have plain numbers, and begin where the values can be told apart."""

import pytest
from matplotlib.figure import Figure

from penstock.report.pages.axes import plain_numbers, value_axis


@pytest.mark.parametrize(
    ("unit", "values", "scale", "name"),
    [
        ("1/min", [2e6, 1.5e7], 1e-6, "million/min"),
        ("1/min", [2e3, 9e5], 1.0, "1/min"),
        ("count", [5e6, 1e7], 1e-6, "million count"),
        ("B/s", [1e6, 3e8], 1e-6, "MB/s"),
        ("share", [0.1, 0.9], 100.0, "%"),
        ("s", [], 1.0, "s"),
    ],
)
def test_large_values_are_counted_in_millions(
    unit: str, values: list[float], scale: float, name: str
) -> None:
    axis = value_axis(unit, values)
    assert axis.scale == pytest.approx(scale)
    assert (axis.unit, axis.low, axis.note) == (name, 0.0, "")


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([98.0, 100.0], 97.5, 100.5),  # 0 would hide what is between them
        ([40.0, 100.0], 0.0, None),
        ([0.0, 1.0], 0.0, None),
        ([5.0, 5.0], 0.0, None),
        ([float("nan")], 0.0, None),
    ],
)
def test_values_close_to_each_other_have_an_axis_of_their_own(
    values: list[float], low: float, high: float | None
) -> None:
    axis = value_axis("s", values)
    assert (axis.low, axis.high) == (low, high)
    assert ("does not begin at 0" in axis.note) == (low > 0)


@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.parametrize("values", [[0.0, 1e7], [1e9 + 1, 1e9 + 2], [0.0, 1e-7]])
def test_an_axis_has_no_power_of_ten_at_its_end(which: str, values: list[float]) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot(values, values)
    plain_numbers(axes, "x" if which == "x" else "y")
    figure.draw_without_rendering()
    assert getattr(axes, f"{which}axis").get_offset_text().get_text() == ""


def test_an_axis_is_drawn_as_it_was_chosen() -> None:
    axes = Figure().add_subplot()
    axes.plot([98.0, 100.0], [1.0, 2.0])
    value_axis("s", [98.0, 100.0]).apply(axes, "x")
    value_axis("s", [1.0, 2.0]).apply(axes, "y")
    assert axes.get_xlim() == (97.5, 100.5)
    assert axes.get_ylim()[0] == 0.0
