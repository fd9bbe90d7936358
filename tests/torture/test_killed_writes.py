"""SIGKILL at the n-th write or sync of a real process while it makes a file, fills it, closes it, recovers
it or goes on with it: no acknowledged frame is lost, and nothing of the tree is."""

import contextlib
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest
import sender as senders
from detector_stream import multi_dimensional
from plain_client import RESUME
from rounds import WAIT_S, Recorder, Setup, judge, recording, rounds, say, seed
from sender import Frames, sending

from penstock.model.plans import RecoverPlan
from penstock.programs.locate import find_program

SERIES = "killed"
FRAMES, SHAPE = 40, (64, 96)
CHANGES = "pwrite64,pwritev,pwritev2,fsync,fdatasync,ftruncate,fallocate"
MOMENTS = {"start": 110, "frames": 20, "end": 70}  # from which on changes count, and how many may follow
MASK = (numpy.arange(SHAPE[0] * SHAPE[1], dtype="<u4") % 7).reshape(SHAPE)
FLATFIELD = numpy.linspace(0.5, 1.5, SHAPE[0] * SHAPE[1], dtype="<f4").reshape(SHAPE)

STORES: dict[str, dict[str, Any]] = {
    "log": {},
    "slots": {"store": {"placement": "slots"}},
    "split": {"files": {"layout": "split", "frames": 15}},
}
KINDS = [(name, ranks) for name in STORES for ranks in (1, 2)]


@contextlib.contextmanager
def killer(pid: int, change: int) -> Iterator[None]:
    """Ends the process with SIGKILL as a thread of its begins the `change`-th write or sync from now on."""
    inject = f"inject={CHANGES}:signal=KILL:when={change}"
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", "/dev/null", "-e", f"trace={CHANGES}", "-e", inject, "-p", str(pid)],
        stderr=subprocess.PIPE,
    )
    assert tracer.stderr is not None
    try:
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.wait(WAIT_S)
        tracer.stderr.close()


@pytest.fixture(autouse=True)
def _with_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = senders.start_fields

    def start_fields(name: str, frames: Frames, count: int) -> dict[str, object]:
        tables = {"pixel_mask": MASK, "flatfield": FLATFIELD}
        return plain(name, frames, count) | {
            field: {"a": multi_dimensional(table)} for field, table in tables.items()
        }

    monkeypatch.setattr(senders, "start_fields", start_fields)


def setup_of(kind: str, ranks: int, dice: random.Random) -> Setup:
    drawn = Setup.draw(dice, ranks)
    store = {"extent_bytes": 1 << 20, "segment_bytes": 64 << 10, "flush_interval_ms": 10}
    options: dict[str, Any] = {**STORES[kind]}
    encoding = options.pop("codec", {}).get("encoding", drawn.encoding)
    store |= {
        "durability": drawn.store["durability"],
        "direct": drawn.store["direct"],
        **options.pop("store", {}),
    }
    return replace(drawn, transport="tcp", store=store, encoding=encoding, options=options)


def send_all(
    recorder: Recorder, frames: Frames, flags: int = 0, at: Callable[[str], None] = lambda _: None
) -> tuple[bool, bool, set[int]]:
    """Whether the recorder took the start, whether it told that the series is closed, and the safe frames."""
    with sending(recorder.ports, SERIES, frames, FRAMES) as sender:
        at("start")
        sender.begin(flags)
        sender.until(
            lambda: all(link.started.is_set() or link.errors or link.over.is_set() for link in sender.links),
            "an answer",
        )
        if any(link.errors for link in sender.links):
            say(f"refused: {[link.errors for link in sender.links]}")
            return False, False, set()
        at("frames")
        sender.deal(0, FRAMES, 0.002)
        sender.join()
        at("end")
        sender.end()
        sender.until(sender.is_over, "the end, or the recorder's")
        return sender.started, sender.is_closed(), sender.acknowledged()


def record_killed(
    folder: Path, setup: Setup, frames: Frames, moment: str, change: int, victim: int
) -> tuple[bool, set[int], bool]:
    """Whether the series began, which frames were said to be safe, and whether the recorder was killed."""
    with recording(folder, setup) as recorder, contextlib.ExitStack() as killers:

        def at(now: str) -> None:
            if now == moment:
                killers.enter_context(killer(recorder.pids[victim], change))

        began, closed, acknowledged = send_all(recorder, frames, at=at)
        if closed:
            return began, acknowledged, False
        recorder.kill(list(range(setup.ranks)))
        recorder.wait()
        return began, acknowledged, True


def recover_killed(file: Path, change: int) -> bool:
    """Whether a recovery was killed."""
    plan = RecoverPlan(file=str(file)).model_dump_json()
    inject = f"inject={CHANGES}:signal=KILL:when={change}"
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={CHANGES}", "-e", inject]
    done = subprocess.run(
        [*command, str(find_program("penstock-recover")), "--plan", "-"],
        input=plan.encode(), capture_output=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, -9, 137), done.stderr.decode()
    return done.returncode != 0


def assert_tables(file: Path) -> None:
    with h5py.File(file) as content:
        detector = content["/entry/instrument/detector"]
        assert numpy.array_equal(detector["pixel_mask"][...], MASK)
        assert numpy.array_equal(detector["flatfield"][...], FLATFIELD)


def go_on(folder: Path, setup: Setup, frames: Frames, change: int) -> str:
    """A recorder that goes on is killed, too; the one after it records the whole series."""
    going_on = replace(setup, options=setup.options | {"resume": True})
    with recording(folder, going_on) as recorder, killer(recorder.pids[0], change):
        _, closed, _ = send_all(recorder, frames, RESUME)
        if not closed:
            recorder.kill(list(range(setup.ranks)))
            recorder.wait()
    if closed:
        return "went on"
    with recording(folder, going_on) as recorder:
        _, closed, _ = send_all(recorder, frames, RESUME)
    assert closed, "it does not go on"
    return "went on after another kill"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(rounds(len(KINDS))))
def test_killed_at_a_write(number: int, tmp_path: Path) -> None:
    started = time.monotonic()
    dice = random.Random(f"writes {seed() + number}")
    kind, ranks = KINDS[number % len(KINDS)]
    setup, frames = setup_of(kind, ranks, dice), Frames(seed() + number, SHAPE)
    moment, victim = dice.choice(list(MOMENTS)), dice.randrange(ranks)
    change = dice.randint(1, MOMENTS[moment])
    folder = tmp_path / "recorded"
    folder.mkdir()
    file = folder / f"{SERIES}.h5"
    began, acknowledged, was_killed = record_killed(folder, setup, frames, moment, change, victim)
    end = "killed" if was_killed else "not killed"
    words = f"{kind}, {setup}; rank {victim} {end} at change {change} after the {moment}"
    if file.exists() and (began or acknowledged):
        kept = tmp_path / "kept"
        shutil.copytree(folder, kept)
        recoveries = 0
        if was_killed:
            while recoveries < 3 and recover_killed(file, dice.randint(1, 12)):
                recoveries += 1
        verdict = judge(file, frames, acknowledged)
        assert_tables(file)
        words += f": {len(acknowledged)} acknowledged, {verdict}, {recoveries} recoveries killed"
        if kind == "log" and was_killed:
            words += f", {go_on(kept, setup, frames, dice.randint(1, 60))}"
            judge(kept / file.name, frames, set(range(FRAMES)))
            assert_tables(kept / file.name)
    else:
        assert not acknowledged
    which = f"write {number + 1}/{rounds(len(KINDS))}, seed {seed() + number}"
    say(f"{which}: {words}; {time.monotonic() - started:.1f} s")
