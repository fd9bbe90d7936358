"""The ends of a network measurement, for tests: the one that listens, and what badly behaved peers send."""

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from unittest.mock import patch

from warm_command import popen

SHORT = ("--seconds", "0.3", "--latency", "8B,64KiB", "--latency-seconds", "0.1", "--yes", "--json")
TOKEN = "correct-horse-battery-staple"
HEAD = struct.Struct("<8sII")


class OtherEnd:
    """`penstock bench network --listen` as a process."""

    def __init__(self, *options: str, before: tuple[str, ...] = (), token: str = "") -> None:
        words = ("bench", "network", "--listen", *options)
        with patch.dict(os.environ, {"PENSTOCK_TOKEN": token} if token else {}):
            self.process = _in_front(before, words) if before else popen(*words)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("listening on tcp://"), line + self.process.stderr.read()
        self.address = line.strip().removeprefix("listening on tcp://")

    def end(self) -> tuple[str, str]:
        """What it wrote, once it has ended by itself."""
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out, err


def _in_front(before: tuple[str, ...], words: tuple[str, ...]) -> "subprocess.Popen[str]":
    """Starts the command with another one in front, such as `ip netns exec`."""
    command = [*before, sys.executable, "-m", "penstock", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


Listen = Callable[..., OtherEnd]


def message(content: dict[str, object], version: int = 2, length: int | None = None) -> bytes:
    text = json.dumps(content).encode()
    return HEAD.pack(b"PENSTNET", version, len(text) if length is None else length) + text


def answer(peer: socket.socket) -> dict[str, object]:
    with peer.makefile("rb") as file:
        magic, _, length = HEAD.unpack(file.read(HEAD.size))
        assert magic == b"PENSTNET"
        found: dict[str, object] = json.loads(file.read(length))
        return found


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)
