"""Sources that vanish, stall and flood: others record on, and what they sent is taken up where it ended."""

import socket
import struct
import threading
from pathlib import Path

import h5py
import numpy
from plain_client import ACK, IMAGE, RESUME, START, Client, image_fields, message
from rounds import Setup, assert_clean, assert_right, is_long, recording, say
from sender import Frames, sending, start_fields

from penstock.model.events import RecorderSeriesEnd

DROPPED = 3
MIB = 1 << 20


def start(client: Client, name: str, count: int, frames: Frames, flags: int = 0) -> None:
    client.send(START, start_fields(name, frames, count), flags=flags)
    client.until(ACK)


def half_an_image(client: Client, name: str, number: int, frames: Frames) -> None:
    pixels = frames[number].tobytes()
    whole = message(
        IMAGE, client.sequence, image_fields(1, name, number, list(frames.shape), len(pixels)), pixels
    )
    client.connection.sendall(whole[: len(whole) // 2])


def test_one_that_stalls_and_vanishes_holds_up_nobody(tmp_path: Path) -> None:
    frames = Frames(5)
    with recording(tmp_path, Setup(store={"durability": "segment"})) as recorder:
        address = f"127.0.0.1:{recorder.ports[0]}"
        with Client(address) as stalls:
            start(stalls, "stalls", 20, frames)
            for number in range(5):
                stalls.image("stalls", number, frames[number])
            half_an_image(stalls, "stalls", 5, frames)
            # It says nothing more, and another series begins, goes by and is closed.
            with sending(recorder.ports, "other", frames, 300) as sender:
                sender.begin()
                sender.wait_started()
                sender.deal(0, 300)
                sender.join()
                sender.end()
                sender.until(sender.is_closed, "the other series is closed")
                assert len(sender.acknowledged()) == 300
            # It vanishes: a reset, as of a machine that went away.
            stalls.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with Client(address) as returns:
            start(returns, "stalls", 20, frames, RESUME)
            for number in range(20):
                returns.image("stalls", number, frames[number])
            closed = returns.end("stalls")
        assert closed["problem"] is None
    for name, count in (("stalls", 20), ("other", 300)):
        assert_clean(tmp_path / f"{name}.h5")
        assert assert_right(tmp_path / f"{name}.h5", frames) == set(range(count))
    say("a source stalled in the middle of a frame, vanished, and came back")


def test_a_flood_is_bounded_and_accounted_for(tmp_path: Path) -> None:
    """More than the recorder can write, with the policy to drop: each frame is in the file, or in the ledger
    and its sender was told; memory stays within the budget."""
    frames, count = Frames(6, (1024, 1024)), 600 if is_long() else 100
    store = {"durability": "segment", "segment_bytes": 4 * MIB, "write_threads": 1}
    options = {"when_full": "drop", "pool_bytes": "64MiB", "threads": 1}
    with recording(tmp_path, Setup(encoding="zstd", store=store, options=options)) as recorder:
        with sending([recorder.ports[0]] * 2, "flood", frames, count) as sender:
            sender.begin(RESUME)  # several clients, one series
            sender.wait_started()
            sender.deal(0, count)
            sender.join()
            sender.end()
            end = recorder.until(RecorderSeriesEnd)
            sender.until(sender.is_closed, "the series is closed")
            refused = sender.refused()
        assert isinstance(end, RecorderSeriesEnd)
        status = Path(f"/proc/{recorder.pids[0]}/status").read_text(encoding="ascii")
        peak_kib = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    file = tmp_path / "flood.h5"
    assert_clean(file)
    received = assert_right(file, frames)
    with h5py.File(file) as content:
        states = content["/entry/penstock/frame_state"][...]
    dropped = set(map(int, numpy.flatnonzero(states == DROPPED)))
    assert received | dropped == set(range(count))
    assert dropped == refused
    assert peak_kib < (64 + 200) * 1024, f"the recorder took {peak_kib} KiB"
    say(f"a flood of {count} frames: {len(dropped)} dropped and told, {peak_kib >> 10} MiB of memory at most")


def test_a_flood_of_rubbish_stops_nobody(tmp_path: Path) -> None:
    """More connections than are allowed, each with rubbish, while a series is recorded."""
    frames = Frames(7)
    with (
        recording(tmp_path, Setup()) as recorder,
        sending(recorder.ports, "calm", frames, 500) as sender,
    ):
        sender.begin()
        sender.wait_started()
        stopped = threading.Event()

        def flood() -> None:
            random = numpy.random.default_rng(8)
            for _ in range(150):
                if stopped.is_set():
                    return
                with socket.socket() as rubbish:
                    rubbish.settimeout(5)
                    try:
                        rubbish.connect(("127.0.0.1", recorder.ports[0]))
                        rubbish.sendall(random.bytes(int(random.integers(1, 4096))))
                    except OSError:
                        continue

        thread = threading.Thread(target=flood)
        thread.start()
        sender.deal(0, 500)
        sender.join()
        thread.join()
        sender.end()
        sender.until(sender.is_closed, "the series is closed")
        closed = sender.links[0].closed
        assert closed is not None
        assert closed["problem"] is None
        assert sender.acknowledged() == set(range(500))
        stopped.set()
    assert_clean(tmp_path / "calm.h5")
    assert assert_right(tmp_path / "calm.h5", frames) == set(range(500))
    say("150 connections of rubbish beside a series")
