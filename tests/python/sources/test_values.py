"""Values beside the frames: real collectors, journals cut anywhere, the join against a naive one."""

import contextlib
import re
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import silx.io.utils
from collector import Collector, batches_of
from conftest import Record
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_client import ACK, ERROR, HELLO, Client, frames_of, message

from penstock.cli.record.collect import counts_text
from penstock.client import Values
from penstock.client.errors import ClientTimeoutError, ConnectionLostError, FrameError, RefusedError
from penstock.client.values import NAME_BYTES_MAX, VALUE_BYTES_MAX
from penstock.files.values.attach import How, attach, safe_names
from penstock.files.values.join import by_number, by_time, linear
from penstock.files.values.journal import JournalState, JournalWriter, read_journal
from penstock.model import values as model
from penstock.model.errors import PenstockError, UsageError
from penstock.programs.collect import Counts

silx_open: Any = silx.io.utils.open
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
VALUES = 9
GOLDEN = Path(__file__).resolve().parents[2] / "corpus" / "values" / "v1.pnval"


Collect = Callable[..., Collector]


@pytest.fixture
def collect(tmp_path: Path) -> Iterator[Collect]:
    started: list[Collector] = []

    def start(*options: str) -> Collector:
        where = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
        started.append(Collector(tmp_path, *where, *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=30)


def batch(number: int, **changed: Any) -> dict[str, Any]:
    group = {"frame": [number], "columns": {"x": [1.5]}} | changed
    return {"type": "values", "client": "c", "batch": number, "groups": [group]}


def a_series(
    path: Path, frames: int, *, first_ns: int = 10**18, step_ns: int = 10**6, ended: bool = True
) -> Path:
    """A file with what the join needs of a recorded one."""
    with h5py.File(path, "w") as file:
        file["/entry/penstock/frame_state"] = np.ones(frames, np.uint8)
        file["/entry/penstock/series_unique_id"] = path.stem
        file["/entry/penstock/timing/received"] = first_ns + step_ns * np.arange(frames)
        file["/entry/data/data"] = np.zeros((1, 2, 2))
        file["/entry/data"].attrs["NX_class"] = "NXdata"
        if ended:
            file["/entry/end_time"] = "2026-01-01T00:00:00Z"
    return path


def test_units_go_with_the_values_of_each_collector(collect: Collect, tmp_path: Path) -> None:
    """What was told last counts; each journal has them."""
    collector = collect()
    with Values(collector.address, gather_s=0) as values:
        values.set_units({"omega": "deg", "never": "m"})
        values.send(omega=1.0, frame=0, other=1)
        values.send(omega=2.0, frame=1)
        values.set_units({"omega": "rad"})
        values.send(omega=3.0, frame=2)
        wrong: Any
        for wrong in ("", "x" * 65, "\n", 5):
            with pytest.raises(FrameError, match="the units of 'omega' are"):
                values.set_units({"omega": wrong})
    assert collector.stop() == 0
    assert [batch.units for batch in batches_of(collector.journal)] == [
        {"omega": "deg"},
        {},
        {"omega": "rad"},
    ]
    done = attach(a_series(tmp_path / "s.h5", 3), [collector.journal], None, How(), dry_run=False)
    with h5py.File(done.output) as joined:
        assert joined["entry/values/omega/frame_value"].attrs["units"] == "rad"
        assert joined["entry/per_frame/omega"].attrs["units"] == "rad"
        assert "units" not in joined["entry/per_frame/other"].attrs


def test_values_before_with_and_after_the_images(record: Record, collect: Collect, tmp_path: Path) -> None:
    (tmp_path / "quick.yaml").write_text("end_timeout_s: 0.2\n", encoding="ascii")
    collector, recorder, frames = collect(), record(tmp_path, str(tmp_path / "quick.yaml")), frames_of(4)
    with Values(collector.address, series="s") as values:
        values.send(current=1.0, frame=0, shutter=True)
        values.send(temperature=20.5, mode="top-up")
        with Client(recorder.address) as client:
            client.start("s", 4, (30, 40))
            for number in (0, 1, 3):
                client.image("s", number, frames[number])
            values.send(current=2, frame=3, shutter=False)
            values.send({"m/x..": np.array([1, 2, 3])}, frame=1)
            client.end("s")
        file = Path(recorder.series_end().file)
        values.send(current=9.0, frame=7)
    assert collector.stop() == 0
    with pytest.raises(UsageError, match="not overwritten"):
        attach(file, [collector.journal], file, How(), dry_run=False)
    planned = attach(file, [collector.journal], None, How(), dry_run=True)
    assert not (tmp_path / "s.values.h5").exists()
    done = attach(file, [collector.journal], None, How(), dry_run=False)
    assert planned == done
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    with pytest.raises(UsageError, match="exists already and is not overwritten") as refusal:
        attach(file, [collector.journal], None, How(), dry_run=False)
    assert "--overwrite" in refusal.value.remedy
    with pytest.raises(UsageError, match=r" is not a file of `penstock attach`.*not replaced"):
        attach(file, [collector.journal], file, How(), dry_run=False, overwrite=True)
    before = Path(done.output).stat().st_ino
    assert attach(file, [collector.journal], None, How(), dry_run=False, overwrite=True) == done
    assert Path(done.output).stat().st_ino != before
    with h5py.File(done.output) as joined:
        rows = joined["entry/per_frame"]
        assert np.array_equal(rows["current"][()], [1, np.nan, np.nan, 2], equal_nan=True)
        assert rows["current_valid"][()].tolist() == [1, 0, 0, 1]
        assert rows["current"].attrs["values_outside"] == 1
        assert rows["shutter"][()].tolist() == [1, 0, 0, 0]
        came = [1, 1, 0, 1]  # a frame that never came has no time
        assert np.nan_to_num(rows["temperature"][()]).tolist() == [20.5 * each for each in came]
        assert rows["mode"].asstr()[()].tolist() == ["top-up" * each for each in came]
        assert rows["m_x__"][1].tolist() == [1, 2, 3]
        assert rows["m_x__"].attrs["channel"] == "m/x.."
        assert joined["entry/values/temperature/time"].attrs["units"] == "ns"
        assert np.array_equal(joined["entry/data/data"][3], frames[3])
    with silx_open(done.output) as joined:
        assert np.array_equal(joined["entry/data/data"][1], frames[1])
        assert joined["entry/per_frame/temperature"][1] == 20.5


def test_a_bad_message_is_answered_and_the_connection_goes_on(collect: Collect) -> None:
    collector = collect()
    long = "x" * 256
    bad: list[tuple[dict[str, Any], str]] = [
        (batch(0, frame=[-1]), "groups[0].frame has -1"),
        (batch(0, frame=[0, 1]), "has 1 rows, but there are 2"),
        (batch(0, time=[1]), "both of frame and time"),
        (batch(0, columns={long: [1]}), "has 256 bytes"),
        (batch(0, columns={"a\n": [1]}), "control characters"),
        (batch(0, columns={"a": [None]}), "groups[0].columns['a']"),
        (batch(0, columns={"a": cbor2.CBORTag(86, b"123")}), "3 bytes"),
        (
            batch(0, columns={"a": cbor2.CBORTag(40, [[1, 513], cbor2.CBORTag(86, bytes(4104))])}),
            "4104 bytes",
        ),
        (batch(0, columns={"a": cbor2.CBORTag(40, [[1, 1 << 62], cbor2.CBORTag(86, b"")])}), "the shape"),
        (batch(0, columns={"a": ["y" * 5000]}), "5000 bytes"),
        (batch(0, columns={"a": [1 << 70]}), "beyond 64 bits"),
        (batch(0) | {"batch": -4}, "batch is -4"),
        (batch(0) | {"client": 5}, "client is 5"),
        ({"type": "values"}, "groups is nothing"),
    ]
    with Client(collector.address) as client:
        for fields, says in bad:
            sequence = client.send(VALUES, fields)
            error = client.until(ERROR)
            assert (error["sequence"], error["code"]) == (sequence, "malformed")
            assert says in error["message"]
        for text in (b"\x81" * 100_000, b"\x9b\x7f" + b"\xff" * 8, b"\xd9\xd9\xf7\xff"):
            whole = message(VALUES, client.sequence, {"type": "values"})
            client.connection.sendall(replaced(whole, text))
            client.sequence += 1
            assert "CBOR" in client.until(ERROR)["message"]
        client.connection.sendall(replaced(message(VALUES, client.sequence, {}), bytes(5 << 20)))
        client.sequence += 1
        assert "at most 4194304" in client.until(ERROR)["message"]
        client.send(VALUES, batch(1))
        assert client.until(ACK)["sequence"] == client.sequence - 1
        client.connection.sendall(b"GET / HTTP/1.1\r\n" * 8)
        assert client.until(ERROR)["sequence"] == 0
    assert collector.stop(signal.SIGINT) == 0
    assert [each.number for each in batches_of(collector.journal)] == [1]


def replaced(whole: bytes, text: bytes) -> bytes:
    import struct

    from penstock.client.crc32c import crc32c

    head = bytearray(whole[:60])
    head[12:16], head[32:36] = struct.pack("<I", len(text)), struct.pack("<I", crc32c(text))
    return bytes(head) + struct.pack("<I", crc32c(bytes(head))) + text


def test_a_token_is_asked_for(collect: Collect, tmp_path: Path, run: Any) -> None:
    beyond = run("collect", "--folder", str(tmp_path), "--listen", "0.0.0.0:0")
    assert beyond.returncode == 2
    assert "--token-file" in beyond.stderr
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o600)
    collector = collect("--token-file", str(tmp_path / "token"))
    with pytest.raises(RefusedError, match="token"):
        Values(collector.address, token="wrong")
    with Values(collector.address, token="secret") as values:
        values.send(a=1, frame=0)
    assert len(batches_of(collector.journal)) == 1


