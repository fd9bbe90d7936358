"""Simulated frames: a Poisson background with rings, and spots at known places, all from a seed."""

from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

Pixels = NDArray[Any]

_BACKGROUND, _RING = 3.0, 5.0
_RINGS = ((0.18, 0.01), (0.31, 0.008), (0.4, 0.012))
"""radius and width, as shares of the frame's smaller side"""
_CLASSES, _QUANTILES = 16, 1 << 16
_CELL, _MARGIN = 24, 4
_SPOTS_MIN, _SPOTS_MAX = 5, 60
_HEIGHT_MIN, _HEIGHT_MAX = 400, 3000
_PROFILE = numpy.array([[0.3, 0.5, 0.3], [0.5, 1.0, 0.5], [0.3, 0.5, 0.3]])


@dataclass(frozen=True)
class Frame:
    pixels: Pixels
    spots: int
    """that were put in"""


class Simulation:
    """Frames of one detector. Frame `number` is the same whenever it is made."""

    def __init__(self, shape: tuple[int, int], type_: str, seed: int) -> None:
        self._shape, self._seed = shape, seed
        self._table, self._first = _counts(type_), _classes(shape) * _QUANTILES

    def frame(self, number: int) -> Frame:
        random = numpy.random.default_rng([self._seed, number])
        quantiles = random.integers(0, _QUANTILES, self._shape, dtype=numpy.uint16)
        pixels = self._table[self._first + quantiles]
        return Frame(pixels, self._add_spots(pixels, random))

    def _add_spots(self, pixels: Pixels, random: numpy.random.Generator) -> int:
        """One in a cell at most, so that none touches another one."""
        rows, columns = (side // _CELL for side in self._shape)
        most = min(_SPOTS_MAX, rows * columns)
        count = int(random.integers(min(_SPOTS_MIN, most), most + 1))
        cells = random.choice(rows * columns, count, replace=False)
        within = random.integers(_MARGIN, _CELL - _MARGIN, (count, 2))
        heights = random.integers(_HEIGHT_MIN, _HEIGHT_MAX, count)
        for cell, (row, column), height in zip(cells, within, heights, strict=True):
            at_row, at_column = cell // columns * _CELL + row, cell % columns * _CELL + column
            spot = (slice(at_row - 1, at_row + 2), slice(at_column - 1, at_column + 2))
            pixels[spot] += (height * _PROFILE).astype(pixels.dtype)
        return count


def _classes(shape: tuple[int, int]) -> NDArray[numpy.int32]:
    """Brightness of each pixel, in steps."""
    rows, columns = numpy.indices(shape, dtype=numpy.float32)
    radius = numpy.hypot(rows - shape[0] / 2, columns - shape[1] / 2) / min(shape)
    rings = sum(numpy.exp(-(((radius - at) / width) ** 2)) for at, width in _RINGS)
    steps = numpy.clip(rings, 0, 1) * (_CLASSES - 1)
    return numpy.asarray(numpy.rint(steps), numpy.int32)


def _counts(type_: str) -> Pixels:
    """The Poisson counts of each class by their quantile, one class after another."""
    counts = numpy.arange(256)
    quantiles = (numpy.arange(_QUANTILES) + 0.5) / _QUANTILES
    tables = []
    for number in range(_CLASSES):
        mean = _BACKGROUND + _RING * number / (_CLASSES - 1)
        logs = counts * numpy.log(mean) - mean - numpy.concatenate([[0.0], numpy.log(counts[1:]).cumsum()])
        tables.append(numpy.searchsorted(numpy.exp(logs).cumsum(), quantiles))
    return numpy.concatenate(tables).astype(type_)
