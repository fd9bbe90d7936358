"""A facility's EIGER simulator (tickit-devices, unmodified), in a process and an environment of its own."""

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import bitshuffle
import cbor2
import numpy
from ports import free_ports

ENVIRONMENT = Path(__file__).resolve().parents[3] / ".venv" / "peers" / "tickit"
PATIENCE_S = 60.0
ANSWER_S = 20.0
# While it starts, it may accept a request and never answer it.
FIRST_ANSWER_S = 2.0


def data_folder() -> Path:
    """The simulator's own: messages that were captured from an EIGER2 16M."""
    assert ENVIRONMENT.is_dir(), "the simulator is not installed: run scripts/setup (requirements/peers.py)"
    (folder,) = ENVIRONMENT.glob("lib/python*/site-packages/tickit_devices/eiger/data")
    return folder


def captured(name: str) -> dict[str, Any]:
    message = cbor2.loads((data_folder() / "stream2" / f"{name}.cbor").read_bytes())
    fields: dict[str, Any] = getattr(message, "value", message)
    return fields


def unpacked(blob: bytes, kind: str, shape: tuple[int, int]) -> numpy.ndarray:
    """Pixels that bitshuffle and LZ4 packed, with HDF5's framing; not by Penstock's code."""
    dtype = numpy.dtype(kind)
    block_bytes = int.from_bytes(blob[8:12], "big")
    packed = numpy.frombuffer(blob[12:], numpy.uint8)
    pixels: numpy.ndarray = bitshuffle.decompress_lz4(packed, shape, dtype, block_bytes // dtype.itemsize)
    return pixels


class Eiger:
    """`with Eiger(folder) as eiger:`; its detector is initialized."""

    def __init__(self, folder: Path) -> None:
        self.port = free_ports(3)
        self.folder = folder
        self.legacy = f"tcp://127.0.0.1:{self.port + 1}"
        self.cbor = f"tcp://127.0.0.1:{self.port + 2}"

    def __enter__(self) -> Self:
        config = self.folder / "eiger.yaml"
        config.write_text(
            "- type: tickit_devices.eiger.Eiger\n  name: eiger\n  inputs: {}\n  host: 127.0.0.1\n"
            f"  port: {self.port}\n  stream_legacy_port: {self.port + 1}\n"
            f"  stream_cbor_port: {self.port + 2}\n"
        )
        data_folder()
        with (self.folder / "eiger.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    ENVIRONMENT / "bin" / "python",
                    "-m",
                    "tickit",
                    "--log-level",
                    "WARNING",
                    "all",
                    str(config),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": ""},
            )
        self._initialize()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def _put(self, path: str, timeout_s: float = ANSWER_S, **fields: object) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(fields).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            answer.read()

    def _initialize(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._put("/detector/api/1.8.0/command/initialize", FIRST_ANSWER_S)
                return
            except OSError:  # it does not listen yet, or does not answer
                log = (self.folder / "eiger.log").read_text()
                assert self.process.poll() is None, log
                assert time.monotonic() < until, log
                time.sleep(0.1)

    def _wait_until_pulled(self, endpoint: str) -> None:
        """The simulator drops what it sends when nobody is connected."""
        port = f":{int(endpoint.rpartition(':')[2]):04X}"
        until = time.monotonic() + PATIENCE_S
        established = "01"
        while True:
            rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            if any(row[1].endswith(port) and row[3] == established for row in rows):
                time.sleep(0.5)  # ZeroMQ's handshake
                return
            assert time.monotonic() < until, f"nobody pulls from {endpoint}"
            time.sleep(0.05)

    def acquire(self, frames: int, stream: str, detail: str) -> None:
        """Arms, triggers `frames` images and disarms, as control software does."""
        self._wait_until_pulled(self.cbor if stream == "cbor" else self.legacy)
        for name, value in (
            ("nimages", frames),
            ("trigger_mode", "ints"),
            ("frame_time", 0.5),
            ("count_time", 0.5),
        ):
            self._put(f"/detector/api/1.8.0/config/{name}", value=value)
        for name, text in (("mode", "enabled"), ("format", stream), ("header_detail", detail)):
            self._put(f"/stream/api/1.8.0/config/{name}", value=text)
        for command in ("arm", "trigger", "disarm"):
            self._put(f"/detector/api/1.8.0/command/{command}")