def test_strangers_keep_nobody_out_who_has_the_token(
    collect: Collect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "secret")
    collector = collect()
    host, port = collector.address.rsplit(":", 1)
    with contextlib.ExitStack() as strangers:
        for _ in range(300):
            strangers.enter_context(socket.create_connection((host, int(port)), timeout=20))
        for _ in range(20):
            strangers.enter_context(socket.create_connection((host, int(port)), timeout=20))
            with Values(collector.address, token="secret") as values:
                values.send(a=1, frame=0)


def last_words(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_client_learns_that_it_may_connect_again(collect: Collect) -> None:
    """After a late hello, and while all places are taken."""
    collector = collect()
    host, port = collector.address.rsplit(":", 1)
    with contextlib.ExitStack() as others:
        late = others.enter_context(socket.create_connection((host, int(port)), timeout=20))
        for _ in range(256):
            others.enter_context(Client(collector.address))
        more = others.enter_context(socket.create_connection((host, int(port)), timeout=20))
        more.sendall(message(HELLO, 0, {"type": "hello", "name": "one more"}))
        assert b"no_place" in last_words(more)
        assert b"timed_out" in last_words(late)


def test_what_was_acknowledged_survives_a_kill_and_comes_once(collect: Collect, tmp_path: Path) -> None:
    first = collect()
    values = Values(first.address, reconnect_timeout=20)
    values.send_columns({"a": np.arange(1000)}, frame=np.arange(1000))
    values.flush(20)
    first.stop(signal.SIGKILL)
    assert [each.values for each in batches_of(first.journal)] == [1000]
    second = collect("--listen", first.address)
    assert second.journal != first.journal
    values.send_columns({"a": np.arange(1000, 2000)}, frame=np.arange(1000, 2000))
    values.close(20)
    assert values.acknowledged == 2
    assert second.stop() == 0
    series = a_series(tmp_path / "s.h5", 2000)
    again = tmp_path / "again.pnval"  # what had come, without an answer
    again.write_bytes(first.journal.read_bytes())
    done = attach(series, [first.journal, second.journal, again], None, How(), dry_run=False)
    assert done.channels[0].by_frame == done.channels[0].frames == 2000
    with h5py.File(done.output) as file:
        assert np.array_equal(file["entry/per_frame/a"][()], np.arange(2000))


def test_a_full_disk_is_told_and_is_not_the_end(collect: Collect) -> None:
    collector = collect()
    with Values(collector.address) as values:
        values.send(a=1, frame=0)
        values.flush(20)
        before = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
        small = collector.journal.stat().st_size + 20
        resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (small, before[1]))
        values.send(a=2, frame=1)
        deadline = time.monotonic() + 60  # the collector needs time to report the full disk
        while True:
            with pytest.raises(ClientTimeoutError) as late:
                values.flush(0.5)
            if "cannot be written" in str(late.value):
                break
            assert time.monotonic() < deadline, late.value
        state = JournalState(collector.journal)
        assert len(list(read_journal(state))) == 1
        assert state.torn_bytes == 0
        resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, before)
        values.flush(20)
    assert len(batches_of(collector.journal)) == 2


