"""Send frames from Python to a recorder, with acknowledgements; what is lost on the way is sent again.

    with Series("127.0.0.1:9900", dtype="uint16", shape=(512, 1024), frames=100, name="scan_0042") as series:
        for image in images:
            series.send(image)

Needs numpy and cbor2, and nothing else of Penstock. The reference is docs/reference/client-python.md.
"""

from penstock.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    FrameError,
    FramesRefusedError,
    RefusedError,
    SeriesProblemError,
)
from penstock.client.pixels import Compressed
from penstock.client.series import Series
from penstock.client.session import Refusal
from penstock.client.values import Values

__all__ = [
    "ClientError",
    "ClientTimeoutError",
    "Compressed",
    "ConnectionLostError",
    "FrameError",
    "FramesRefusedError",
    "Refusal",
    "RefusedError",
    "Series",
    "SeriesProblemError",
    "Values",
]
