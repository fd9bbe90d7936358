"""How late the frames of a series came and were written, by the times in its file."""

from pathlib import Path

import numpy
import numpy.typing

from penstock.bench.judge.holds import FRAMES_MIN
from penstock.files.aside import aside
from penstock.files.hdf5 import open_for_reading
from penstock.files.timing import times_of
from penstock.model.bench.rehearsals import Delays

_Seconds = numpy.typing.NDArray[numpy.float64]


@aside
def read_delays(path: Path, rate_hz: float) -> Delays | None:
    """Returns the delays of a series that was sent at `rate_hz` (above 0); None if the file has no times."""
    with open_for_reading(path) as file:
        received, written = times_of(file, "received"), times_of(file, "written")
        encoded = times_of(file, "encoded")
    if received is None or written is None:
        return None
    return delays_of(received, written, rate_hz, encoded)


def delays_of(
    received_ns: numpy.typing.NDArray[numpy.int64],
    written_ns: numpy.typing.NDArray[numpy.int64],
    rate_hz: float,
    encoded_ns: numpy.typing.NDArray[numpy.int64] | None = None,
) -> Delays | None:
    """Frame n is due at n / rate_hz after the schedule begins; -1 is an unknown time.

    The schedule begins so that the most punctual frame arrives on time: the sender's clock is not used.
    """
    count = min(len(received_ns), len(written_ns))
    received, written = received_ns[:count], written_ns[:count]
    known = (received >= 0) & (written >= 0)
    if not known.any():
        return None
    due = (numpy.arange(count) / rate_hz)[known]
    base = int(received[known].min())
    came = (received[known] - base) * 1e-9 - due
    done = (written[known] - base) * 1e-9 - due
    begin = came.min()
    return Delays(
        received_max_s=float((came - begin).max()),
        written_max_s=float((done - begin).max()),
        growth=_largest(_growth(done, due), _growth_of(encoded_ns, received, written, rate_hz)),
        arrival_growth=_growth(came, due),
    )


def _growth_of(
    encoded_ns: numpy.typing.NDArray[numpy.int64] | None,
    received_ns: numpy.typing.NDArray[numpy.int64],
    written_ns: numpy.typing.NDArray[numpy.int64],
    rate_hz: float,
) -> float | None:
    """Of the delay until compressed.

    Small compressed frames are written together when a segment is full, the last one with the least delay:
    their delay until written falls even if the compression falls behind.
    """
    if encoded_ns is None:
        return None
    count = min(len(encoded_ns), len(received_ns))
    encoded = encoded_ns[:count]
    known = (encoded >= 0) & (received_ns[:count] >= 0) & (written_ns[:count] >= 0)
    if not known.any():
        return None
    due = (numpy.arange(count) / rate_hz)[known]
    return _growth((encoded[known] - encoded[known].min()) * 1e-9 - due, due)


def _largest(*growths: float | None) -> float | None:
    return max((each for each in growths if each is not None), default=None)


def _growth(delays: _Seconds, due: _Seconds) -> float | None:
    """Rise of the median delay from the second to the fourth quarter, per second between their middles.

    The first quarter is left out: there the pipeline fills.
    """
    if len(delays) < FRAMES_MIN:
        return None
    _, before, _, after = numpy.array_split(delays, 4)
    _, begin, _, end = numpy.array_split(due, 4)
    between_s = float(numpy.median(end) - numpy.median(begin))
    return float(numpy.median(after) - numpy.median(before)) / between_s if between_s > 0 else None