def test_a_journal_cut_at_every_byte(tmp_path: Path) -> None:
    whole = GOLDEN.read_bytes()
    ends = [64]
    for text in texts():
        ends.append(ends[-1] + 24 + len(text))
    assert ends[-1] == len(whole)
    cut = tmp_path / "cut.pnval"
    for size in range(len(whole) + 1):
        cut.write_bytes(whole[:size])
        state = JournalState(cut)
        found = list(read_journal(state))
        complete = [end for end in ends if end <= size]
        assert len(found) == max(0, len(complete) - 1)
        assert state.torn_bytes == size - (complete[-1] if complete else 0)
        assert state.damaged == 0
    for at in range(64, ends[2]):  # a byte of the first two is another one: the others are read
        cut.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        state = JournalState(cut)
        assert len(list(read_journal(state))) == len(ends) - 2
        assert state.damaged == 1


def texts() -> list[bytes]:
    """Of the golden file."""
    return [cbor2.dumps(cbor2.CBORTag(55799, batch(number))) for number in range(3)]


def test_a_journal_of_version_1_is_read_for_ever(tmp_path: Path) -> None:
    found = batches_of(GOLDEN)
    assert [(each.client, each.number, each.groups[0].columns["x"].tolist()) for each in found] == [
        ("c", number, [1.5]) for number in range(3)
    ]
    writer = JournalWriter(tmp_path, now_ns=1_700_000_000 * 10**9)
    for text in texts():
        writer.append(text)
    writer.close()
    other = JournalWriter(tmp_path, now_ns=1_700_000_000 * 10**9)
    other.close()
    assert other.path != writer.path, "never overwritten"
    assert writer.path.stat().st_size == GOLDEN.stat().st_size
    assert writer.path.read_bytes()[:64] == GOLDEN.read_bytes()[:64]


