"""Paints what `penstock view` shows: the pixels with axes in detector pixels, a title and a colour bar."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy
import numpy.typing
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from penstock.files.view.picture import Look, Numbers, Picture, Values
from penstock.model.errors import UsageError
from penstock.model.text import harmless

Image = numpy.typing.NDArray[numpy.uint8]
"""[row, column, RGB]"""

NO_VALUE = "#64707d"
_LEAST_SIDE = 40  # of a strip detector
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 110, 50, 50
_BAR, _TO_BAR = 16, 14
_DPI = 100


def require_colormap(name: str) -> None:
    """Raises UsageError if matplotlib does not have this colour map."""
    if name not in matplotlib.colormaps:
        raise UsageError(
            f"--colormap {name}: matplotlib does not have this colour map",
            "for example inferno, viridis, gray, gray_r, or another one of matplotlib",
        )


class Painter:
    """Paints pictures of one shape, all with the same colours."""

    def __init__(self, first: Picture, look: Look, limits: tuple[float, float]) -> None:
        self._look, self._lowest = look, limits[0]
        kind = LogNorm if look.scale == "log" else Normalize
        self._norm: Normalize = kind(*limits, clip=True)
        colours = matplotlib.colormaps[look.colormap]
        self._colours = colours.with_extremes(bad=NO_VALUE, under=colours(0.0), over=colours(1.0))
        if not look.plain:
            self._draw_frame_of(first)

    def paint(self, picture: Picture, title: str) -> Image:
        """Returns the picture in colours; with `plain` only its pixels."""
        if self._look.plain:
            return self._coloured(picture.values)
        self._shown.set_data(self._known(picture.values))
        self._title.set_text(harmless(title))
        missing = picture.numbers.frames == 0
        reason = f" ({picture.numbers.reason})" if picture.numbers.reason else ""
        self._missing.set_text(f"missing{reason}" if missing else "")
        canvas: Any = self._canvas
        canvas.draw()
        return numpy.asarray(canvas.buffer_rgba())[..., :3].copy()

    def _known(self, values: Values) -> Any:
        """NaN is without a value. What a logarithmic scale cannot show has the lowest colour."""
        known = numpy.ma.masked_invalid(values)
        return numpy.ma.maximum(known, self._lowest) if self._look.scale == "log" else known

    def _coloured(self, values: Values) -> Image:
        known = self._known(values)
        coloured: Image = self._colours(self._norm(known), bytes=True)[..., :3]
        return numpy.ascontiguousarray(coloured)

    def _draw_frame_of(self, first: Picture) -> None:
        height, width = (max(_LEAST_SIDE, side * first.zoom) for side in first.values.shape)
        whole_width, whole_height = width + _LEFT + _RIGHT, height + _TOP + _BOTTOM
        figure = Figure(figsize=(whole_width / _DPI, whole_height / _DPI), dpi=_DPI)

        def place(
            left: float, bottom: float, columns: float, rows: float
        ) -> tuple[float, float, float, float]:
            return left / whole_width, bottom / whole_height, columns / whole_width, rows / whole_height

        axes = figure.add_axes(place(_LEFT, _BOTTOM, width, height))
        rows, columns = first.numbers.rows, first.numbers.columns
        self._shown = axes.imshow(
            self._known(first.values),
            norm=self._norm,
            cmap=self._colours,
            interpolation="nearest",
            aspect="auto",
            extent=(
                columns[0],
                columns[0] + first.values.shape[1] * first.step,
                rows[0] + first.values.shape[0] * first.step,
                rows[0],
            ),
        )
        axes.set(xlabel="column", ylabel="row")
        axes.tick_params(labelsize=8)
        self._title = axes.set_title("", loc="left", fontsize=9)
        self._missing = axes.text(
            0.5, 0.5, "", transform=axes.transAxes, ha="center", va="center", fontsize=14, color="white"
        )
        bar_axes = figure.add_axes(place(_LEFT + width + _TO_BAR, _BOTTOM, _BAR, height))
        bar = figure.colorbar(
            self._shown, cax=bar_axes, extend="both"
        )  # values beyond have its ends' colours
        bar.ax.tick_params(labelsize=8, which="both")
        for formatter in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
            formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        figure.legend(
            handles=[Patch(color=NO_VALUE, label="no value")],
            loc="lower right",
            fontsize=8,
            frameon=False,
            borderaxespad=0.2,
        )
        self._canvas = FigureCanvasAgg(figure)


def title_of(numbers: Numbers) -> str:
    """Returns the title of a picture: the name of the file, and which frames it shows."""
    name = Path(numbers.file).name
    channel = f", {numbers.channel}" if numbers.channel else ""
    if numbers.frame is not None:
        return f"{name}{channel}: frame {numbers.frame} of {numbers.frames_in_file}"
    missing = f", {numbers.frames_missing} missing" if numbers.frames_missing else ""
    return f"{name}{channel}: sum of {numbers.frames} frames{missing}"
