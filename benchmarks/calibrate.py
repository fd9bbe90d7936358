"""Whether verdicts are right: on devices of a known limit, beside programs that use the processors.

    sudo .venv/bin/python benchmarks/calibrate.py /data --runs 10 --at-once 4 --output calibration.jsonl
    .venv/bin/python benchmarks/calibrate.py --summarize calibration.jsonl

Answers are added to what FILE has, so that hundreds of them can be collected on several days.

Each run is one `penstock verdict` on an ext4 whose block device the kernel limits to a multiple of what
the detector needs (`--factors`), plain or below a FUSE file system (`--kinds`, bindfs has to be
installed), or on a storage system of the laboratory (xfs and gluster with a limited disk, moosefs with
a limited link), beside one busy process per processor that uses a share of it (`--busy`). `--at-once`
verdicts run side by side, each on a device of its own: they are other programs to each other, and the
share of the processors in use is recorded with each answer. The order is random; the seed is printed.
The detector's rate is so low that the disk below can always take it.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import multiprocessing
import os
import queue
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from measure.limited_device import limited_device, unmount
from measure.process import run

from penstock.lab.control import held
from penstock.lab.targets import request_of

CHECKOUT = Path(__file__).resolve().parent.parent
PENSTOCK = CHECKOUT / ".venv" / "bin" / "penstock"
_NEEDED_HZ, _SIDE = 80.0, 512
NEEDED_BYTES_PER_S = _NEEDED_HZ * _SIDE * _SIDE * 2
_ROOM_BYTES, _SPACE = 2 << 30, "500MB"
_PERIOD_S = 0.02
# One server and one copy, so that the limit of its disk or link is that of the system.
_LABORATORIES = {
    "xfs": "xfs,servers=1,disks=loop:2GiB,disk_rate={limit}B/s",
    "gluster": "gluster,servers=1,kind=distribute,disks=loop:2GiB,disk_rate={limit}B/s",
    "moosefs": "moosefs,servers=1,goal=1,disks=ram:2GiB,link={limit}B/s",
}
_CLASSES = (0.3, 0.6, 0.9)
_YES, _NO = ("yes", "likely yes"), ("no", "likely no")


def _busy(share: float) -> None:
    while True:
        begin = time.perf_counter()
        while time.perf_counter() < begin + share * _PERIOD_S:
            pass
        time.sleep((1 - share) * _PERIOD_S)


@dataclass(frozen=True)
class Case:
    kind: str
    """`plain`, `fuse`, or a system of _LABORATORIES"""
    factor: float
    """of what is needed that the device is held to"""
    busy: float
    """share of each processor that a program beside it wants"""


@contextmanager
def _beside(share: float) -> Iterator[None]:
    """One process per processor, each of which wants this share of one."""
    count = len(os.sched_getaffinity(0)) if share else 0
    others = [multiprocessing.Process(target=_busy, args=(share,), daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


@contextmanager
def _below_fuse(folder: Path) -> Iterator[Path]:
    over = folder.parent / "over"
    over.mkdir()
    run(["bindfs", "--multithreaded", str(folder), str(over)])
    try:
        yield over
    finally:
        unmount(over)
        over.rmdir()


def _verdict(target: Path, seconds: float) -> dict[str, Any]:
    command = [
        str(PENSTOCK), "verdict", "custom", str(target), "--rows", str(_SIDE), "--columns", str(_SIDE),
        "--type", "uint16", "--rate", str(_NEEDED_HZ), "--space", _SPACE, "--seconds", str(seconds),
        "--search-time", str(6 * seconds), "--soak", str(seconds), "--yes", "--json", "--quiet",
    ]  # fmt: skip
    begin = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(ended.stdout)
    except ValueError:
        return {"answer": "failed", "problem": ended.stderr[-2000:]}
    names = (
        "answer", "confidence", "reasons", "measured_bytes_per_s", "less_than_bytes_per_s",
        "unpaced_bytes_per_s", "at_most_bytes_per_s", "lost", "problem",
    )  # fmt: skip
    outcomes = [(step["kind"], step["rate_hz"], step["outcome"]) for step in found["steps"]]
    return {name: found[name] for name in names} | {"steps": outcomes, "took_s": time.monotonic() - begin}


def _answer(folder: Path, case: Case, seconds: float) -> dict[str, Any]:
    limit = round(case.factor * NEEDED_BYTES_PER_S)
    if case.kind in _LABORATORIES:
        request = request_of(_LABORATORIES[case.kind].format(limit=limit), f"c{secrets.token_hex(4)}")
        with held(request) as state:
            return _told(Path(state.mount), case, limit, seconds)
    with limited_device(folder, _ROOM_BYTES, limit) as plain:
        if case.kind == "fuse":
            with _below_fuse(plain) as target:
                return _told(target, case, limit, seconds)
        return _told(plain, case, limit, seconds)


def _told(target: Path, case: Case, limit: int, seconds: float) -> dict[str, Any]:
    before = _processor_times()
    found = _verdict(target, seconds)
    in_use = {"processors_in_use": _share_in_use(before, _processor_times())}
    day = {"day": time.strftime("%Y-%m-%d", time.gmtime())}
    return day | dataclasses.asdict(case) | {"limit_bytes_per_s": limit} | in_use | found


def _processor_times() -> tuple[float, float]:
    """Processor seconds in use, and available, since boot (proc(5))."""
    times = psutil.cpu_times()
    idle = times.idle + times.iowait
    return sum(times[:8]) - idle, sum(times[:8])


def _share_in_use(before: tuple[float, float], after: tuple[float, float]) -> float:
    return round((after[0] - before[0]) / max(after[1] - before[1], 0.01), 3)


@contextmanager
def _nothing_more_after_an_error(pool: ThreadPoolExecutor) -> Iterator[None]:
    """An error or Ctrl-C ends the runs that are under way, and no others begin."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def measure(
    folder: Path, cases: list[Case], at_once: int, seconds: float, write: Callable[[dict[str, Any]], None]
) -> None:
    """Cases of the same `busy` one after another, `at_once` side by side, each in a folder of its own."""
    folders: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for number in range(at_once):
        own = folder / f"device-{number}"
        own.mkdir()
        folders.put(own)

    def one(case: Case) -> dict[str, Any]:
        own = folders.get()
        try:
            return _answer(own, case, seconds)
        finally:
            folders.put(own)

    answered = 0
    with ThreadPoolExecutor(at_once) as pool, _nothing_more_after_an_error(pool):
        for busy, group in itertools.groupby(cases, key=lambda case: case.busy):
            with _beside(busy):
                for answer in as_completed([pool.submit(one, case) for case in group]):
                    found = answer.result()
                    write(found)
                    answered += 1
                    print(
                        f"{answered} of {len(cases)}: {found['kind']}, factor {found['factor']:g},"
                        f" busy {busy:g}: {found['answer']}",
                        flush=True,
                    )
    while not folders.empty():
        folders.get().rmdir()