@pytest.mark.slow
def test_thousands_of_channels_and_types_that_disagree(collect: Collect, tmp_path: Path) -> None:
    collector = collect()
    row = {f"pv:{number}": float(number) for number in range(2000)}
    with Values(collector.address) as one, Values(collector.address) as other:
        for frame in range(3):
            one.send(row, frame=frame)
        one.send(pv=1, half=1, frame=0)
        one.flush(20)
        other.send(pv="text", half=0.5, frame=1)
    series = a_series(tmp_path / "s.h5", 3)
    done = attach(series, [collector.journal], None, How(), dry_run=False)
    assert len(done.channels) == 2002
    (mixed,) = [each for each in done.channels if each.unfitting]
    assert (mixed.name, mixed.by_frame, mixed.unfitting) == ("pv", 1, 1)
    assert mixed.first_unfitting == (
        f"row 1, of frame 1, is 'text', a text from {other.client};"
        f" the first one is a number from {one.client}"
    )
    with h5py.File(done.output) as file:
        assert file["entry/per_frame/pv_1999"][()].tolist() == [1999.0] * 3
        assert file["entry/per_frame/half"][:2].tolist() == [1, 0.5]
        assert file["entry/per_frame/pv"][0] == 1
        assert file["entry/per_frame/pv"].attrs["values_unfitting"] == 1


