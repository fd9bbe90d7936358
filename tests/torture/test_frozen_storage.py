"""A file system stands still for two of ten seconds: the load generator counts what that cost."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from places import command, mounted, zram

from penstock.model.bench.runs import Run

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878  # linux/fs.h
RATE_HZ, FRAMES, HELD_MAX = 20, 200, 20
FREEZE_S, LATE_AFTER_S = 2.0, 0.5
CATCH_UP_S = 0.5
SEEN = 60  # frames, and the freeze begins in the middle between two of the next ones
# How well the test itself knows when frames were due: what a write takes, and the kernel's coarse clock.
KNOWN_TO_S = 0.015

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, and freeze")


def first_due(at: Path, seen: int, program: subprocess.Popen[str]) -> float:
    """By the wall clock, once so many frames are complete: none is written before it is due."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and program.poll() is None:
        written = {int(path.stem[-9:]): path.stat().st_mtime for path in at.glob("*/*.bin")}
        if len(written) >= seen:
            return min(time_s - number / RATE_HZ for number, time_s in written.items())
        time.sleep(0.01)
    raise AssertionError(f"there are no {seen} frames")


@dataclass(frozen=True)
class Frozen:
    """Wall clock. Nothing could be written from `begun` to `ended`; maybe not from `asked` to `thawed`."""

    asked: float
    begun: float
    ended: float
    thawed: float

    def frames_due(self, first: float) -> tuple[int, int]:
        """At least and at most; the first of all was due at `first`."""

        def count(low: float, high: float) -> int:
            return sum(low < first + number / RATE_HZ < high for number in range(FRAMES))

        surely = count(self.begun + KNOWN_TO_S, self.ended - KNOWN_TO_S)
        return surely, count(self.asked - KNOWN_TO_S, self.thawed + KNOWN_TO_S)


def freeze(at: Path, seconds: float) -> Frozen:
    folder = os.open(at, os.O_RDONLY)
    asked = time.time()
    try:
        fcntl.ioctl(folder, FIFREEZE, 0)
        try:
            begun = time.time()
            time.sleep(seconds)
        finally:
            ended = time.time()
            fcntl.ioctl(folder, FITHAW, 0)
    finally:
        os.close(folder)
    return Frozen(asked, begun, ended, time.time())


@pytest.mark.slow
def test_lost_and_late_frames_are_those_of_the_freeze(tmp_path: Path) -> None:
    at = tmp_path / "at"
    at.mkdir()
    with zram() as (device, _):
        command("mkfs.ext4", "-q", "-F", device)
        with mounted(at, device):
            options = [
                "--frame-size",
                "512KiB",
                "--rate",
                str(RATE_HZ),
                "--frames",
                str(FRAMES),
                "--json",
                "--yes",
            ]
            held = [
                "--writers",
                "4",
                "--buffer-seconds",
                str(HELD_MAX / RATE_HZ),
                "--late-after",
                str(LATE_AFTER_S),
            ]
            program = subprocess.Popen(
                [sys.executable, "-m", "penstock", "bench", "frames", str(at), *options, *held],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                first = first_due(at, SEEN, program)
                time.sleep(max(0.0, first + (SEEN + 2.5) / RATE_HZ - time.time()))
                frozen = freeze(at, FREEZE_S)
                said, log = program.communicate(timeout=60)
            finally:
                if program.poll() is None:
                    program.send_signal(signal.SIGKILL)
                    program.communicate()
        subprocess.run(["umount", str(at)], check=False, capture_output=True)

    run = Run.model_validate_json(said)
    assert run.frames is not None, log
    figures, counts = run.frames, run.document.frames
    at_least, at_most = frozen.frames_due(first)
    lasted_s = frozen.ended - frozen.begun
    print(f"frozen for {lasted_s:.3f} s, {at_least} to {at_most} frames were due in it; {figures}")
    assert figures.due == FRAMES
    # The buffer held as many as it can, and the others had no place. On a busy machine one more may be due
    # before a writer has gone on.
    assert figures.held_max == HELD_MAX
    assert at_least - HELD_MAX <= figures.dropped <= at_most + 1 - HELD_MAX
    assert figures.written == FRAMES - figures.dropped
    # Those that were held, and what is due until the writers have caught up, which a busy machine delays.
    assert HELD_MAX <= figures.late <= HELD_MAX + RATE_HZ * CATCH_UP_S
    # The first one waited for the whole time, and each after it a period less. The second is the p99.
    assert figures.latency_ms.p99 >= (lasted_s - 2 / RATE_HZ) * 1e3
    assert figures.stall_s >= lasted_s - 1 / RATE_HZ
    assert counts is not None
    assert counts.failed == counts.unfinished == 0
