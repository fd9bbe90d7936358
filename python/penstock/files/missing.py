"""Which frames a series lacks, from the frame accounting in its file."""

from pathlib import Path

import h5py
import numpy
import numpy.typing

from penstock.files.aside import aside
from penstock.files.hdf5 import attribute_of, item_at, lies_elsewhere, open_for_reading
from penstock.files.timing import LEDGER
from penstock.model.events import FrameRange

STATES_MAX = 1 << 28
REASONS = {"damaged": 2, "dropped": 3, "lost": 4, "partial": 5}
"""Values of frame_state of missing frames that arrived in some form; 0: the frame never arrived."""
RECEIVED = 1
_RANGES_MAX = 1000


@aside
def missing_ranges(path: Path) -> list[FrameRange]:
    """Returns the first ranges of missing frames; empty if the file has no complete frame accounting."""
    with open_for_reading(path) as file:
        ledger = item_at(file, LEDGER)
        if (
            not isinstance(ledger, h5py.Dataset)
            or lies_elsewhere(ledger)
            or ledger.ndim != 1
            or ledger.size > STATES_MAX
            or attribute_of(ledger, "received") is None  # the recorder writes it when the series ends
        ):
            return []
        return ranges_of(numpy.asarray(ledger[...], dtype=numpy.uint8))


def ranges_of(states: numpy.typing.NDArray[numpy.uint8]) -> list[FrameRange]:
    """Returns the ranges of equal states other than received, at most 1000."""
    if not states.size:
        return []
    firsts = numpy.concatenate([[0], numpy.flatnonzero(numpy.diff(states)) + 1])
    lasts = numpy.concatenate([firsts[1:] - 1, [states.size - 1]])
    names = {state: name for name, state in REASONS.items()}
    lacking = states[firsts] != RECEIVED
    return [
        FrameRange(first=int(first), last=int(last), reason=names.get(int(states[first]), ""))
        for first, last in zip(firsts[lacking][:_RANGES_MAX], lasts[lacking][:_RANGES_MAX], strict=True)
    ]
