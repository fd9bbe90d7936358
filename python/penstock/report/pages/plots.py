"""The plots of reports. What is not to be used is marked in the plot itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import numpy.typing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from penstock.bench.statistics.quantiles import quantile_ns
from penstock.model.bench.load import FramesWorkload, Histogram, LoadDocument, Series
from penstock.model.bench.runs import Run, Step, StepOutcome, Verdict
from penstock.model.units import human_hz, human_number, human_percent, human_seconds
from penstock.report.pages.page import Picture
from penstock.report.pages.svg import COLOURS, picture
from penstock.report.verdicts import outcome_text

_Values = numpy.typing.NDArray[numpy.float64]
_POINTS_MAX = 1000
_LISTED_MAX = 20
_MARKERS: dict[StepOutcome, tuple[str, str]] = {
    "held": ("o", "good"),
    "not held": ("X", "bad"),
    "invalid": ("s", "void"),
}


def _plain_log(axes: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers, where there is room at 1, 2 and 5."""
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: human_number(value, 6)))
    axis.set_minor_formatter(NullFormatter())


def search_plot(verdict: Verdict) -> Picture | None:
    """Returns the steps with a rate, in order; None without a search."""
    steps = {number: step for number, step in enumerate(verdict.steps, 1) if step.rate_hz > 0}
    if verdict.search is None or not steps:
        return None
    tried = [f"{human_hz(step.rate_hz)} {outcome_text(step.outcome)}" for step in steps.values()]
    more = f" and {len(tried) - _LISTED_MAX} more" if len(tried) > _LISTED_MAX else ""
    description = (
        f"The detector needs {human_hz(verdict.needed_hz)}. Rates in the order of the steps:"
        f" {', '.join(tried[:_LISTED_MAX])}{more}."
    )
    return picture(
        "Search for the highest sustained rate", description, lambda f: _draw_search(f, verdict, steps), 3.4
    )


def _draw_search(figure: Figure, verdict: Verdict, steps: Mapping[int, Step]) -> None:
    """`steps` with their numbers in the table of all steps."""
    axes = figure.add_subplot()
    search = verdict.search
    for outcome, (marker, colour) in _MARKERS.items():
        points = [(n, step.rate_hz) for n, step in steps.items() if step.outcome == outcome]
        if points:
            numbers, rates = zip(*points, strict=True)
            axes.scatter(
                numbers,
                rates,
                marker=marker,
                s=60,
                color=COLOURS[colour],
                label=outcome_text(outcome),
                zorder=3,
            )
    axes.axhline(verdict.needed_hz, color=COLOURS["text"], linewidth=1.2, label="needed")
    if search is not None and search.full_speed_hz:
        axes.axhline(search.full_speed_hz, color=COLOURS["second"], linestyle="--", label="unpaced")
    if search is not None and search.held_hz and search.not_held_hz and search.held_hz < search.not_held_hz:
        axes.axhspan(search.held_hz, search.not_held_hz, color=COLOURS["warning"], alpha=0.2, label="bracket")
    for number, step in steps.items():
        lost = step.run.frames.due - step.run.frames.written if step.run.frames else 0
        note = f"{lost} lost" if lost else step.kind if step.kind in ("rate", "soak") else ""
        axes.annotate(note, (number, step.rate_hz), (7, 6), textcoords="offset points", fontsize=8)
    _plain_log(axes, "y")
    axes.set_xticks(list(steps))
    axes.set(xlabel="step", ylabel="frames/s", xlim=(0.5, max(steps) + 0.9))
    axes.margins(y=0.15)
    figure.legend(loc="outside upper right", ncols=6)


def latency_plot(run: Run, name: str, late_limit_s: float | None, *, is_void: bool) -> Picture | None:
    """Which share of frames took longer; None where no frame was done."""
    times, workload = run.document.times, run.document.plan.workload
    if times is None or not times.latency.buckets or not isinstance(workload, FramesWorkload):
        return None
    paced = workload.rate_hz > 0
    curves = {"latency from due time": (times.latency, "first"), "write time": (times.service, "second")}
    p50, p99 = (human_seconds(quantile_ns(times.latency, share) * 1e-9) for share in (0.5, 0.99))
    description = (
        f"Half of the frames were written within {p50} of their due time, 99 % within {p99}, all within"
        f" {human_seconds(times.latency.max_ns * 1e-9)}."
    )
    limits = {"late": workload.late_after_s} if paced else {}
    if paced:
        description += f" Dotted: after {human_seconds(workload.late_after_s)} a frame counts as late"
    if late_limit_s is not None:
        limits["limit"] = late_limit_s
        description += (
            f"{', and' if paced else ' Dotted:'} a rate is not sustained if a frame exceeds the limit,"
            f" {human_seconds(late_limit_s)}"
        )
    description += "." if limits else ""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for label, (histogram, colour) in curves.items():
            milliseconds, share = _share_above(histogram)
            if len(milliseconds):
                axes.step(
                    milliseconds, share, where="post", label=label, color=COLOURS[colour], linewidth=1.6
                )
        for label, limit_s in limits.items():
            if limit_s > 0:
                axes.axvline(limit_s * 1e3, color=COLOURS["bad"], linestyle=":", linewidth=1.2)
                place = ("data", "axes fraction")
                axes.annotate(
                    label, (limit_s * 1e3, 0.93), (3, 0), xycoords=place, textcoords="offset points"
                )
        _plain_log(axes, "x")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: human_percent(share)))
        axes.set(xlabel="ms", ylabel="fraction of frames that took longer")
        figure.legend(loc="outside upper right", ncols=2)

    return picture(f"Latency of frames: {name}", description, draw, 3.0, is_void)


