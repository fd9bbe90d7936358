"""Peer: iperf3, one way, for a time, to what its receiver counted."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence

from measure.process import BenchmarkError, run

_STARTS_WITHIN_S = 10.0


def transfer(
    near: Sequence[str],
    far: Sequence[str],
    address: str,
    port: int,
    *,
    streams: int,
    message_bytes: int,
    seconds: float,
    down: bool,
) -> dict[str, float]:
    """`near` and `far` come in front of the commands at both ends. Down is from the server to the client."""
    server = subprocess.Popen(
        [*far, "iperf3", "--server", "--one-off", "--bind", address, "--port", str(port), "--forceflush"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait(server)
        finished = run(
            [
                *near,
                "iperf3",
                f"--client={address}",
                f"--port={port}",
                f"--time={seconds:g}",
                f"--parallel={streams}",
                f"--length={message_bytes}",
                "--json",
                *(["--reverse"] if down else []),
            ]
        )
        server.wait(_STARTS_WITHIN_S)
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()
    received = json.loads(finished.stdout)["end"]["sum_received"]
    return {"bytes_per_s": received["bits_per_second"] / 8, "seconds": received["seconds"]}


def _wait(server: subprocess.Popen[str]) -> None:
    """Until it says that it listens."""
    assert server.stdout is not None
    deadline = time.monotonic() + _STARTS_WITHIN_S
    for line in server.stdout:
        if "listening" in line:
            return
        if time.monotonic() > deadline:
            break
    raise BenchmarkError("iperf3 does not listen")
