"""How fast the frames of an unpaced series reached the file, by the times in it."""

from pathlib import Path

import numpy
import numpy.typing

from penstock.bench.rehearse.throughput import TIMES_HELD, Throughput
from penstock.files.aside import aside
from penstock.files.hdf5 import open_for_reading
from penstock.files.timing import times_of

_WRITES_MIN = 3


@aside
def read_throughput(path: Path) -> Throughput | None:
    """Returns the throughput of a series; None if the file has no times."""
    with open_for_reading(path) as file:
        received, written = times_of(file, "received"), times_of(file, "written")
    if received is None or written is None:
        return None
    return throughput_of(received, written)


def throughput_of(
    received_ns: numpy.typing.NDArray[numpy.int64], written_ns: numpy.typing.NDArray[numpy.int64]
) -> Throughput | None:
    """Returns the throughput by the times of frames; -1 is an unknown time. None: none is known.

    The first write is left out of the steady part, since the pipeline fills until then.
    """
    count = min(len(received_ns), len(written_ns))
    known = (received_ns[:count] >= 0) & (written_ns[:count] >= 0)
    if not known.any():
        return None
    received, written = received_ns[:count][known], numpy.sort(written_ns[:count][known])
    last_arrival = int(received.max())
    seconds = (int(written[-1]) - int(received.min())) * 1e-9
    frames, held = len(written), int((written > last_arrival).sum())
    return Throughput(
        frames=frames,
        held=held,
        average_hz=frames / seconds if seconds > 0 else 0.0,
        steady_hz=_steady_hz(written[written <= last_arrival]) if TIMES_HELD * held <= frames else None,
    )


def _steady_hz(written_ns: numpy.typing.NDArray[numpy.int64]) -> float | None:
    if len(numpy.unique(written_ns)) < _WRITES_MIN:
        return None
    first, last = int(written_ns[0]), int(written_ns[-1])
    return float((written_ns > first).sum()) / ((last - first) * 1e-9)