def test_values_of_another_kind_than_the_first_are_left_out(
    collect: Collect, run: Callable[..., Any], tmp_path: Path
) -> None:
    """Texts among numbers, numbers among texts, arrays among single values; by frame and by time."""
    collector = collect()
    with Values(collector.address, gather_s=0) as values:
        for frame in range(6):
            moving = frame in (2, 3)
            values.send(
                motor="moving \x1b[2J" if moving else 0.5 * frame,
                state=frame if moving else f"s{frame}",
                spot=np.arange(2 + moving),
                frame=frame,
            )
        for second in range(3):
            values.send(current="off" if second == 1 else second, time_ns=10**18 + second * 10**6)
    assert collector.stop() == 0
    series = a_series(tmp_path / "s.h5", 6)
    done = run("attach", str(series), str(collector.journal))
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert (
        "channel motor: 2 values are left out for another type than the first: row 2, of frame 2, is" in said
    )
    assert "(4 channels " in said
    assert "\x1b" not in done.stdout + done.stderr
    with h5py.File(tmp_path / "s.values.h5") as file:
        rows, logs = file["entry/per_frame"], file["entry/values"]
        assert np.array_equal(rows["motor"][()], [0, 0.5, np.nan, np.nan, 2, 2.5], equal_nan=True)
        assert rows["motor_valid"][()].tolist() == [1, 1, 0, 0, 1, 1]
        assert rows["state"][()].tolist() == [b"s0", b"s1", b"", b"", b"s4", b"s5"]
        assert rows["spot"][()].tolist() == [[0, 1]] * 2 + [[0, 0]] * 2 + [[0, 1]] * 2
        assert logs["current/value"][()].tolist() == [0, 2]
        counted = {
            name: rows[name].attrs.get("values_unfitting", 0)
            for name in ("motor", "state", "spot", "current")
        }
        assert counted == {"motor": 2, "state": 2, "spot": 2, "current": 1}
    lines = done.stdout.splitlines()
    at = f"at {10**18 + 10**6} ns, is 'off', a text from"
    assert any("1 value is left out" in line and at in line for line in lines), done.stdout


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"a": 1}, {"frame": -1}, "frame is -1"),
    ({"a": 1}, {"frame": 1 << 63}, "frame is 9223372036854775808"),
    ({"a": 1}, {"time_ns": float("nan")}, "time is nan"),
    ({"a": 1}, {"frame": "7"}, "frame is '7'"),
    ({"a": 1}, {"frame": 1, "time_ns": 1}, "either frame or time_ns"),
    ({}, {"frame": 0}, "no value"),
    ({"": 1}, {}, "'' is not a channel name"),
    ({"x" * 256: 1}, {}, "more than 255 bytes"),
    ({"a\n": 1}, {}, "characters that are not allowed in a name"),
    ({"a": "x" * 4097}, {}, "a text of 4097 bytes"),
    ({"a": "x\0"}, {}, "a zero character"),
    ({"a": "\ud800"}, {}, "not Unicode"),
    ({"a": np.zeros(513)}, {}, "4104 bytes a value"),
    ({"a": np.zeros(2000, np.float16)}, {}, "8000 bytes a value"),
    ({"a": np.zeros(0)}, {}, "0 bytes a value"),
    ({"a": np.longdouble(1)}, {}, "is of float128"),
    ({"a": [[1], [1, 2]]}, {}, "different types or shapes"),
    ({"a": 1 << 70}, {}, "is a int"),
    ({"a": None}, {}, "is a NoneType"),
]


def test_what_the_collector_would_refuse_is_refused_at_once_and_alone(collect: Collect) -> None:
    """A batch has the values of many calls: one that is wrong must not take the others with it."""
    assert (NAME_BYTES_MAX, VALUE_BYTES_MAX) == (model.NAME_BYTES_MAX, model.VALUE_BYTES_MAX)
    collector = collect()
    columns: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"a": [1, 2]}, {"frame": [0, -1]}, "frame has -1"),
        ({"a": [1, 2]}, {"frame": [0.0, np.nan]}, "frame has nan"),
        ({"a": [1, 2]}, {"frame": [[0, 1]]}, "a row of integers"),
        ({"a": [1]}, {"frame": [0, 1]}, "the shape (1,)"),
        ({"a": [b"x", b"y"]}, {"frame": [0, 1]}, "is of |S1"),
        ({"a": [["x"], ["y"]]}, {"frame": [0, 1]}, "is of <U1"),
        ({"a": np.zeros((2, 513))}, {"frame": [0, 1]}, "4104 bytes a value"),
        ({"a": ["x", "y" * 5000]}, {"frame": [0, 1]}, "a text of 5000 bytes"),
    ]
    with Values(collector.address, gather_s=60) as values:
        for number, (row, where, why) in enumerate(WRONG):
            values.send(good=number, frame=number)
            with pytest.raises(FrameError, match=re.escape(why)):
                values.send(row, **where)
        for row, where, why in columns:
            with pytest.raises(FrameError, match=re.escape(why)):
                values.send_columns(row, **where)
    assert values.refused_count == 0
    (group,) = [group for batch in batches_of(collector.journal) for group in batch.groups]
    assert group.columns["good"].tolist() == list(range(len(WRONG)))


