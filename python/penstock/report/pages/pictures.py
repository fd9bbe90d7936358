"""Pictures of a frame and of the throughput, as PNG files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy
import numpy.typing
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from penstock.files.timing import RatePoint
from penstock.files.view.picture import shrink

matplotlib.use("Agg")

_Array = numpy.typing.NDArray[Any]
_PICTURE_PIXELS_MAX = 2000


@dataclass(frozen=True)
class Phase:
    """One curve pair of the throughput picture."""

    title: str
    points: Sequence[RatePoint]


def mask_of(frame: _Array) -> numpy.typing.NDArray[numpy.bool_]:
    """Pixels without a value: negative ones, not-a-number, and the two highest of unsigned types."""
    if frame.dtype.kind == "u":
        return numpy.asarray(frame >= numpy.iinfo(frame.dtype).max - 1)
    return numpy.asarray(~(frame >= 0))


def draw_frame(frame: _Array, title: str, path: Path) -> None:
    """Logarithmic contrast between the 1st and the 99.9th percentile; pixels without a value are grey."""
    known_values = numpy.where(mask_of(frame), numpy.nan, frame.astype(numpy.float64))
    values = shrink(known_values, -(-max(frame.shape) // _PICTURE_PIXELS_MAX))
    known = values[numpy.isfinite(values)]
    low, high = (1.0, 2.0) if known.size == 0 else (float(v) for v in numpy.percentile(known, (1, 99.9)))
    low = max(low, 0.5)
    figure = Figure(figsize=(9, 9 * values.shape[0] / values.shape[1] + 0.8), layout="compressed")
    axes = figure.add_subplot()
    colours = matplotlib.colormaps["inferno"].with_extremes(bad="0.35", under="black")
    shown = axes.imshow(
        numpy.ma.masked_invalid(values),
        norm=LogNorm(low, max(high, 2 * low)),
        cmap=colours,
        interpolation="nearest",
        extent=(0, frame.shape[1], frame.shape[0], 0),
    )
    axes.set(title=title, xlabel="column", ylabel="row")
    bar = figure.colorbar(shown, ax=axes, label="counts", shrink=0.8, extend="both")
    for formatter in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
        formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    figure.savefig(path, dpi=150)


def draw_throughput(phases: Sequence[Phase], path: Path) -> None:
    """Received and stored throughput, one panel per phase."""
    figure = Figure(figsize=(10, 3.6 * len(phases)), layout="constrained")
    panels = figure.subplots(len(phases), 1, squeeze=False)[:, 0]
    for axes, phase in zip(panels, phases, strict=True):
        seconds = [point.seconds for point in phase.points]
        received = [point.received_bytes_per_s / 1e6 for point in phase.points]
        stored = [point.written_bytes_per_s / 1e6 for point in phase.points]
        axes.plot(seconds, received, marker=".", color="tab:blue", label="received")
        axes.plot(seconds, stored, marker=".", color="tab:orange", label="stored, compressed")
        axes.set(title=phase.title, xlabel="seconds", ylabel="MB/s")
        axes.set_ylim(0, 1.15 * max(received + stored, default=0.0) or 1.0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(loc="best")
    figure.savefig(path, dpi=130)
