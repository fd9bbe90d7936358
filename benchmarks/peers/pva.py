"""pvAccess by p4p alone: a server of NTNDArrays, and a monitor that counts them.

Reads a plan from standard input: `{"mode": "serve", "port", "broadcast_port", "shape", "codec", "rate",
"seconds"}` or `{"mode": "monitor", "port", "broadcast_port", "queue_frames"}`. The server begins to post a
second after the first client came, and tells `posted`; the monitor tells `received` on SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

import bitshuffle
import numpy as np
from p4p.client.raw import Context
from p4p.nt import NTNDArray
from p4p.server import Server
from p4p.server.thread import SharedPV

CHANNEL = "BENCH:Pva1:Image"
_DIFFERENT = 8


def tell(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def values(shape: tuple[int, int], codec: str) -> list[Any]:
    nt, found = NTNDArray(), []
    generator = np.random.default_rng(1)
    for _ in range(_DIFFERENT):
        pixels = generator.poisson(0.3, shape).astype(np.uint16)
        value = nt.wrap(pixels, attrib={"Temperature": 21.5, "Shutter": "open", "ColorMode": 0})
        if codec:
            data = bitshuffle.compress_lz4(pixels)
            value["value"] = ("ubyteValue", np.asarray(data).view(np.uint8).ravel())
            value["codec"] = {"name": codec, "parameters": 6}
            value["compressedSize"], value["uncompressedSize"] = data.nbytes, pixels.nbytes
        found.append(value)
    return found


def serve(plan: dict[str, Any]) -> None:
    frames = values(tuple(plan["shape"]), plan["codec"])
    there = threading.Event()

    class Handler:
        def onFirstConnect(self, _pv: Any) -> None:  # noqa: N802  p4p's name
            there.set()

    pv = SharedPV(initial=frames[0].type()(), handler=Handler())
    settings = {
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_SERVER_PORT": str(plan["port"]),
        "EPICS_PVAS_BROADCAST_PORT": str(plan["broadcast_port"]),
    }
    with Server(providers=[{CHANNEL: pv}], conf=settings, useenv=False):
        tell("serves")
        there.wait()
        time.sleep(1.0)
        begin = time.monotonic()
        number = 0
        while (now := time.monotonic()) - begin < plan["seconds"]:
            due = begin + number / plan["rate"]
            if due > now:
                time.sleep(due - now)
            number += 1
            value = frames[number % _DIFFERENT]
            value["uniqueId"] = number
            pv.post(value)
        seconds = time.monotonic() - begin
        time.sleep(1.0)
        tell("posted", frames=number, seconds=seconds)
        signal.pause()


def monitor(plan: dict[str, Any]) -> None:
    settings = {
        "EPICS_PVA_ADDR_LIST": "127.0.0.1",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_SERVER_PORT": str(plan["port"]),
        "EPICS_PVA_BROADCAST_PORT": str(plan["broadcast_port"]),
    }
    stop, there = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    context = Context("pva", conf=settings, useenv=False, nt=False)
    request = f"record[queueSize={plan['queue_frames']}]"
    received = 0
    with context, context.monitor(CHANNEL, there.set, request=request) as subscription:
        while not stop.is_set():
            there.wait(0.1)
            there.clear()
            while (update := subscription.pop()) is not None:
                if not isinstance(update, Exception) and update.uniqueId > 0:
                    received += 1
    tell("received", frames=received)


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    {"serve": serve, "monitor": monitor}[given["mode"]](given)