@pytest.mark.slow
def test_rows_of_very_many_channels_and_large_values_find_room(collect: Collect) -> None:
    """A message holds 4 MiB, and a row may be larger."""
    collector = collect()
    names = [f"{'beamline:device:with:a:long:name:' * 2}{number}" for number in range(60_000)]
    with Values(collector.address) as values:
        for frame in range(2):
            values.send({name: float(number) for number, name in enumerate(names)}, frame=frame)
        values.send({f"wave:{number}": np.full(512, float(number)) for number in range(2000)}, frame=0)
        values.send_columns({f"text:{number}": ["µ" * 2000] * 3 for number in range(500)}, frame=range(3))
        values.flush(60)
    assert values.refused_count == 0
    found: dict[str, int] = {}
    for each in batches_of(collector.journal):
        for group in each.groups:
            for name, column in group.columns.items():
                found[name] = found.get(name, 0) + len(column)
    assert len(found) == 62_500
    assert {found[name] for name in names} == {2}
    assert found["wave:1999"] == 1
    assert found["text:499"] == 3


def test_errors_say_that_the_other_end_is_a_collector(collect: Collect, free_port: int) -> None:
    with pytest.raises(ConnectionLostError, match=r"no connection to a collector .*\b0\.1 s"):
        Values(f"127.0.0.1:{free_port}", connect_timeout=0.1)
    collector = collect()
    values = Values(collector.address, reconnect_timeout=0.2)
    values.send(a=1, frame=0)
    values.flush(20)
    collector.stop(signal.SIGKILL)
    values.send(a=1, frame=1)
    with pytest.raises(
        ConnectionLostError, match=r"no connection to a collector.*; 1 batch is not acknowledged"
    ):
        values.close()


def test_a_link_is_replaced_and_nothing_is_written_through_it(tmp_path: Path) -> None:
    series = a_series(tmp_path / "s.h5", 3)
    precious = tmp_path / "precious.h5"
    target = tmp_path / "target.h5"
    attach(series, [GOLDEN], target, How(), dry_run=False)
    target.rename(precious)
    kept = precious.read_bytes()
    target.symlink_to(precious)
    with pytest.raises(UsageError, match="exists already"):
        attach(series, [GOLDEN], target, How(), dry_run=False)
    attach(series, [GOLDEN], target, How(), dry_run=False, overwrite=True)
    assert not target.is_symlink()
    assert precious.read_bytes() == kept


