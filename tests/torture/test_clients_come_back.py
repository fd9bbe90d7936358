"""Several clients send one series, and the recorder is killed again and again: each client sends again
what it was not told to be safe, and in the end every frame is there."""

import contextlib
import random
from pathlib import Path

import pytest
from rounds import Setup, assert_clean, assert_right, recording, rounds, say, seed
from sender import Frames, Sender, sending

from penstock.model.events import RecorderSeriesEnd

SERIES = "back"
FRAMES = 600
KILLS = 3


def send_what_is_not_safe(sender: Sender, safe: list[set[int]]) -> None:
    """Each client its own frames, by rising number."""
    clients = len(sender.links)
    for position, link in enumerate(sender.links):
        sender.deal_to(link, [n for n in range(position, FRAMES, clients) if n not in safe[position]])


def killed(folder: Path, setup: Setup, dice: random.Random, frames: Frames, safe: list[set[int]]) -> None:
    wanted = dice.randrange(1, 1 + FRAMES // 6)
    with recording(folder, setup) as recorder:
        ports = recorder.ports * len(safe)
        with sending(ports, SERIES, frames, FRAMES) as sender:
            sender.watch = lambda: recorder.kill([0]) if sender.safe_frames() >= wanted else None
            sender.begin_together()
            send_what_is_not_safe(sender, safe)
            with contextlib.suppress(AssertionError):  # fewer frames than that were left to send
                sender.until(sender.is_over, "the recorder dies", 5)
            recorder.kill([0])
            sender.until(sender.is_over, "the recorder dies")
        recorder.wait()
        for position, link in enumerate(sender.links):
            safe[position] |= link.acknowledged()


def one_round(number: int, folder: Path) -> str:
    dice = random.Random(number)
    setup = Setup.draw(dice, 1)
    setup = Setup(transport="tcp", store=setup.store, encoding=setup.encoding, options={"resume": True})
    frames = Frames(number)
    clients = dice.choice([2, 3])
    safe: list[set[int]] = [set() for _ in range(clients)]
    for _ in range(KILLS):
        killed(folder, setup, dice, frames, safe)
    before = set().union(*safe)
    with (
        recording(folder, setup) as recorder,
        sending(recorder.ports * clients, SERIES, frames, FRAMES) as sender,
    ):
        sender.begin_together()
        send_what_is_not_safe(sender, safe)
        sender.join()
        sender.end()
        end = recorder.until(RecorderSeriesEnd)
        sender.until(sender.is_closed, "the series is closed")
        after = sender.acknowledged()
    assert isinstance(end, RecorderSeriesEnd)
    assert end.problem is None
    file = folder / f"{SERIES}.h5"
    assert_clean(file)
    assert assert_right(file, frames) == set(range(FRAMES))
    assert before | after == set(range(FRAMES)), "each was told of all of its frames"
    return f"{setup}, {clients} clients, {KILLS} kills: {len(before)} acknowledged before the last start"


@pytest.mark.parametrize("number", range(max(1, rounds(0) // 10)))
def test_clients_come_back(number: int, tmp_path: Path) -> None:
    line = one_round(seed() + number, tmp_path)
    say(f"back {number + 1}, seed {seed() + number}: {line}")
