"""Two network namespaces with a link of a known rate between them, made and removed by a row."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from measure.process import BenchmarkError


@dataclass(frozen=True)
class Ends:
    """`near` and `far` come in front of the commands at the two ends."""

    near: list[str]
    far: list[str]
    address: str  # of the far one


LOOPBACK = Ends([], [], "127.0.0.1")
_NEAR, _FAR = "10.231.9.1", "10.231.9.2"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def link(rate: str, burst: str) -> Iterator[Ends]:
    """A token bucket at each end lets `rate` through, as in `1gbit`."""
    if os.geteuid() != 0:
        raise BenchmarkError("network namespaces need root")
    name = uuid.uuid4().hex[:8]
    near, far = f"pen-{name}-a", f"pen-{name}-b"
    try:
        for namespace in (near, far):
            _run("ip", "netns", "add", namespace)
        one, other = f"v{name}a", f"v{name}b"
        _run("ip", "link", "add", one, "netns", near, "type", "veth", "peer", other, "netns", far)
        for namespace, device, address in ((near, one, _NEAR), (far, other, _FAR)):
            _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", device)
            _run("ip", "-n", namespace, "link", "set", device, "up")
            bucket = ("tbf", "rate", rate, "burst", burst, "latency", "50ms")
            _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *bucket)
        yield Ends(["ip", "netns", "exec", near], ["ip", "netns", "exec", far], _FAR)
    finally:
        for namespace in (near, far):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)
