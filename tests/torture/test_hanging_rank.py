"""A rank that hangs: the others' frames are acknowledged as long as they do not need it, nothing is lost when
it goes on, and a rank that never does is killed like any other."""

import os
import signal
from pathlib import Path

import pytest
from rounds import Recorder, Setup, assert_clean, assert_right, is_long, judge, long_run, recording, say
from sender import Frames, Sender, sending

MPIS = ["openmpi", "mpich"] if is_long() else ["openmpi"]
FRAMES = 2000


def start(recorder: Recorder, sender: Sender) -> None:
    """Until each rank has had frames of its own acknowledged."""
    sender.begin()
    sender.wait_started()
    sender.deal(0, 400)
    sender.join()
    sender.until(lambda: all(link.safe_below > 300 for link in sender.links), "the first frames are safe")
    assert len(recorder.pids) == 2


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize("hangs", [0, 1] if is_long() else [1])
def test_nothing_is_lost_when_it_goes_on(hangs: int, mpi: str, tmp_path: Path) -> None:
    frames = Frames(9)
    setup = Setup(ranks=2, mpi="mpich" if mpi == "mpich" else "openmpi", store={"segment_bytes": 64 << 10})
    with (
        recording(tmp_path, setup) as recorder,
        sending(recorder.ports, "hangs", frames, FRAMES) as sender,
    ):
        start(recorder, sender)
        other = sender.links[1 - hangs]
        os.kill(recorder.pids[hangs], signal.SIGSTOP)
        before = other.safe_below
        sender.deal(400, FRAMES)
        if hangs == 1:
            # The lead needs nobody: it receives, writes and acknowledges.
            sender.until(lambda: other.safe_below > FRAMES - 10, "the lead goes on")
        else:
            # The index is the lead's: the other rank receives and writes until its bounds are reached, and
            # what it has is not acknowledged before the lead has answered.
            assert other.safe_below <= before + 400
        os.kill(recorder.pids[hangs], signal.SIGCONT)
        sender.join()
        sender.end()
        sender.until(sender.is_closed, "the series is closed")
        assert sender.acknowledged() == set(range(FRAMES))
    assert_clean(tmp_path / "hangs.h5")
    assert assert_right(tmp_path / "hangs.h5", frames) == set(range(FRAMES))
    say(f"rank {hangs} of {mpi} hung and went on: all {FRAMES} frames are complete")


@long_run
@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize("hangs", [0, 1])
def test_one_that_hangs_for_ever_can_be_killed(hangs: int, mpi: str, tmp_path: Path) -> None:
    frames = Frames(10)
    setup = Setup(ranks=2, mpi="mpich" if mpi == "mpich" else "openmpi")
    with (
        recording(tmp_path, setup) as recorder,
        sending(recorder.ports, "hangs", frames, FRAMES) as sender,
    ):
        start(recorder, sender)
        os.kill(recorder.pids[hangs], signal.SIGSTOP)
        sender.deal(400, FRAMES)
        recorder.kill([hangs])
        recorder.wait(60)
        sender.close()
        acknowledged = sender.acknowledged()
    verdict = judge(tmp_path / "hangs.h5", frames, acknowledged)
    say(f"rank {hangs} of {mpi} hung and was killed: {len(acknowledged)} acknowledged, {verdict}")