def is_right(case: dict[str, Any]) -> bool | None:
    """None: no answer."""
    if case["answer"] in _YES:
        return bool(case["factor"] > 1)
    return bool(case["factor"] < 1) if case["answer"] in _NO else None


def covers(case: dict[str, Any]) -> bool | None:
    """Whether the interval of the sustained rate has the limit, within 2 %; None without an interval."""
    low, high = case.get("measured_bytes_per_s"), case.get("less_than_bytes_per_s")
    if low is None or high is None:
        return None
    return bool(low / 1.02 <= case["limit_bytes_per_s"] <= high * 1.02)


def in_use(case: dict[str, Any]) -> str:
    """Class of the measured share of the processors."""
    share = case["processors_in_use"]
    return next((f"up to {100 * most:g} %" for most in _CLASSES if share <= most), "more")


def by_limit(cases: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the table of docs/explanation/measuring.md, and the runs that gave no answer."""
    yield "| Limit / needed | Runs | right, 95 % | right, likely | wrong | cannot tell | failed or invalid |"
    yield f"| --- |{' ---: |' * 6}"
    ordered = sorted(cases, key=lambda case: case["factor"])
    for factor, group in itertools.groupby(ordered, key=lambda case: case["factor"]):
        of = list(group)
        right = [case for case in of if is_right(case)]
        certain = sum(case["confidence"] == 0.95 for case in right)
        wrong = sum(is_right(case) is False for case in of)
        undecided = sum(case["answer"] == "cannot tell" for case in of)
        others = len(of) - len(right) - wrong - undecided
        counts = (len(of), certain, len(right) - certain, wrong, undecided, others)
        yield f"| {factor:g} | {' | '.join(map(str, counts))} |"


def summarize(all_cases: list[dict[str, Any]]) -> Iterator[str]:
    cases = [case for case in all_cases if case["answer"] != "failed"]
    yield from by_limit(all_cases)
    yield ""
    yield f"{len(all_cases) - len(cases)} of {len(all_cases)} verdicts failed. What follows leaves them out."
    yield ""
    columns = (
        "processors in use",
        "runs",
        "right, certain",
        "right, likely",
        "wrong, certain",
        "wrong, likely",
        "none",
    )
    yield f"| {' | '.join(columns)} |"
    yield f"|{' ---: |' * len(columns)}"
    ordered = sorted(cases, key=lambda case: case["processors_in_use"])
    for name, group in itertools.groupby(ordered, key=in_use):
        of = list(group)
        counts = [
            sum(is_right(case) is right and (case["confidence"] == 0.95) is certain for case in of)
            for right in (True, False)
            for certain in (True, False)
        ]
        none = sum(is_right(case) is None for case in of)
        yield f"| {name} | {len(of)} | {' | '.join(map(str, counts))} | {none} |"
    known = [found for case in cases if (found := covers(case)) is not None]
    yield ""
    yield f"The interval of the sustained rate has the device's limit in {sum(known)} of {len(known)} runs."
    for kind in sorted({case["kind"] for case in cases}):
        right_ones = [is_right(case) is True for case in cases if case["kind"] == kind]
        yield f"{kind}: {sum(right_ones)} of {len(right_ones)} answers are right."
    certain = [case for case in cases if case.get("confidence") == 0.95]
    right = sum(is_right(case) is True for case in certain)
    yield f"Of {len(certain)} answers with 95 % confidence, {right} are right."


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="on a plain disk")
    parser.add_argument("--factors", type=numbers, default=[0.25, 0.5, 0.8, 1.25, 2.0, 4.0])
    parser.add_argument("--busy", type=numbers, default=[0.0, 0.3, 0.6, 0.9])
    parser.add_argument("--kinds", default="plain", help="plain, fuse, xfs, gluster, moosefs, with commas")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="verdicts side by side")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the run at the rate, and of the soak")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--output", type=Path, help="answers are added to it, a line each")
    parser.add_argument("--summarize", type=Path)
    given = parser.parse_args()
    if given.summarize is not None:
        lines = given.summarize.read_text(encoding="utf-8").splitlines()
        print("\n".join(summarize([json.loads(line) for line in lines])))
        return 0
    if given.folder is None or given.output is None:
        parser.error("FOLDER and --output are required")
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}")
    cases = [
        Case(*each) for each in itertools.product(given.kinds.split(","), given.factors, given.busy)
    ] * given.runs
    shuffled = random.Random(seed).sample(cases, len(cases))
    found: list[dict[str, Any]] = []
    with given.output.open("a", encoding="utf-8") as file:

        def write(answer: dict[str, Any]) -> None:
            found.append(answer)
            file.write(json.dumps(answer) + "\n")
            file.flush()

        measure(
            given.folder, sorted(shuffled, key=lambda case: case.busy), given.at_once, given.seconds, write
        )
    print("\n".join(summarize(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
