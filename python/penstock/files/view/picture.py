"""What `penstock view` shows: values of pixels, at most as many as the picture has, and what they are of."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy
import numpy.typing
from pydantic import BaseModel

from penstock.files.aside import notify, run_aside, show_life
from penstock.files.hdf5 import open_for_reading
from penstock.files.images.hdf5_images import split_name
from penstock.files.view.frames import Flags, Frames, Pixels, Region, tiles_of
from penstock.model.errors import UsageError
from penstock.model.text import counted

Values = numpy.typing.NDArray[numpy.floating]
Scale = Literal["log", "linear"]

_SAMPLES = 5
_MOVIE_FRAMES = 100


@dataclass(frozen=True)
class Choice:
    """Which pixels to show, and in what size.

    `rows` and `columns` are half-open ranges, or None for all; the picture has at most `size` pixels on its
    longer side.
    """

    channel: str | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    masked: bool = True
    size: int = 1200


@dataclass(frozen=True)
class Span:
    """A selection of frames: `first` to `end` (half-open; None: to the last frame), every `step`-th."""

    first: int = 0
    end: int | None = None
    step: int | None = None


@dataclass(frozen=True)
class Look:
    """How values become colours: the values of the first and the last colour (None: from the pixels).

    `plain` leaves out axes, title and colour bar.
    """

    colormap: str = "inferno"
    scale: Scale = "log"
    limits: tuple[float | None, float | None] = (None, None)
    plain: bool = False

    def limits_for(self, found: tuple[float, float]) -> tuple[float, float]:
        """Returns the limits, with `found` for those that are not given; the lower one is always lower."""
        low, high = (own if own is not None else other for own, other in zip(self.limits, found, strict=True))
        if low < high:
            return low, high
        if self.limits[0] is None:
            return (high / 10 if self.scale == "log" else high - 1), high
        return low, (low * 10 if self.scale == "log" else low + 1)


class Numbers(BaseModel):
    """What a picture is of. Statistics are over the pixels with a value, in the file's resolution."""

    file: str
    dataset: str
    channel: str | None = None
    frames_in_file: int
    frame: int | None = None  # of one frame
    frames: int = 1  # that the picture shows
    missing: list[int] = []  # of a sum: the first frames that are missing
    frames_missing: int = 0
    reason: str = ""  # of one missing frame
    rows: tuple[int, int]
    columns: tuple[int, int]
    pixels: int
    pixels_without_value: int
    pixels_masked: int | None = None  # None: the file has no mask, or it is not applied
    pixels_partial: int = 0  # of a sum: without a value in some of the frames
    minimum: float | None = None
    maximum: float | None = None
    maximum_at: tuple[int, int] | None = None  # row and column
    mean: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class Picture:
    """`values` are the highest of each block of `step` x `step` pixels, NaN without a value.

    Each is shown as `zoom` x `zoom` pixels, if the picture is not plain.
    """

    values: Values
    step: int
    zoom: int
    numbers: Numbers


def frame_picture(path: Path, choice: Choice, number: int | None) -> Picture:
    """Returns frame `number`, from the end if it is negative; None: the first frame that is not missing.

    `path` may name a dataset: FILE::/PATH. UsageError: there is no such frame, region or channel.
    PenstockError: the file cannot be read.
    """
    return run_aside(path, lambda: _frame(path, choice, number))


def sum_picture(path: Path, choice: Choice, span: Span, on_frame: Callable[[int, int], object]) -> Picture:
    """Returns the sum of frames, without missing ones. Errors as of frame_picture().

    A pixel without a value in some of the frames is the sum of the others. `on_frame` gets the number of
    frames read, and their total.
    """
    return run_aside(path, lambda: _sum(path, choice, span), on_frame)


OnPicture = Callable[[Picture, int, tuple[float, float]], object]


def movie_pictures(path: Path, choice: Choice, span: Span, scale: Scale, on_picture: OnPicture) -> None:
    """Calls `on_picture` with each frame, the number of frames and a common range of values.

    The range is that of 5 frames, evenly spaced. Errors as of frame_picture().
    """
    run_aside(path, lambda: _movie(path, choice, span, scale), on_picture)


def _frame(path: Path, choice: Choice, number: int | None) -> Picture:
    with _Look(path, choice) as look:
        if number is None:
            return next(look.present(), None) or look.picture(0)
        count = look.frames.count
        if not -count <= number < count:
            completion = look.frames.completion
            so_far, or_else = (" so far", f"; more may follow: {completion}") if completion else ("", "")
            raise UsageError(
                f"--frame {number}: {path} has {counted(count, 'frame')}{so_far}",
                f"name one from 0 to {count - 1}, or -1, the last{or_else}",
            )
        return look.picture(number % count)


