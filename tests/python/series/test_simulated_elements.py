"""The simulated detector's elements over ZeroMQ: an endpoint each, recorded and checked pixel by pixel."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, RecordCommand
from ports import free_ports
from test_element_sources import zmq_source
from test_ranks import simulate

from penstock.model.events import Listening

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def pulling(record: Record, folder: Path, ports: list[int], end_timeout_s: float = 30) -> RecordCommand:
    sources = [part for port in ports for part in ("--zmq", f"tcp://127.0.0.1:{port}")]
    quick = folder / "quick.yaml"
    quick.write_text(f"end_timeout_s: {end_timeout_s}\n", encoding="ascii")
    recorder = record(folder, str(quick), *sources, "--series", "1", listen=False)
    recorder.until(Listening)
    return recorder


def ports_of(count: int) -> list[int]:
    first = free_ports(count)
    return list(range(first, first + count))


def target(ports: list[int]) -> str:
    return "zmq://" + ",".join(f"127.0.0.1:{port}" for port in ports)


def expect_whole(run: Run, file: Path, frames: int, elements: int) -> None:
    checked = run("check", str(file), "--against", "recorded", "--require-complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{frames} frames compared pixel by pixel, 0 different" in checked.stdout + checked.stderr
    with h5py.File(file) as content:
        states = content["/entry/penstock/frame_state"]
        assert list(states.attrs["received_by_element"]) == [frames] * elements


@pytest.mark.parametrize(
    ("grid", "options", "listed"),
    [
        ("2x2", (), False),
        ("4x1", ("--encoding", "bslz4"), True),
        ("2x3", ("--encoding", "lz4", "--rate", "500"), True),
        ("1x2", ("--element-gap", "0,8"), True),
    ],
)
def test_each_element_has_an_endpoint(
    record: Record, run: Run, tmp_path: Path, grid: str, options: tuple[str, ...], listed: bool
) -> None:
    """All of them listed, or the first of so many ports."""
    rows, columns = map(int, grid.split("x"))
    ports = ports_of(rows * columns)
    # The recorder may name them in any order.
    recorder = pulling(record, tmp_path, ports[::-1])
    to = target(ports if listed else ports[:1])
    sent = simulate(run, to, "--frames", "51", "--series-name", "s", "--elements", grid, *options)
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem, end.ended_by) == (51, 0, None, "message")
    expect_whole(run, tmp_path / "s.h5", 51, rows * columns)


def test_large_elements_are_sent_where_they_lie(record: Record, run: Run, tmp_path: Path) -> None:
    """With the head of each message in front of its pixels."""
    ports = ports_of(2)
    recorder = pulling(record, tmp_path, ports)
    sent = run(
        *("simulate", "custom", "--rows", "512", "--columns", "256", "--type", "uint16", "--rate", "max"),
        *("--to", target(ports), "--frames", "60", "--series-name", "s", "--elements", "2x1"),
    )
    assert sent.returncode == 0, sent.stderr
    assert recorder.series_end().frames_received == 60
    expect_whole(run, tmp_path / "s.h5", 60, 2)


def test_elements_that_do_not_say_which_they_are(record: Record, run: Run, tmp_path: Path) -> None:
    """The recorder's configuration does, in another order than that of the sender's endpoints."""
    ports = ports_of(4)
    grid = (2, 2)
    sources = [zmq_source(f"tcp://127.0.0.1:{port}", n, grid) for n, port in enumerate(ports)]
    config = tmp_path / "elements.yaml"
    given = {"sources": sources[2:] + sources[:2], "end_timeout_s": 0.3, "series_limit": 1}
    config.write_text(json.dumps(given), encoding="ascii")
    recorder = record(tmp_path, str(config), listen=False)
    recorder.until(Listening)
    sent = simulate(
        run,
        target(ports),
        "--frames",
        "30",
        "--series-name",
        "s",
        "--elements",
        "2x2",
        "--no-announce-elements",
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (30, 0, None)
    expect_whole(run, tmp_path / "s.h5", 30, 4)
    with h5py.File(tmp_path / "s.h5") as file:
        user_data = json.loads(file["/entry/penstock/user_data"].asstr()[()])
    assert "element" not in user_data["penstock"], "no start message said it"


def test_faults_of_elements_over_zeromq(record: Record, run: Run, tmp_path: Path) -> None:
    """The ledger says what was done to each element."""
    ports = ports_of(4)
    recorder = pulling(record, tmp_path, ports, end_timeout_s=0.3)  # frames that were dropped never come
    log = tmp_path / "faults.jsonl"
    faults = ("drop/1=10%", "late:5/2=10%", "duplicate/3=10%", "corrupt/0=10%", "cut/2=5%")
    sent = simulate(
        run,
        target(ports),
        *(
            "--frames",
            "120",
            "--series-name",
            "s",
            "--elements",
            "2x2",
            "--no-stamp",
            "--fault-log",
            str(log),
        ),
        *(part for fault in faults for part in ("--fault", fault)),
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    lines = [json.loads(line) for line in log.read_text(encoding="ascii").splitlines()]
    assert {line["fault"] for line in lines[1:-1]} == {"drop", "late", "duplicate", "corrupt", "cut"}
    expected = lines[-1]["expected"]
    found = {key: getattr(end, key) for key in ("missing", "late", "duplicate", "damaged")}
    assert found == {key: expected[key] for key in found}
    assert end.frames_received == expected["received"]
    with h5py.File(end.file) as file:
        counts = file["/entry/penstock/frame_state"].attrs
        assert list(counts["received_by_element"]) == expected["received_by_element"]
        received = file["/entry/penstock/element_received"][()]
    lost = {
        (line["frame"], line["element"])
        for line in lines[1:-1]
        if line["fault"] in ("drop", "corrupt", "cut")
    }
    assert {tuple(map(int, each)) for each in np.argwhere(received == 0)} == lost


def test_nobody_pulls_from_an_element(record: Record, run: Run, tmp_path: Path) -> None:
    """The sender says so in time, and what to start."""
    ports = ports_of(2)
    pulling(record, tmp_path, ports[:1])
    sent = simulate(
        run,
        target(ports),
        "--frames",
        "5",
        "--elements",
        "2x1",
        "--connect-timeout",
        "0.5",
        "--series-name",
        "s",
    )
    assert sent.returncode == 1
    told = " ".join(sent.stderr.split())
    assert "no receiver connected within 0.5 s (--connect-timeout)" in told
    assert f"penstock record --zmq tcp://127.0.0.1:{ports[0]} --zmq tcp://127.0.0.1:{ports[1]}" in told


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (
        ("--elements", "2x2", "--to", "files:x"),
        "--elements does not support files what to do: use --to tcp://HOST:PORT or zmq://HOST:PORT",
    ),
    (
        ("--elements", "2x2", "--to", "zmq://h:1,h:2"),
        "2 ZeroMQ endpoints for 4 elements, which require one each",
    ),
    (("--elements", "2x2", "--to", "zmq://h:65533"), "4 elements from port 65533 on go beyond port 65535"),
    (("--to", "zmq://h:1,h:2"), "2 ZeroMQ endpoints, and one stream"),
    (
        ("--elements", "2x2", "--to", "tcp://h:1", "--no-announce-elements"),
        "over TCP only the start message",
    ),
    (("--to", "zmq://h:1", "--no-announce-elements"), "--no-announce-elements requires several elements"),
    (
        ("--elements", "2x2", "--to", "zmq://h:1", "--no-announce-elements", "--element-gap", "1,1"),
        "--element-gap excludes --no-announce-elements",
    ),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_what_cannot_be_is_refused_with_a_remedy(run: Run, options: tuple[str, ...], says: str) -> None:
    refused = run("simulate", "custom", "--rows", "64", "--columns", "96", "--dry-run", *options)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert says in " ".join(refused.stderr.split()), refused.stderr


def test_the_plan_shows_the_endpoints(run: Run) -> None:
    options = ("--rows", "64", "--columns", "96", "--elements", "1x3", "--dry-run", "--no-announce-elements")
    dry = run("simulate", "custom", *options, "--to", "zmq://127.0.0.1:31001")
    text = " ".join((dry.stdout + dry.stderr).split())
    assert "tcp://127.0.0.1:31001, tcp://127.0.0.1:31002, tcp://127.0.0.1:31003" in text
    assert "1 x 3, one stream each; named in the recorder's configuration" in text
