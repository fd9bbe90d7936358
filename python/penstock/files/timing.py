"""When each frame passed each stage, as the recorder wrote it into the file."""

from dataclasses import dataclass

import h5py
import numpy
import numpy.typing
from pydantic import BaseModel

from penstock.files.aside import show_life
from penstock.files.hdf5 import item_at, lies_elsewhere, stored_frames

TIMING = "/entry/penstock/timing"
LEDGER = "/entry/penstock/frame_state"
_RECEIVED = 1
STAGES = (
    ("received", "encoded", "compress"),
    ("encoded", "written", "write"),
    ("received", "written", "total"),
)
_ROWS_MAX = 4_000_000
_BINS = 40
_BIN_SECONDS_MIN = 0.5

Times = numpy.typing.NDArray[numpy.int64]


class Percentiles(BaseModel):
    """Of one stage, over all frames that have its times; milliseconds."""

    stage: str
    frames: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class RatePoint:
    """The rates around one time, seconds since the first frame came."""

    seconds: float
    received_bytes_per_s: float
    written_bytes_per_s: float


def times_of(file: h5py.File, column: str) -> Times | None:
    """A column of times in ns since 1970 (-1: not known); None where there is none."""
    dataset = item_at(file, f"{TIMING}/{column}")
    if not isinstance(dataset, h5py.Dataset) or lies_elsewhere(dataset) or dataset.ndim != 1:
        return None
    return numpy.asarray(dataset[:_ROWS_MAX], dtype=numpy.int64)


def frames_without_row(file: h5py.File) -> int:
    """Frames that are in the file while the times at which they were encoded and written are not.

    A killed recorder had not stored these: it does so once a second.
    """
    states, written = item_at(file, LEDGER), times_of(file, "written")
    if not isinstance(states, h5py.Dataset) or lies_elsewhere(states):
        return 0
    if states.ndim != 1 or written is None:
        return 0
    there = numpy.asarray(states[:_ROWS_MAX]) == _RECEIVED
    count = min(len(there), len(written))
    return int((there[:count] & (written[:count] < 0)).sum())


def stage_percentiles(file: h5py.File) -> list[Percentiles]:
    """How long frames took from stage to stage."""
    found = []
    for first, last, stage in STAGES:
        show_life()
        begin, end = times_of(file, first), times_of(file, last)
        if begin is None or end is None:
            continue
        count = min(len(begin), len(end))
        known = (begin[:count] >= 0) & (end[:count] >= 0)
        took = (end[:count] - begin[:count])[known] / 1e6
        if took.size:
            p50, p90, p99 = (float(value) for value in numpy.percentile(took, (50, 90, 99)))
            worst = float(took.max())
            found.append(
                Percentiles(stage=stage, frames=took.size, p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=worst)
            )
    return found


def rate_curve(file: h5py.File, path: str = "/entry/data/data") -> list[RatePoint]:
    """Bytes a second over the time of the series: those that came (uncompressed), those that were stored."""
    received, written = times_of(file, "received"), times_of(file, "written")
    dataset = item_at(file, path)
    if received is None or written is None or not isinstance(dataset, h5py.Dataset):
        return []
    dataset = stored_frames(dataset)
    known_in, known_out = received >= 0, written >= 0
    if not known_in.any() or not known_out.any():
        return []
    begin = int(received[known_in].min())
    seconds = (max(int(received.max()), int(written.max())) - begin) / 1e9
    # Equal bins that cover the series exactly: a shorter last one would look like a drop.
    bins = max(1, int(seconds / max(seconds / _BINS, _BIN_SECONDS_MIN)))
    width = seconds / bins or _BIN_SECONDS_MIN
    frame_bytes = float(numpy.prod(dataset.shape[1:])) * dataset.dtype.itemsize
    came = _binned((received[known_in] - begin) / 1e9, numpy.full(known_in.sum(), frame_bytes), width, bins)
    sizes = chunk_bytes(dataset, len(written))
    went = _binned((written[known_out] - begin) / 1e9, sizes[known_out], width, bins)
    return [
        RatePoint((position + 0.5) * width, float(came[position] / width), float(went[position] / width))
        for position in range(bins)
    ]


def _binned(
    seconds: numpy.typing.NDArray[numpy.float64],
    weights: numpy.typing.NDArray[numpy.float64],
    width: float,
    bins: int,
) -> numpy.typing.NDArray[numpy.float64]:
    places = numpy.minimum((seconds / width).astype(numpy.int64), bins - 1)
    return numpy.bincount(places, weights=weights, minlength=bins).astype(numpy.float64)


def chunk_bytes(dataset: h5py.Dataset, frames: int) -> numpy.typing.NDArray[numpy.float64]:
    """The stored bytes of each of the first `frames` frames; a frame a chunk. 0 without a chunk, and
    where they lie in other files. Contiguous frames all have theirs.
    """
    if dataset.chunks is None and not dataset.is_virtual:
        return numpy.full(frames, float(numpy.prod(dataset.shape[1:])) * dataset.dtype.itemsize)
    sizes = numpy.zeros(frames)
    if dataset.chunks is None:
        return sizes
    rows = dataset.chunks[0]

    def note(chunk: h5py.h5d.StoreInfo) -> None:
        first = chunk.chunk_offset[0]
        last = min(first + rows, frames)
        sizes[first:last] += chunk.size / max(1, last - first)

    dataset.id.chunk_iter(note)
    return sizes
