"""Two network namespaces with a link between them, made and removed by a test; needs root."""

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Link:
    """`near` and `far` are commands in front of a command that runs at an end."""

    near: list[str]
    far: list[str]
    near_address: str = "10.231.7.1"
    far_address: str = "10.231.7.2"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def linked(rate: str) -> Iterator[Link]:
    """A veth pair that lets so much through each way (`100mbit`), by a token bucket at both ends.

    Skips the test where this user or this kernel cannot make one.
    """
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("network namespaces need root, ip and tc")
    name = uuid.uuid4().hex[:8]
    # The process is named, so that tools/leftovers.py finds what a killed one left.
    near, far = f"pen-{os.getpid()}-{name}-a", f"pen-{os.getpid()}-{name}-b"
    try:
        try:
            for namespace in (near, far):
                _ip("netns", "add", namespace)
            _ip("link", "add", f"v{name}a", "netns", near, "type", "veth", "peer", f"v{name}b", "netns", far)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        for namespace, end, address in ((near, "a", Link.near_address), (far, "b", Link.far_address)):
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", f"v{name}{end}")
            for device in (f"v{name}{end}", "lo"):
                _ip("-n", namespace, "link", "set", device, "up")
            bucket = ["tbf", "rate", rate, "burst", "64kb", "latency", "50ms"]
            command = ["tc", "-n", namespace, "qdisc", "add", "dev", f"v{name}{end}", "root", *bucket]
            shaped = subprocess.run(command, capture_output=True, text=True, check=False)
            if shaped.returncode != 0:
                pytest.skip(f"this kernel has no token bucket: {shaped.stderr.strip()}")
        enter = ["ip", "netns", "exec"]
        yield Link([*enter, near], [*enter, far])
    finally:
        for namespace in (near, far):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
