"""kill -9 of any rank at any moment: no acknowledged frame is lost, no frame is false, the file recovers."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
import zmq
from detector_stream import IDENTITY, multi_dimensional
from rounds import Recorder, Setup, Verdict, is_long, judge, recording, rounds, say, seed
from sender import Frames, Sender, sending, start_fields

from penstock.model.errors import PenstockError

SERIES = "killed"
FRAMES_MAX = 100_000


class PushSender:
    """A detector that pushes Stream V2 over ZeroMQ; nobody tells it anything."""

    def __init__(self, port: int, frames: Frames) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDTIMEO, 200)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(f"tcp://127.0.0.1:{port}")
        self._frames = frames
        self._stopped = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def _send(self, fields: dict[str, object]) -> bool:
        data = cbor2.dumps(cbor2.CBORTag(55799, {**fields, "series_unique_id": SERIES}))
        while not self._stopped.is_set():
            with contextlib.suppress(zmq.Again):
                self._socket.send(data)
                return True
        return False

    def _run(self) -> None:
        self._send(start_fields(SERIES, self._frames, FRAMES_MAX))
        for number in range(FRAMES_MAX):
            data = {"a": multi_dimensional(self._frames[number])}
            if not self._send({"type": "image", **IDENTITY, "image_id": number, "data": data}):
                return
            self.sent += 1

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(10)
        self._socket.close()
        self._context.term()


@contextlib.contextmanager
def pushing(port: int, frames: Frames) -> Iterator[PushSender]:
    sender = PushSender(port, frames)
    try:
        yield sender
    finally:
        sender.close()


def victims_of(dice: random.Random, ranks: int) -> list[int]:
    """One of the ranks, or all."""
    return list(range(ranks)) if dice.random() < 0.25 else [dice.randrange(ranks)]


def kill_while_sending(dice: random.Random, recorder: Recorder, sender: Sender, victims: list[int]) -> str:
    """Sends until the recorder is dead; tells when it was killed."""
    moment = dice.choice(["start", "acknowledgement", "acknowledgement", "time", "end"])
    if moment == "start":
        wait_s = dice.random() * 0.05
        sender.begin()
        time.sleep(wait_s)
        recorder.kill(victims)
        return f"{wait_s * 1000:.0f} ms after the start"
    sender.begin()
    sender.wait_started()
    pause_s = dice.choice([0.0, 0.0, 0.0005])
    if moment == "acknowledgement":
        # In the very thread that reads the acknowledgement.
        wanted = dice.choice([1, 30, 300, 1500])
        sender.watch = lambda: recorder.kill(victims) if sender.safe_frames() >= wanted else None
        sender.deal(0, FRAMES_MAX, pause_s)
        sender.until(lambda: all(link.over.is_set() for link in sender.links), "the recorder dies")
        return f"at acknowledgement {wanted}"
    if moment == "time":
        wait_s = dice.random() * 1.5
        sender.deal(0, FRAMES_MAX, pause_s)
        time.sleep(wait_s)
        recorder.kill(victims)
        return f"after {wait_s:.2f} s"
    wait_s = dice.random() * 0.06
    sender.deal(0, dice.choice([1, 200, 1000]))
    sender.join()
    sender.end()
    time.sleep(wait_s)
    recorder.kill(victims)
    return f"{wait_s * 1000:.0f} ms after the end"


def one_round(number: int, folder: Path, ranks: int | None) -> str:
    dice = random.Random(number)
    setup = Setup.draw(dice, ranks)
    frames = Frames(number, dice.choice([(32, 40), (64, 96), (256, 300)]))
    victims = victims_of(dice, setup.ranks)
    file = folder / f"{SERIES}.h5"
    with recording(folder, setup) as recorder:
        if setup.transport == "zmq":
            with pushing(recorder.ports[0], frames) as source:
                source.begin()
                wait_s = dice.random() * 1.5
                time.sleep(wait_s)
                recorder.kill(victims)
                recorder.wait()
                when, sent, acknowledged = f"after {wait_s:.2f} s", source.sent, set[int]()
                written = recorder.written()
                began = written > 0
        else:
            with sending(recorder.ports, SERIES, frames, FRAMES_MAX) as sender:
                when = kill_while_sending(dice, recorder, sender, victims)
                recorder.wait()
                sender.close()
                sent, acknowledged = sender.sent, sender.acknowledged()
                began, written = sender.started or bool(acknowledged), 0
    verdict = judge_left(file, frames, acknowledged, written, began)
    who = "all" if len(victims) > 1 else f"rank {victims[0]}"
    safe = max(len(acknowledged), written)
    return f"{setup}; killed {who} {when}: {sent} sent, {safe} acknowledged, {verdict}"


def judge_left(
    file: Path, frames: Frames, acknowledged: set[int], written: int, began: bool
) -> Verdict | str:
    """One that died before it had said that a series has begun may leave no file, or one without anything."""
    if began:
        verdict = judge(file, frames, acknowledged, written)
        assert_described(file, frames)
        return verdict
    assert not acknowledged
    if not file.exists():
        return "no file yet"
    try:
        return judge(file, frames, acknowledged, written)
    except PenstockError as error:
        assert "was killed" not in str(error), "a crash"
        return f"no file yet that holds anything ({error})"


def assert_described(file: Path, frames: Frames) -> None:
    """What the start message said came back, the mask of the pixels as well as single values."""
    with h5py.File(file) as content:
        detector = content["/entry/instrument/detector"]
        assert numpy.array_equal(detector["pixel_mask"][...], frames.mask)
        assert detector["count_time"][()] == 0.009
        assert detector["description"].asstr()[()] == "A detector"


def ranks_of(number: int) -> int | None:
    """The short run has one round of one process and one of two ranks."""
    return None if is_long() else number + 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(rounds(2)))
def test_kill(number: int, tmp_path: Path) -> None:
    started = time.monotonic()
    line = one_round(seed() + number, tmp_path, ranks_of(number))
    say(f"kill {number + 1}/{rounds(2)}, seed {seed() + number}: {line}; {time.monotonic() - started:.1f} s")
