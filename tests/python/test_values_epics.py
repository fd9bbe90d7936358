"""Values of EPICS channels: a real pvAccess server, a real collector."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collector import Collector, batches_of
from ports import free_ports

CHANNELS = """
import sys, time
from p4p.nt import NTScalar
from p4p.server import Server
from p4p.server.thread import SharedPV

current = SharedPV(nt=NTScalar("d"), initial=200.0)
mode = SharedPV(nt=NTScalar("s"), initial="top-up")
place = SharedPV(nt=NTScalar("ad"), initial=[1.0, 2.0, 3.0])
port, broadcast = sys.argv[1:]
settings = {"EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1", "EPICS_PVAS_SERVER_PORT": port,
            "EPICS_PVAS_BROADCAST_PORT": broadcast}
found = {"RING:Current": current, "RING:Mode": mode, "STAGE:Place": place}
with Server(providers=[found], conf=settings, useenv=False):
    print("serves", flush=True)
    for line in sys.stdin:
        current.post(float(line), timestamp=1_700_000_000.5 + float(line))
        print("done", flush=True)
"""


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """A server of EPICS channels; the function posts a new RING:Current."""
    port = free_ports(2)
    ports = [str(port), str(port + 1)]
    for name, value in {
        "ADDR_LIST": "127.0.0.1", "AUTO_ADDR_LIST": "NO", "SERVER_PORT": ports[0], "BROADCAST_PORT": ports[1],
    }.items():  # fmt: skip
        monkeypatch.setenv(f"EPICS_PVA_{name}", value)
    server = subprocess.Popen(
        [sys.executable, "-c", CHANNELS, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    stdin, stdout = server.stdin, server.stdout
    assert stdout.readline() == "serves\n"

    def post(value: float) -> None:
        stdin.write(f"{value}\n")
        stdin.flush()
        assert stdout.readline() == "done\n"

    yield post
    server.kill()
    server.communicate(timeout=30)


def columns_of(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Time and value of each channel."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for batch in batches_of(path):
        for group in batch.groups:
            for name, column in group.columns.items():
                rows = zip(group.index.tolist(), column.tolist(), strict=True)
                found.setdefault(name, []).extend(rows)
    return found


def test_epics_channels_come_with_their_own_times(channels: Callable[[float], None], tmp_path: Path) -> None:
    names = ("RING:Current", "RING:Mode", "STAGE:Place")
    options = [part for name in names for part in ("--pva", name)]
    collector = Collector(tmp_path, "--listen", "127.0.0.1:0", *options)
    until = time.monotonic() + 30
    while len(columns_of(collector.journal)) < len(names):
        assert time.monotonic() < until, columns_of(collector.journal)
        time.sleep(0.1)
    for value in (1.0, 2.0, 3.0):
        channels(value)
        time.sleep(0.05)
    assert collector.stop() == 0, "what was posted a moment ago is in the journal"
    found = columns_of(collector.journal)
    times = [(1_700_000_000_500_000_000 + value * 1_000_000_000, float(value)) for value in (1, 2, 3)]
    assert found["RING:Current"][1:] == times
    assert found["RING:Current"][0][1] == 200.0
    assert found["RING:Mode"][0][1] == b"top-up"
    assert found["STAGE:Place"][0][1] == [1.0, 2.0, 3.0]