def _sum(path: Path, choice: Choice, span: Span) -> Picture:
    with _Look(path, choice) as look:
        numbers = look.numbers_of(span, 1)
        missing: dict[int, None] = {}
        canvas, tiles, partial = look.canvas(), tiles_of(look.region), 0
        for before, tile in enumerate(tiles):
            total = numpy.zeros(tile.shape)
            frames_with_value = numpy.zeros(tile.shape, numpy.min_scalar_type(len(numbers)))
            for done, number in enumerate(numbers, before * len(numbers) + 1):
                frame = None if number in missing else look.frames.read(number, tile)
                if frame is None:
                    missing[number] = None
                else:
                    numpy.add(total, frame[0], out=total, where=frame[1])
                    frames_with_value += frame[1]
                notify(-(-done // len(tiles)), len(numbers))
            frames = len(numbers) - len(missing)
            canvas.add(tile, total, frames_with_value > 0)
            in_some = (frames_with_value > 0) & (frames_with_value < frames)
            partial += int(numpy.count_nonzero(in_some))
        picture = canvas.picture()
        picture.numbers.frames, picture.numbers.frames_missing = frames, len(missing)
        picture.numbers.missing = list(missing)[:1000]
        picture.numbers.pixels_partial = partial
        return picture


def _movie(path: Path, choice: Choice, span: Span, scale: Scale) -> None:
    with _Look(path, choice) as look:
        numbers = look.numbers_of(span, None)
        samples = [look.picture(number) for number in numbers[:: -(-len(numbers) // _SAMPLES)]]
        limits = limits_of(numpy.concatenate([each.values.ravel() for each in samples]), scale)
        for number in numbers:
            notify(look.picture(number), len(numbers), limits)


def limits_of(values: Values, scale: Scale) -> tuple[float, float]:
    """Returns the range of values to show: from the 1st to the 99.9th percentile.

    Of a logarithmic scale that of the positive values, from half of its lower end: zero has a colour of its
    own. Without values 0.5 to 1, or 0 to 1.
    """
    known = values[numpy.isfinite(values)]
    if scale == "log":
        known = known[known > 0]
    if not known.size:
        return (0.5, 1.0) if scale == "log" else (0.0, 1.0)
    low, high = (float(each) for each in numpy.percentile(known, (1, 99.9)))
    if scale == "log":
        low /= 2
    return low, high if high > low else low + 1.0


def shrink(values: Values, step: int) -> Values:
    """Returns the highest value of each block of pixels, so that small spots survive; NaN only if all are."""
    if step <= 1:
        return values
    rows, columns = (-(-side // step) * step for side in values.shape)
    padded = numpy.full((rows, columns), -numpy.inf, values.dtype)
    padded[: values.shape[0], : values.shape[1]] = numpy.where(numpy.isnan(values), -numpy.inf, values)
    highest = padded.reshape(rows // step, step, columns // step, step).max(axis=(1, 3))
    return numpy.where(numpy.isneginf(highest), numpy.nan, highest)


class _Look:
    """The open file, and the pixels of it that were chosen."""

    def __init__(self, path: Path, choice: Choice) -> None:
        self._path, self._within = split_name(path)
        self._choice = choice

    def __enter__(self) -> "_Look":
        self._opened = open_for_reading(self._path)
        opened = self._opened.__enter__()
        self.frames = Frames(opened, self._path, self._within, self._choice.channel)
        self.region = self._region()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.__exit__(None, None, None)

    def _region(self) -> Region:
        rows = self._side("rows", self._choice.rows, self.frames.rows)
        return Region(rows, self._side("columns", self._choice.columns, self.frames.columns))

    @staticmethod
    def _side(name: str, chosen: tuple[int, int] | None, side: int) -> tuple[int, int]:
        first, end = chosen or (0, side)
        if not 0 <= first < end <= side:
            raise UsageError(
                f"--region: {name} {first}:{end} are not in the frame, which has {side} {name}",
                "give half-open ranges ROW:ROW,COLUMN:COLUMN, such as 0:512,1024:2048",
            )
        return first, end

    def numbers_of(self, span: Span, step: int | None) -> range:
        """The frames of `span`; without a step every `step`-th, or as many as make a movie of 100 frames."""
        end = self.frames.count if span.end is None else span.end
        if not 0 <= span.first < end <= self.frames.count:
            raise UsageError(
                f"--frames {span.first}:{'' if span.end is None else span.end}: {self._path} has"
                f" {counted(self.frames.count, 'frame')}",
                "give a half-open range FIRST:END[:STEP], such as 0:100",
            )
        return range(span.first, end, span.step or step or -(-(end - span.first) // _MOVIE_FRAMES))

    def present(self) -> Iterator[Picture]:
        """The frames that are not missing."""
        tile = tiles_of(self.region)[0]
        for number in range(self.frames.count):
            show_life()
            if self.frames.read(number, tile) is not None:
                yield self.picture(number)

    def picture(self, number: int) -> Picture:
        canvas, is_missing = self.canvas(), False
        for tile in tiles_of(self.region):
            show_life()
            frame = self.frames.read(number, tile)
            is_missing = frame is None
            nothing = numpy.zeros(tile.shape, numpy.bool_)
            canvas.add(tile, *(frame or (nothing, nothing)))
        picture = canvas.picture()
        picture.numbers.frame = number
        if is_missing:
            picture.numbers.frames, picture.numbers.frames_missing = 0, 1
            picture.numbers.reason = self.frames.why_missing(number)
        return picture

    def canvas(self) -> "_Canvas":
        frames = self.frames
        return _Canvas(
            frames,
            self._choice,
            Numbers(
                file=str(self._path),
                dataset=frames.name,
                channel=frames.channel if isinstance(frames.channel, str) else None,
                frames_in_file=frames.count,
                rows=self.region.rows,
                columns=self.region.columns,
                pixels=math.prod(self.region.shape),
                pixels_without_value=0,
            ),
        )


class _Canvas:
    """A picture, to which tiles of its pixels are added in their order. The mask is applied here."""

    def __init__(self, frames: Frames, choice: Choice, numbers: Numbers) -> None:
        self._frames, self._choice, self._numbers = frames, choice, numbers
        self._corner = numbers.rows[0], numbers.columns[0]
        sides = numbers.rows[1] - numbers.rows[0], numbers.columns[1] - numbers.columns[0]
        self._step = -(-max(sides) // choice.size)
        rows, columns = (-(-side // self._step) for side in sides)
        self._values = numpy.full((rows, columns), numpy.nan, numpy.float32)
        self._totals: list[float] = []

    def add(self, tile: Region, pixels: Pixels, valid: Flags) -> None:
        numbers = self._numbers
        masked = self._frames.masked(tile) if self._choice.masked else None
        known = valid if masked is None else valid & ~masked
        if masked is not None:
            numbers.pixels_masked = (numbers.pixels_masked or 0) + int(numpy.count_nonzero(masked))
        values = numpy.where(known, pixels, numpy.nan).astype(numpy.float64, copy=False)
        inside = values[known]
        numbers.pixels_without_value += values.size - inside.size
        if inside.size:
            lowest, highest = float(inside.min()), float(inside.max())
            if numbers.minimum is None or lowest < numbers.minimum:
                numbers.minimum = lowest
            if numbers.maximum is None or highest > numbers.maximum:
                row, column = (int(at) for at in numpy.unravel_index(numpy.nanargmax(values), values.shape))
                numbers.maximum, numbers.maximum_at = highest, (row + tile.rows[0], column + tile.columns[0])
            self._totals.append(float(inside.sum()))
        self._paint(tile, values)

    def _paint(self, tile: Region, values: Values) -> None:
        """The highest value of each block of pixels, of which a tile may have a part."""
        for axis, (first, end) in enumerate((tile.rows, tile.columns)):
            next_block = self._step - (first - self._corner[axis]) % self._step
            if self._step > 1:
                starts = [0, *range(next_block, end - first, self._step)]
                values = numpy.fmax.reduceat(values, starts, axis=axis)
        row, column = (
            (at - corner) // self._step
            for at, corner in zip((tile.rows[0], tile.columns[0]), self._corner, strict=True)
        )
        shown = self._values[row : row + values.shape[0], column : column + values.shape[1]]
        numpy.fmax(shown, values, out=shown, casting="same_kind")

    def picture(self) -> Picture:
        numbers = self._numbers
        if self._totals:
            numbers.total = math.fsum(self._totals)
            numbers.mean = numbers.total / (numbers.pixels - numbers.pixels_without_value)
        zoom = max(1, self._choice.size // max(self._values.shape))
        return Picture(self._values, self._step, zoom, numbers)
