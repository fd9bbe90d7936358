"""A device that answers writes with I/O errors (EIO), under a real file system, and is whole again later."""

import contextlib
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from collector import Collector, batches_of
from places import MIB, failing_device
from plain_client import RESUME
from rounds import Recorder, Setup, Verdict, is_long, judge, recording, say
from sender import Frames, Sender, sending

from penstock.client import Values
from penstock.model.events import RecorderSeriesEnd

SHAPE = (256, 300)  # 150 KiB
FRAMES = 300
# Every acknowledged frame has been synced, its place in the file included.
STORE = {"durability": "segment", "segment_bytes": MIB, "extent_bytes": 4 * MIB}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def has_failed(recorder: Recorder) -> bool:
    return any("input/output error" in line for line in recorder.program.log)


def send_until_it_fails(recorder: Recorder, sender: Sender) -> None:
    sender.begin()
    sender.wait_started()
    sender.deal(0, FRAMES)
    sender.until(sender.links[0].over.is_set, "the recorder ends the connection, as frames are lost")
    for _ in range(100):  # its log takes another way
        if has_failed(recorder):
            return
        time.sleep(0.05)
    raise AssertionError(f"the recorder does not name the error: {list(recorder.program.log)}")


def come_back_until_closed(recorder: Recorder, frames: Frames, acknowledged: set[int]) -> set[int]:
    """The frames of which the client was told in all. Its connection may end again, as frames are lost."""
    told = set(acknowledged)
    for _ in range(10):
        with sending(recorder.ports, "eio", frames, FRAMES) as again:
            again.begin(RESUME)
            again.wait_started()
            again.deal_to(again.links[0], sorted(set(range(FRAMES)) - told))
            again.join()
            again.end()
            again.until(again.is_over, "an answer")
            told |= again.acknowledged()
            if again.is_closed():
                return told
    raise AssertionError("the series does not come to its end")


@pytest.mark.slow
@pytest.mark.parametrize("direct", [True, False] if is_long() else [True])
def test_the_series_goes_on_once_the_device_does(direct: bool, tmp_path: Path) -> None:
    at = tmp_path / "at"
    at.mkdir()
    frames = Frames(5, SHAPE)
    # Without a journal, which ext4 gives up for good when it cannot be written.
    with failing_device(at, "-O", "^has_journal") as place:
        with recording(at, Setup(encoding="none", store={**STORE, "direct": direct})) as recorder:
            with sending(recorder.ports, "eio", frames, FRAMES) as sender:
                send_until_it_fails(recorder, sender)
                acknowledged = sender.acknowledged()
            place.space()
            acknowledged_after = come_back_until_closed(recorder, frames, acknowledged)
            end = recorder.until(RecorderSeriesEnd)
        assert isinstance(end, RecorderSeriesEnd)
        assert end.problem is not None
        assert "input/output error" in end.problem
        assert end.missing == 0, "what was lost and sent again is there"
        place.mount_again()  # so that it is read from the device
        # HDF5's own structures may have met the errors too, and then the segments are what is left.
        verdict = judge(at / "eio.h5", frames, acknowledged_after)
        assert verdict.received == acknowledged_after == set(range(FRAMES))
    before, lost = len(acknowledged), end.lost
    say(f"eio device, direct {direct}: {before} acknowledged, {lost} lost and sent again, {verdict}")


_ATTEMPTS = 4


def test_what_was_acknowledged_before_the_device_failed_is_there(tmp_path: Path) -> None:
    for attempt in range(_ATTEMPTS):
        acknowledged, verdict = killed_on_a_failing_device(tmp_path / str(attempt))
        if acknowledged:
            break
    assert acknowledged, "on a busy machine the device may fail before anything is acknowledged, not always"
    say(f"eio device, killed: {len(acknowledged)} acknowledged, {verdict}")


def killed_on_a_failing_device(at: Path) -> tuple[set[int], Verdict]:
    """The frames that were acknowledged, and what is there of them."""
    at.mkdir()
    frames = Frames(6, SHAPE)
    with failing_device(at) as place:
        with recording(at, Setup(encoding="none", store=STORE)) as recorder:
            with sending(recorder.ports, "eio", frames, FRAMES) as sender:
                send_until_it_fails(recorder, sender)
                acknowledged = sender.acknowledged()
            recorder.kill([0])
            recorder.wait()
        place.space()
        place.mount_again()
        return acknowledged, judge(at / "eio.h5", frames, acknowledged)


PARTS = 48  # of half a MiB each, of values that do not compress: half of them are too much for the device


@pytest.mark.parametrize("sync", ["0", pytest.param("0.2", marks=pytest.mark.slow)])
def test_a_journal_that_cannot_be_synced_ends_the_collector(sync: str, tmp_path: Path) -> None:
    """At once, with the reason; what was not acknowledged goes to the next one."""
    at = tmp_path / "at"
    at.mkdir()
    chance = np.random.default_rng(7)
    parts = [chance.random(1 << 16) for _ in range(PARTS)]
    with failing_device(at, "-O", "^has_journal") as place, contextlib.ExitStack() as started:

        def collector(address: str) -> Collector:
            made = Collector(at, "--listen", address, "--sync", sync)
            started.callback(made.process.kill)  # or the device stays in use
            return made

        first = collector("127.0.0.1:0")
        with Values(first.address, reconnect_timeout=120) as values:
            over = threading.Event()

            def send() -> None:
                for number, part in enumerate(parts):
                    if number == PARTS // 2:
                        over.wait(60)
                    values.send_columns({"a": part}, frame=number * len(part) + np.arange(len(part)))
                values.flush(120)

            sender = threading.Thread(target=send)
            sender.start()
            _, said = first.process.communicate(timeout=60)
            assert first.process.returncode == 1, said
            assert f"{first.journal} could not be synced: " in said
            assert "input/output error" in said
            assert "check the storage and restart the collector" in said
            place.space()
            over.set()
            second = collector(first.address)
            sender.join(120)
            assert not sender.is_alive()
            batches = values.acknowledged
        assert second.stop() == 0
        found = [batch.number for batch in batches_of(second.journal)]
        assert found == list(range(batches - len(found), batches)), "all that was not acknowledged before"
        assert 0 < len(found) < batches
        place.mount_again()  # so that they are read from the device
        assert [batch.number for batch in batches_of(second.journal)] == found
        if sync == "0":
            there = {batch.number for path in (first.journal, second.journal) for batch in batches_of(path)}
            assert there == set(range(batches)), "what was acknowledged was synced"
    say(
        f"eio device, journal synced each {sync} s: {batches - len(found)} batches before, {len(found)} after"
    )
