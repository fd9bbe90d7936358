"""Values of EPICS channels: a real pvAccess server, a real collector."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from math import nan
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import pytest
from collector import Collector, batches_of
from ports import free_ports
from test_values import a_series

from penstock.client import Values
from penstock.files.values.attach import How, attach, summary

CHANNELS = """
import sys, time
from p4p import Type, Value
from p4p.nt import NTEnum, NTNDArray, NTScalar, NTTable
from p4p.server import Server
from p4p.server.thread import SharedPV
import numpy as np

current = SharedPV(nt=NTScalar("d", display=True), initial={"value": 200.0, "display.units": "mA"})
mode = SharedPV(nt=NTScalar("s"), initial="top-up")
place = SharedPV(nt=NTScalar("ad"), initial=[1.0, 2.0, 3.0])
port, broadcast = sys.argv[1:]
settings = {"EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1", "EPICS_PVAS_SERVER_PORT": port,
            "EPICS_PVAS_BROADCAST_PORT": broadcast}
table = NTTable(columns=[("index", "i"), ("name", "s")])
rows = table.wrap([{"index": 1, "name": "a"}, {"index": 2, "name": "b"}])
structure = Value(Type([("x", "d"), ("y", "d")], id="site:point"), {"x": 1.0, "y": 2.0})
found = {
    "RING:Current": current, "RING:Mode": mode, "STAGE:Place": place,
    "ODD:Table": SharedPV(initial=rows),
    "ODD:Structure": SharedPV(initial=structure),
    "ODD:Image": SharedPV(nt=NTNDArray(), initial=np.zeros((30, 40), "uint16")),
    "ODD:Long": SharedPV(nt=NTScalar("ad"), initial=np.zeros(5000)),
    "ODD:Empty": SharedPV(nt=NTScalar("ad"), initial=[]),
    "ODD:Texts": SharedPV(nt=NTScalar("as"), initial=["a", "b"]),
    "ODD:Text": SharedPV(nt=NTScalar("s"), initial="x" * 5000),
    "ODD:Future": SharedPV(nt=NTScalar("d"), initial=NTScalar("d").wrap(7.0, timestamp=2**40)),
    "SHUTTER:State": SharedPV(nt=NTEnum(), initial={"index": 1, "choices": ["closed", "open"]}),
    "FLAG": SharedPV(nt=NTScalar("?"), initial=True),
}
with Server(providers=[found], conf=settings, useenv=False):
    print("serves", flush=True)
    for line in sys.stdin:
        if line == "stream\\n":  # without end
            for number in range(1_000_000):
                current.post(float(number))
                time.sleep(0.002)
        value, severity = map(float, line.split(":")) if ":" in line else (float(line), 0)
        post = {"value": value, "alarm.severity": int(severity), "timeStamp.nanoseconds": 500_000_000}
        current.post(post | {"timeStamp.secondsPastEpoch": 1_700_000_000 + int(value)})
        print("done", flush=True)
