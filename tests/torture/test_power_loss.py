"""The power fails under a real file system: ext4 on a loop device is shut down without its journal being
written, as by a loss of power, and mounted again. What was acknowledged under `segment` and `interval` is
there.
"""

import fcntl
import os
import random
import struct
import time
from pathlib import Path

import pytest
from places import command, once_free, umount
from rounds import Setup, judge, long_run, recording, rounds, say, seed
from sender import Frames, sending

IMAGE_BYTES = 2 << 30  # sparse; the file must not fill it, or recovery has no room
SHUT_DOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_THE_JOURNAL = 2


def cut_power(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUT_DOWN, struct.pack("I", WITHOUT_THE_JOURNAL))
    finally:
        os.close(handle)


def one_round(number: int, image: Path, at: Path) -> str:
    dice = random.Random(number)
    setup = Setup.draw(dice, dice.choice([1, 1, 2]))
    setup.store["durability"] = dice.choice(["segment", "interval"])
    setup = Setup(**{**vars(setup), "transport": "tcp"})
    frames = Frames(number, dice.choice([(64, 96), (256, 300)]))
    command("mkfs.ext4", "-q", "-F", str(image))
    command("mount", "-o", "loop", str(image), str(at))
    try:
        with (
            recording(at, setup) as recorder,
            sending(recorder.ports, "power", frames, 100_000) as sender,
        ):
            sender.begin()
            sender.wait_started()
            sender.deal(0, 100_000)
            # Until then, so that there is something to lose.
            sender.until(lambda: sender.safe_frames() > 0, "frames are acknowledged")
            wait_s = dice.random()
            time.sleep(wait_s)
            # A real cut lets nothing out behind it. Here the recorder lives on for a moment, and a sync
            # that had begun before the cut may return without an error though the journal was given up.
            acknowledged = sender.acknowledged()
            cut_power(at)
            recorder.kill(list(range(setup.ranks)))
            recorder.wait()
            sender.close()
            sent = sender.sent
    finally:
        once_free(lambda: umount(at))
    command("mount", "-o", "loop", str(image), str(at))
    try:
        verdict = judge(at / "power.h5", frames, acknowledged)
    finally:
        once_free(lambda: umount(at))
    when = f"{setup}; power lost after {wait_s:.2f} s"
    return f"{when}: {sent} sent, {len(acknowledged)} acknowledged, {verdict}"


@long_run
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("number", range(max(1, rounds(0) // 10)))
def test_power_loss(number: int, tmp_path: Path) -> None:
    image, at = tmp_path / "image", tmp_path / "at"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    line = one_round(seed() + number, image, at)
    say(f"power {number + 1}, seed {seed() + number}: {line}")
    image.unlink()