def test_series_that_cannot_be_joined(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has not ended"):
        attach(a_series(tmp_path / "s.h5", 3, ended=False), [GOLDEN], None, How(), dry_run=False)
    with pytest.raises(UsageError, match="not a journal"):
        attach(a_series(tmp_path / "t.h5", 3), [tmp_path / "s.h5"], None, How(), dry_run=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.h5", "t.h5"]


@pytest.mark.parametrize(
    "size", [0, 40, 64, 70]
)  # an empty file, parts of the header, and of the first batch
def test_journal_without_values_is_an_error(tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut.pnval"
    cut.write_bytes(GOLDEN.read_bytes()[:size])
    series = a_series(tmp_path / "s.h5", 3)
    for dry_run in (False, True):
        with pytest.raises(PenstockError, match=r"there are no values to attach: .*cut\.pnval") as error:
            attach(series, [cut], None, How(), dry_run=dry_run)
        assert "copy it again from its source, or name journals with values" in error.value.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.pnval", "s.h5"]


def test_incomplete_end_of_a_journal_is_a_warning_with_a_remedy(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pnval"
    cut.write_bytes(GOLDEN.read_bytes()[:-1])
    done = attach(a_series(tmp_path / "s.h5", 3), [cut], None, How(), dry_run=True)
    (note,) = [each for each in done.notes if "cut.pnval" in each]
    assert note.startswith("warning: ")
    assert "it is cut off, or its writer was killed; if it is a copy, copy it again" in note
    assert "acknowledged" not in note


def test_names_are_safe_and_differ() -> None:
    names = ["a/b", "a_b", "a:b", "..", ".", "é", "x", "x_valid", "y_valid", "y", "n" * 255, "n" * 254, "a"]
    safe = safe_names(names)
    both = safe + [f"{name}_valid" for name in safe]
    assert len(set(both)) == 2 * len(names)
    assert safe[1] != "a/b"
    assert not any("/" in name or "." in name or len(name) > 63 for name in safe)


TIMES = st.lists(st.integers(0, 30), max_size=12)


@settings(max_examples=300, deadline=None)
@given(
    times=TIMES.map(sorted),
    frames=st.lists(st.integers(-1, 32), max_size=8),
    age=st.none() | st.integers(0, 9),
)
def test_the_join_by_time_is_the_naive_one(times: list[int], frames: list[int], age: int | None) -> None:
    stamps, wanted = np.array(times, np.int64), np.array(frames, np.int64)
    values = np.arange(len(times)) * 2.5
    previous, nearest = (by_time(wanted, stamps, by, age) for by in ("previous", "nearest"))
    found, valid = linear(wanted, stamps, values, age)
    for place, at in enumerate(frames):
        near = [k for k, t in enumerate(times) if at >= 0 and (age is None or abs(t - at) <= age)]
        before = [k for k in near if times[k] <= at]
        assert previous[place] == max(before, default=-1)
        assert nearest[place] == min(near, key=lambda k: (abs(times[k] - at), times[k], -k), default=-1)
        after = [k for k in near if times[k] > at]
        if before and times[before[-1]] == at:
            assert found[place] == values[before[-1]]
        elif before and after:
            low, high = before[-1], after[0]
            share = (at - times[low]) / (times[high] - times[low])
            assert found[place] == pytest.approx(values[low] + share * (values[high] - values[low]))
        else:
            assert not valid[place]
            assert np.isnan(found[place])


@given(numbers=st.lists(st.integers(0, 9), max_size=12), frames=st.integers(0, 8))
def test_the_join_by_number_is_the_naive_one(numbers: list[int], frames: int) -> None:
    last = {number: place for place, number in enumerate(numbers)}
    expected = [last.get(frame, -1) for frame in range(frames)]
    assert by_number(frames, np.array(numbers, np.int64)).tolist() == expected


def test_times_of_exposures_and_clocks_that_differ(tmp_path: Path) -> None:
    """Exposures count from the series' date; values half a second late are put right by --offset."""
    series = a_series(tmp_path / "s.h5", 4)
    with h5py.File(series, "a") as file:
        file["/entry/penstock/timing/exposure_start"] = np.array([0, 10**9, -1, 3 * 10**9])
        file["/entry/penstock/timing/series_date"] = "2026-01-01T01:00:00.25+01:00"
    begin = 1_767_225_600 * 10**9 + 250_000_000
    writer = JournalWriter(tmp_path)
    late = [begin + 500_000_000, begin + 4_500_000_000]
    writer.append(cbor2.dumps(batch(0) | {"groups": [{"time": late, "columns": {"x": [10, 50]}}]}))
    writer.close()
    expected: list[tuple[How, list[float]]] = [
        (How(), [0, 10, 0, 10]),
        (How(offset_s=-0.5), [10, 10, 0, 10]),
        (How(offset_s=-0.5, by="nearest"), [10, 10, 0, 50]),
        (How(offset_s=-0.5, by="linear"), [10, 20, 0, 40]),
        (How(offset_s=-0.5, max_age_s=1), [10, 10, 0, 0]),
        (How(time="received"), [0, 0, 0, 0]),
    ]
    for number, (how, rows) in enumerate(expected):
        done = attach(series, [writer.path], tmp_path / f"{number}.h5", how, dry_run=False)
        with h5py.File(done.output) as file:
            assert np.nan_to_num(file["entry/per_frame/x"][()]).tolist() == rows, how


@pytest.mark.parametrize(
    ("values", "batches", "text"),
    [(42, 1, "42 values in 1 batch, 0 rejected"), (1, 2, "1 value in 2 batches, 0 rejected")],
)
def test_the_summary_of_a_collector_counts_in_singular_and_plural(
    values: int, batches: int, text: str
) -> None:
    """A problem is not in it: it is the command's error."""
    counts = Counts(values=values, batches=batches, storage_problem="no space left")
    assert counts_text(counts) == text