"""


Post = Callable[[float | str], None]


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """A server of EPICS channels; the function posts a new RING:Current, or ("stream") many without end."""
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

    def post(value: float | str) -> None:
        stdin.write(f"{value}\n")
        stdin.flush()
        assert value == "stream" or stdout.readline() == "done\n"

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


def options_for(*names: str) -> list[str]:
    return [part for name in names for part in ("--pva", name)]


def wait_until(is_it: Callable[[], Any], what: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not is_it():
        assert time.monotonic() < until, what()
        time.sleep(0.1)


def post_and_wait(channels: Post, collector: Collector, value: float | str) -> None:
    """pvAccess keeps few updates for a client that is busy, and drops others."""
    wanted = float(str(value).partition(":")[0])
    channels(value)
    wait_until(
        lambda: columns_of(collector.journal)["RING:Current"][-1][1] == wanted,
        lambda: f"{wanted} is not in the journal",
    )


def watchers(collector: Collector) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(collector.process.pid).children()
        if "penstock.pva.values" in child.cmdline()
    ]


ATTEMPTS = 8  # the server may be off the processor when it is to send what was posted a moment ago


def columns_at_stop(channels: Post, folder: Path) -> dict[str, list[tuple[int, Any]]]:
    """Values of a collector that is stopped right after three posts."""
    folder.mkdir()
    names = ("RING:Current", "RING:Mode", "STAGE:Place")
    collector = Collector(folder, "--listen", "127.0.0.1:0", *options_for(*names))
    wait_until(lambda: len(columns_of(collector.journal)) == 3, lambda: columns_of(collector.journal))
    for value in (1.0, 2.0, 3.0):
        channels(value)
        time.sleep(0.05)
    assert collector.stop() == 0
    return columns_of(collector.journal)


def test_epics_channels_come_with_their_own_times(channels: Post, tmp_path: Path) -> None:
    times = [(1_700_000_000_500_000_000 + value * 1_000_000_000, float(value)) for value in (1, 2, 3)]
    for attempt in range(ATTEMPTS):
        found = columns_at_stop(channels, tmp_path / str(attempt))
        if found["RING:Current"][1:] == times:
            break
    else:
        raise AssertionError(f"what was posted a moment ago is not in the journal: {found}")
    assert found["RING:Current"][0][1] in (200.0, 3.0), "the value before"
    assert found["RING:Mode"][0][1] == b"top-up"
    assert found["STAGE:Place"][0][1] == [1.0, 2.0, 3.0]


@pytest.mark.slow
def test_alarms_and_units_of_epics_channels(channels: Post, tmp_path: Path) -> None:
    """The severity is a channel of its own; no frame gets a value whose alarm is INVALID."""
    collector = Collector(tmp_path, "--listen", "127.0.0.1:0", *options_for("RING:Current"))
    wait_until(lambda: columns_of(collector.journal), lambda: "no value")
    for value in ("1.0:0", "2.0:2", "3.0:3", "4.0:3", "5.0:0"):
        post_and_wait(channels, collector, value)
    said = collector.stop_and_listen()
    assert collector.process.returncode == 0, said
    assert said.count("RING:Current has the alarm INVALID: its values are not attached to frames") == 1, said
    found = columns_of(collector.journal)
    assert [value for _, value in found["RING:Current"]] == [200.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [value for _, value in found["RING:Current.SEVR"]] == [0, 2, 3, 0]
    second = 10**9
    series = a_series(tmp_path / "s.h5", 10, first_ns=1_700_000_001 * second, step_ns=second // 2)
    for by, expected in {
        "previous": [nan, 1, 1, 2, 2, nan, nan, nan, nan, 5],
        "linear": [nan, 1, 1.5, 2, nan, nan, nan, nan, nan, 5],
    }.items():
        output = tmp_path / f"{by}.h5"
        done = attach(series, [collector.journal], output, How(by=by), dry_run=False)
        assert "2 values have the alarm INVALID" in summary(done)[-2]
        with h5py.File(output) as joined:
            column = joined["entry/per_frame/RING_Current"]
            assert np.array_equal(column[...], expected, equal_nan=True), (by, column[...])
            assert (column.attrs["units"], column.attrs["values_invalid"]) == ("mA", 2)
            assert joined["entry/per_frame/RING_Current_valid"][5] == 0
            assert joined["entry/values/RING_Current/value"].attrs["units"] == "mA"
            assert len(joined["entry/values/RING_Current/value"]) == 6
            assert joined["entry/per_frame/RING_Current_SEVR"][5] == 3


def test_channels_that_are_no_values_cost_the_others_nothing(channels: Post, tmp_path: Path) -> None:
    """Structures, tables, images, what is too long: each is told of once, and the good ones come."""
    good = ("RING:Current", "SHUTTER:State", "FLAG", "ODD:Future")
    odd = {
        "ODD:Table": "is of the type epics:nt/NTTable:1.0; numbers, texts",
        "ODD:Structure": "is of the type site:point; numbers, texts",
        "ODD:Image": "has images: record them with `penstock record --pva`",
        "ODD:Long": "has an array of 40000 bytes; the maximum is 4096",
        "ODD:Empty": "has an empty array",
        "ODD:Texts": "is of the type epics:nt/NTScalarArray:1.0; numbers, texts",
        "ODD:Text": "has a value that cannot be sent: 'ODD:Text' has a text of 5000 bytes",
        "x" * 256: "is not connected",
    }
    before = time.time_ns()
    collector = Collector(tmp_path, "--listen", "127.0.0.1:0", *options_for(*odd, *good, *good))
    wait_until(lambda: len(columns_of(collector.journal)) == len(good), lambda: columns_of(collector.journal))
    for value in (1.0, 2.0):
        post_and_wait(channels, collector, value)
    said = collector.stop_and_listen()
    assert collector.process.returncode == 0, said
    for name, why in odd.items():
        assert said.count(f"{name} {why}") == 1, said
    found = columns_of(collector.journal)
    assert set(found) == set(good)
    assert [value for _, value in found["RING:Current"]] == [200.0, 1.0, 2.0]
    assert found["SHUTTER:State"][0][1] == found["FLAG"][0][1] == 1
    assert before < found["ODD:Future"][0][0] < time.time_ns(), "a time that no file can have is none"


@pytest.mark.slow
def test_a_channel_that_never_rests_is_left_all_the_same(channels: Post, tmp_path: Path) -> None:
    collector = Collector(tmp_path, "--listen", "127.0.0.1:0", *options_for("RING:Current"))
    channels("stream")
    wait_until(
        lambda: len(columns_of(collector.journal).get("RING:Current", [])) > 200,
        lambda: columns_of(collector.journal),
    )
    said = collector.stop_and_listen()  # which fails where the collector waits for the channel's end
    assert collector.process.returncode == 0, said
    values = [value for _, value in columns_of(collector.journal)["RING:Current"]][1:]
    assert values == sorted(set(values))


@pytest.mark.slow
def test_a_watcher_that_dies_is_told_of_at_once_and_watches_again(channels: Post, tmp_path: Path) -> None:
    collector = Collector(tmp_path, "--listen", "127.0.0.1:0", *options_for("RING:Current"))
    wait_until(lambda: columns_of(collector.journal), lambda: "no value")
    (watcher,) = watchers(collector)
    watcher.kill()
    assert "EPICS channels were not watched since" in collector.next_line()
    with Values(collector.address) as values:
        values.send(other=1.0)
    assert "watching EPICS channels again" in collector.next_line()
    wait_until(lambda: len(columns_of(collector.journal)["RING:Current"]) == 2, lambda: "no second value")
    said = collector.stop_and_listen()
    assert collector.process.returncode == 1, "values may be missing"
    assert "it was killed by SIGKILL" in said
    assert "storage" not in said
    assert len(columns_of(collector.journal)["other"]) == 1
