"""What is done with a frame: statistics, spots, and its azimuthal profile."""

from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from penstock.bench.science.imaging.simulated import Pixels
from penstock.model.errors import PenstockError

BINS = 500
_PIXEL_M, _DISTANCE_M, _WAVELENGTH_M = 75e-6, 0.2, 1e-10
# Integer types; a pixel that has the largest value is a gap or a dead one.
_INTEGERS = "iu"
Profile = NDArray[numpy.float32]


@dataclass(frozen=True)
class Result:
    """Of one frame; None where it was not asked for."""

    total: int | None = None
    spots: int | None = None
    profile: Profile | None = None


class Analysis:
    """For frames of one shape and type. `process`: all, integrate, statistics or none."""

    def __init__(
        self, process: str, shape: tuple[int, ...], type_: "numpy.dtype[Any]", threshold: int
    ) -> None:
        """Raises PenstockError if pyFAI is needed and missing."""
        if type_.kind not in _INTEGERS:
            raise PenstockError(f"pixels of type {type_} have no exact sum", "use a file of integer pixels")
        self._has_statistics = process in ("all", "statistics")
        self._wide = numpy.uint64 if type_.kind == "u" else numpy.int64
        self._threshold, self._gap = threshold, int(numpy.iinfo(type_).max)
        self._integrator = _integrator(shape) if process in ("all", "integrate") else None
        self.of(numpy.zeros(shape, type_))  # what is computed once must not be counted with a frame

    def of(self, frame: Pixels) -> Result:
        total, spots, profile = None, None, None
        if self._has_statistics:
            total = int(frame.sum(dtype=self._wide))
            spots = self._spots(frame)
        if self._integrator is not None:
            profile = self._integrated(frame)
        return Result(total, spots, profile)

    def _spots(self, frame: Pixels) -> int:
        """Local maxima above the threshold; of a plateau of two pixels the first one counts."""
        bright: Any = frame > self._threshold
        rows, columns = numpy.divmod(numpy.flatnonzero(bright), frame.shape[1])
        inside = (rows > 0) & (rows < frame.shape[0] - 1) & (columns > 0) & (columns < frame.shape[1] - 1)
        rows, columns = rows[inside], columns[inside]
        value = frame[rows, columns]
        is_spot = value != self._gap
        for down, right in ((-1, -1), (-1, 0), (-1, 1), (0, -1)):
            is_spot &= value > frame[rows + down, columns + right]
            is_spot &= value >= frame[rows - down, columns - right]
        return int(numpy.count_nonzero(is_spot))

    def _integrated(self, frame: Pixels) -> Profile:
        assert self._integrator is not None
        found = self._integrator.integrate1d_ng(frame, BINS, unit="2th_deg", method=("no", "csr", "cython"))
        return numpy.asarray(found.intensity, numpy.float32)


def _integrator(shape: tuple[int, ...]) -> Any:
    """The beam hits the middle of the frame."""
    try:
        from pyFAI.integrator.azimuthal import AzimuthalIntegrator  # noqa: PLC0415  (an extra of the package)
    except ImportError as error:
        raise PenstockError(
            "azimuthal integration requires pyFAI, which is not installed",
            "pip install 'penstock[science]', or use --process statistics",
        ) from error
    return AzimuthalIntegrator(
        dist=_DISTANCE_M,
        poni1=shape[0] / 2 * _PIXEL_M,
        poni2=shape[1] / 2 * _PIXEL_M,
        pixel1=_PIXEL_M,
        pixel2=_PIXEL_M,
        wavelength=_WAVELENGTH_M,
    )
