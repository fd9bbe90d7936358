"""A pvAccess server of NTNDArrays in a process of its own, and what it posts.

`python pva_server.py PORT BROADCAST_PORT [INITIAL]` reads one JSON document a line: `{"ids": [...], "codec":
...}` is posted and answered by `done`. INITIAL is such a document, with one number: what the channel has from
the beginning. Tests make the same images from the same numbers.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

CHANNEL = "TEST:Pva1:Image"
EPOCH_S = 1_700_000_000
Images = npt.NDArray[Any]
_SCALAR_TYPES = ("", "int8", "int16", "int32", "int64",
                 "uint8", "uint16", "uint32", "uint64", "float32", "float64")  # fmt: skip


def image(unique_id: int, dtype: str = "uint16", shape: tuple[int, ...] = (30, 40)) -> Images:
    """What is posted under a number."""
    return np.random.default_rng(unique_id).integers(0, 99, shape).astype(dtype)


def images(ids: Any, dtype: str = "uint16", shape: tuple[int, ...] = (30, 40)) -> Images:
    return np.stack([image(each, dtype, shape) for each in ids])


def compressed(codec: str, pixels: Images) -> bytes:
    """As NDPluginCodec does it; of `lz4` and `blosc` what is in HDF5's chunk behind its header."""
    if codec == "zlib":
        return zlib.compress(pixels.tobytes())
    if codec == "jpeg":
        import io

        from PIL import Image

        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=95)
        return stream.getvalue()
    import h5py
    import hdf5plugin

    # HDF5's own filters make the chunks: whoever takes them away again finds what a detector sends.
    filters = {
        "bslz4": hdf5plugin.Bitshuffle(nelems=0, cname="lz4"),
        "lz4": hdf5plugin.LZ4(),
        "lz4hdf5": hdf5plugin.LZ4(nbytes=1024),
        "blosc": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.SHUFFLE),
    }
    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("d", data=pixels, chunks=pixels.shape, **filters[codec])
        chunk = bytes(dataset.id.read_direct_chunk((0,) * pixels.ndim)[1])
    if codec == "lz4":
        total, block, size = struct.unpack_from(">QII", chunk)
        assert (total, block, size) == (pixels.nbytes, pixels.nbytes, len(chunk) - 16)
    return chunk[{"bslz4": 12, "lz4": 16}.get(codec, 0) :]


def value_of(nt: Any, unique_id: int, command: dict[str, Any]) -> Any:
    """One NTNDArray, with what a detector tells and with what the command spoils."""
    codec = command.get("codec", "")
    dtype, shape = command.get("dtype", "uint16"), tuple(command.get("shape", (30, 40)))
    pixels = image(unique_id, dtype, shape)
    attributes = {"Number": unique_id, "Temperature": 20.5 + unique_id, "Lamp": f"lamp {unique_id}"}
    attributes |= {"Vector": np.arange(3) + unique_id} | command.get("attributes", {})
    attributes |= {"ColorMode": 0} if "ColorMode" not in attributes else {}
    attributes = {} if command.get("bare") else attributes
    taken_s = EPOCH_S + command.get("later", 0) + unique_id
    value = nt.wrap(pixels.reshape(1, -1), attrib=attributes, timestamp=taken_s + 0.25)
    value["dimension"] = [
        {"size": size, "offset": place, "fullSize": 2 * size, "binning": 1 + place, "reverse": place == 1}
        for place, size in enumerate(reversed(shape))
    ]
    value["uniqueId"] = unique_id
    value["dataTimeStamp"] = {"secondsPastEpoch": taken_s, "nanoseconds": 500_000_000}
    # A server keeps what is not set from the value before.
    value["codec"] = {"name": codec, "parameters": _SCALAR_TYPES.index(dtype)}
    if codec:
        data = compressed(codec, pixels) + bytes(command.get("behind", 0))
        value["value"] = ("ubyteValue", np.frombuffer(data, np.uint8))
        value["compressedSize"] = len(data) - command.get("behind", 0)
        value["uncompressedSize"] = pixels.nbytes
    for field, content in command.get("spoil", {}).items():
        value[field] = content
    return value


def _post(pv: Any, nt: Any, command: dict[str, Any]) -> None:
    for unique_id in command["ids"]:
        pv.post(value_of(nt, unique_id, command))
        time.sleep(command.get("pause", 0.002))


def serve(port: int, broadcast_port: int, initial: dict[str, Any] | None) -> None:
    from p4p.nt import NTNDArray, NTScalar
    from p4p.server import Server
    from p4p.server.thread import SharedPV

    nt = NTNDArray()
    # Empty, as the channel of an NDPluginPva is before its first frame, unless something else is asked for.
    value = nt.type() if initial is None else value_of(nt, initial["ids"][0], initial)
    pv, other = SharedPV(initial=value), SharedPV(initial=NTScalar("d").wrap(1.0))
    settings = {
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_SERVER_PORT": str(port),
        "EPICS_PVAS_BROADCAST_PORT": str(broadcast_port),
    }
    with Server(providers=[{CHANNEL: pv, "TEST:Number": other}], conf=settings, useenv=False):
        print("serves", flush=True)
        for line in sys.stdin:
            _post(pv, nt, json.loads(line))
            print("done", flush=True)


class PvaServer:
    """The process. The address in `environment` leads clients to it and to nothing else."""

    def __init__(self, port: int) -> None:
        self._ports = (str(port), str(port + 1))
        self.environment = {
            "EPICS_PVA_ADDR_LIST": "127.0.0.1",
            "EPICS_PVA_AUTO_ADDR_LIST": "NO",
            "EPICS_PVA_SERVER_PORT": self._ports[0],
            "EPICS_PVA_BROADCAST_PORT": self._ports[1],
        }
        self.start()

    def start(self, initial: int | None = None, **command: Any) -> None:
        """`initial` is the number of the frame that the channel has from the beginning."""
        more = [] if initial is None else [json.dumps({"ids": [initial], **command})]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *self._ports, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer("serves")

    def post(self, ids: Any, **command: Any) -> None:
        """Returns when all is posted."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"ids": list(ids), **command}) + "\n")
        self._process.stdin.flush()
        self._answer("done")

    def _answer(self, expected: str) -> None:
        assert self._process.stdout is not None
        found = self._process.stdout.readline().strip()
        assert found == expected, f"the server says {found!r}"

    def restart_if_dead(self) -> None:
        if self._process.poll() is not None:
            self.start()

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()


if __name__ == "__main__":
    given = [json.loads(text) for text in sys.argv[3:]]
    serve(int(sys.argv[1]), int(sys.argv[2]), given[0] if given else None)