def _share_above(histogram: Histogram) -> tuple[_Values, _Values]:
    """Ends of buckets in ms, and the share of values above each; above the last one half a value."""
    buckets = sorted(histogram.buckets)
    ends = numpy.array([max(1, high) for _, high, _ in buckets], dtype=numpy.float64) * 1e-6
    counts = numpy.cumsum(numpy.array([max(0, count) for _, _, count in buckets], dtype=numpy.float64))
    if not len(counts) or counts[-1] <= 0:
        return ends[:0], counts[:0]
    share = 1 - counts / counts[-1]
    ends, share = numpy.append(ends[0], ends), numpy.append(1.0, share)
    share[-1] = 0.5 / counts[-1]
    keep = slice(None, None, -(-len(ends) // _POINTS_MAX))
    return ends[keep], share[keep]


def series_plot(run: Run, name: str, late_limit_s: float | None, *, is_void: bool) -> Picture | None:
    """Bandwidth, backlog and slowest frame over time; None without a time series that fits together."""
    document, figures = run.document, run.frames
    series, workload = document.series, document.plan.workload
    if series is None or figures is None or not isinstance(workload, FramesWorkload) or not _fits(series):
        return None
    stall = f"the longest stall (shaded) was {human_seconds(figures.stall_s)}"
    limit = ""
    if late_limit_s:
        limit = (
            f" Dotted at the bottom: the limit of {human_seconds(late_limit_s)}, beyond which a rate is not"
            f" sustained."
        )
    description = (
        f"{figures.written} of {figures.due} frames were written and {figures.dropped} dropped;"
        f" at most {figures.held_max} of {workload.buffer_frames} frames were queued; {stall}."
        f" Dashed: needed.{limit}"
    )
    return picture(
        f"Time series: {name}",
        description,
        lambda figure: _draw_series(figure, document, workload, late_limit_s),
        5.2,
        is_void,
    )


def _fits(series: Series) -> bool:
    lengths = {len(column) for column in (series.dropped, series.bytes, series.held_max, series.time_max_ns)}
    return len(lengths) == 1 and lengths != {0}


def _binned(values: Sequence[int], step: int, combine: Callable[..., Any]) -> _Values:
    found = numpy.asarray(values, dtype=numpy.float64)
    padded = numpy.concatenate([found, numpy.zeros(-len(found) % step)])
    return numpy.asarray(combine(padded.reshape(-1, step), axis=1), dtype=numpy.float64)


def _draw_series(
    figure: Figure, document: LoadDocument, workload: FramesWorkload, late_limit_s: float | None
) -> None:
    series, levels = document.series, document.buffer
    assert series is not None
    step = -(-len(series.bytes) // _POINTS_MAX)
    interval_s = series.interval_s * step
    throughput = _binned(series.bytes, step, numpy.sum) / 1e6 / interval_s
    held = _binned(series.held_max, step, numpy.max)
    slowest = _binned(series.time_max_ns, step, numpy.max) * 1e-6
    dropped = _binned(series.dropped, step, numpy.sum)
    middles = (numpy.arange(len(throughput)) + 0.5) * interval_s
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    top.step(middles, throughput, where="mid", color=COLOURS["first"], linewidth=1.2)
    top.set(title="written, MB/s", ylim=(0, None))
    if workload.rate_hz > 0:
        needed = workload.rate_hz * workload.frame_bytes / 1e6
        top.axhline(needed, color=COLOURS["text"], linewidth=0.8, linestyle="--")
    middle.fill_between(middles, held, step="mid", color=COLOURS["first"], alpha=0.4, linewidth=0)
    middle.axhline(workload.buffer_frames, color=COLOURS["bad"], linewidth=0.8, linestyle=":")
    middle.set(title="queue depth in frames (dotted: full)", ylim=(0, None))
    known = slowest > 0
    bottom.scatter(middles[known], slowest[known], s=5, color=COLOURS["first"])
    if late_limit_s is not None and late_limit_s > 0:
        bottom.axhline(late_limit_s * 1e3, color=COLOURS["bad"], linewidth=0.8, linestyle=":")
    bottom.set(title="slowest frame, ms", xlabel="seconds")
    if known.any():
        _plain_log(bottom, "y")
    for axes in (top, middle, bottom):
        _mark_drops(axes, numpy.asarray(middles[dropped > 0], dtype=numpy.float64), interval_s)
        if levels is not None and levels.stall_s > max(workload.late_after_s, 0.01):
            begin, end = levels.stall_end_s - levels.stall_s, levels.stall_end_s
            axes.axvspan(begin, end, color=COLOURS["warning"], alpha=0.25, linewidth=0)
    middle.margins(x=0.01)
    if (dropped > 0).any():
        lost = f"red: {dropped.sum():.0f} frames dropped"
        middle.annotate(lost, (0.99, 0.8), xycoords="axes fraction", ha="right", color=COLOURS["bad"])


def _mark_drops(axes: Axes, middles: _Values, interval_s: float) -> None:
    for at in middles[:_POINTS_MAX]:
        axes.axvspan(at - interval_s / 2, at + interval_s / 2, color=COLOURS["bad"], alpha=0.35, linewidth=0)
