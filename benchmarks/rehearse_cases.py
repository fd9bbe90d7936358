"""Whether `penstock rehearse` names the narrowest stage, and its rate: on chains with a known bottleneck.

    sudo .venv/bin/python benchmarks/rehearse_cases.py /data --runs 5 --output cases.jsonl
    .venv/bin/python benchmarks/rehearse_cases.py --summarize cases.jsonl

Cases are added to what FILE has, so that they can be collected on several days.

Each case makes one stage narrow on purpose:

- `link`: sender and recorder are in two network namespaces, with a token bucket at both ends of the link
  between them. The rehearsal's `--from` reaches the other one through a stand-in for ssh.
- `codec`: zstd at a high level, in as many threads as there are processors.
- `thread`: an ordinary codec in one thread.
- `disk`: an ext4 on a device that the kernel limits.
- `pool`: the smallest pool, in front of a storage that answers late but takes any number of writes at once.
- `index`: chunks of a few bytes, so that each frame has a thousand entries.

First the sustained rate is bisected without the rehearsal: `penstock record` and `penstock simulate` run
at fixed rates, and the file's own times show whether frames were written in time. The rehearsal then gets
a multiple of that rate (`--factors`), below and above 1, so that the right answer is known. The order and
the factors are random; the seed is printed. `link` and `disk` require root; FOLDER has to be on a disk
that supports direct I/O, and `--memory` on a tmpfs. Nothing stays behind in either.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy
from measure.limited_device import limited_device
from measure.links import link
from measure.process import BenchmarkError
from measure.slow_writes import slow_writes

CHECKOUT = Path(__file__).resolve().parent.parent
PROGRAMS = CHECKOUT / ".venv" / "bin"
PENSTOCK = str(PROGRAMS / "penstock")
_YES, _NO = ("yes", "likely yes"), ("no", "likely no")
_FACTORS = (0.6, 0.8, 1.25, 1.6)
_NEAR = 0.05
"""within which two rates agree"""

_LINK, _LINK_BURST = "400mbit", "256kb"
_DISK_BYTES_PER_S, _ROOM_BYTES = 60_000_000, 3 << 30
_DELAY_MS = 400
_SPACE = "2GB"
_WAIT_S, _END_S = 300.0, 30.0

# Of a bisection: the width at which it ends, the first steps, and what is still on time.
_WIDTH, _STRIDE, _RUNS_MAX = 1.03, 1.25, 24
_LATE_MAX_S, _CLOSING_MAX_S, _GROWTH_MAX, _RISE_MIN_S = 1.0, 2.0, 0.01, 0.05
_FRAMES_MIN = 40


@dataclass(frozen=True)
class Chain:
    """A chain with one narrow stage."""

    target: Path
    side: int
    """rows and columns of a frame"""
    type: str
    unpaced_frames: int
    configuration: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    recorder: list[str] = field(default_factory=list)
    """in front of the commands at the recorder's end"""
    sender: list[str] = field(default_factory=list)
    host: str = "127.0.0.1"
    """of the recorder, as the sender reaches it"""
    rehearsal: list[str] = field(default_factory=list)
    """further options of `penstock rehearse`"""

    @property
    def frame_bytes(self) -> int:
        return self.side * self.side * int(numpy.dtype(self.type).itemsize)

    @property
    def detector(self) -> list[str]:
        return ["custom", "--rows", str(self.side), "--columns", str(self.side), "--type", self.type]


_PLAIN = {"encoding": "none"}
_SMALL_SEGMENTS = {"segment_bytes": "1 MiB"}
"""Compressed frames are written soon, so that the times in the file follow the compression."""


@contextmanager
def _slow_link(_disk: Path, memory: Path) -> Iterator[Chain]:
    """The recorder is at the far end, whose address is known."""
    with link(_LINK, _LINK_BURST) as ends, tempfile.TemporaryDirectory() as programs:
        ssh = Path(programs) / "ssh"
        ssh.write_text(
            "#!/bin/sh\n"
            "while [ $# -gt 1 ]; do shift; done\n"
            f'export PATH="{PROGRAMS}:$PATH"\n'
            f'exec {" ".join(ends.near)} sh -c "$1"\n',
            encoding="utf-8",
        )
        ssh.chmod(0o755)
        yield Chain(
            memory,
            256,
            "uint16",
            1500,
            {"codec": _PLAIN, "pool_bytes": "256 MiB"},
            {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            recorder=ends.far,
            sender=ends.near,
            host=ends.address,
            rehearsal=["--from", "near-end", "--listen", f"{ends.address}:9900"],
        )


@contextmanager
def _slow_codec(_disk: Path, memory: Path) -> Iterator[Chain]:
    codec = {"encoding": "zstd", "level": 12}
    threads = len(os.sched_getaffinity(0))
    yield Chain(
        memory,
        512,
        "uint16",
        400,
        {"codec": codec, "threads": threads, "pool_bytes": "64 MiB", "store": _SMALL_SEGMENTS},
    )


@contextmanager
def _one_thread(_disk: Path, memory: Path) -> Iterator[Chain]:
    codec = {"encoding": "bszstd"}
    yield Chain(
        memory,
        512,
        "uint16",
        2000,
        {"codec": codec, "threads": 1, "pool_bytes": "64 MiB", "store": _SMALL_SEGMENTS},
    )


@contextmanager
def _slow_disk(disk: Path, _memory: Path) -> Iterator[Chain]:
    with limited_device(disk, _ROOM_BYTES, _DISK_BYTES_PER_S) as folder:
        yield Chain(folder, 512, "uint16", 1000, {"codec": _PLAIN, "pool_bytes": "128 MiB"})


@contextmanager
def _small_pool(disk: Path, _memory: Path) -> Iterator[Chain]:
    """Twice as many write threads as segments that the pool has: the storage would take more."""
    store = {"segment_bytes": "1 MiB", "write_threads": 64}
    with tempfile.TemporaryDirectory() as programs:
        yield Chain(
            disk,
            512,
            "uint16",
            1000,
            {"codec": _PLAIN, "pool_bytes": "64 MiB", "store": store},
            slow_writes(Path(programs), _DELAY_MS),
        )


@contextmanager
def _slow_index(_disk: Path, memory: Path) -> Iterator[Chain]:
    """Small segments, because the index's queue is bounded in segments."""
    chunk, store = {"shape": [4, 4]}, {"segment_bytes": "64 KiB"}
    yield Chain(
        memory,
        128,
        "uint8",
        8000,
        {"codec": _PLAIN, "chunk": chunk, "pool_bytes": "64 MiB", "store": store},
    )


@dataclass(frozen=True)
class Kind:
    stage: str
    """the one that is to be named"""
    chain: Callable[[Path, Path], AbstractContextManager[Chain]]
    as_root: bool = False


KINDS = {
    "link": Kind("network", _slow_link, as_root=True),
    "codec": Kind("compress", _slow_codec),
    "thread": Kind("compress", _one_thread),
    "disk": Kind("storage", _slow_disk, as_root=True),
    "pool": Kind("pool", _small_pool),
    "index": Kind("index", _slow_index),
}


@dataclass(frozen=True)
class Run:
    """One series at a fixed rate; 0: unpaced."""

    rate_hz: float
    problems: list[str]
    written_hz: float
    """in the second half"""


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _end_of(text: str, program: str) -> dict[str, Any]:
    for event in _events(text):
        if event.get("event") == "series_end":
            return event
    raise BenchmarkError(f"{program} did not complete the series: {text[-400:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _output(command: list[str], environment: dict[str, str], timeout_s: float | None) -> tuple[str, str]:
    """Standard output and error of a program, which gets time to remove its files if this one is stopped."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        process_group=0,
    ) as process:
        try:
            return process.communicate(timeout=timeout_s)
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


@contextmanager
def _recorder(chain: Chain, configuration: Path, address: str, token: dict[str, str]) -> Iterator[Any]:
    """`penstock record` that listens, for one series."""
    command = [
        *chain.recorder, PENSTOCK, "record", str(configuration), "--listen", address,
        "--folder", str(configuration.parent), "--series", "1", "--json", "--log-level", "error",
    ]  # fmt: skip
    environment = {**os.environ, **chain.environment, **token}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, process_group=0
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if '"listening"' in line:
                    break
            else:
                raise BenchmarkError("the recorder ended before it listened")
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def record_at(chain: Chain, rate_hz: float, seconds: float) -> Run:
    """Records one series, judges it by its file, and removes that."""
    frames = max(_FRAMES_MIN, math.ceil(seconds * rate_hz)) if rate_hz else chain.unpaced_frames
    with tempfile.TemporaryDirectory(dir=chain.target, prefix="rehearse-case-") as name:
        folder = Path(name)
        configuration = folder / "recorder.yaml"
        configuration.write_text(json.dumps(chain.configuration), encoding="utf-8")
        address, token = f"{chain.host}:{_free_port()}", {"PENSTOCK_TOKEN": secrets.token_hex(16)}
        simulate = [
            *chain.sender, PENSTOCK, "simulate", *chain.detector, "--frames", str(frames),
            "--rate", repr(rate_hz) if rate_hz else "max", "--to", f"tcp://{address}",
            "--series-name", "case", "--json",
        ]  # fmt: skip
        with _recorder(chain, configuration, address, token) as recorder:
            sent, words = _output(simulate, token, _WAIT_S)
            recorded, _ = recorder.communicate(timeout=_WAIT_S)
        ends = _end_of(sent or words, "penstock simulate"), _end_of(recorded, "penstock record")
        with h5py.File(folder / "case.h5", "r") as file:
            written = numpy.sort(file["/entry/penstock/timing/written"][:]) * 1e-9
    half = len(written) // 2
    written_hz = (len(written) - 1 - half) / max(float(written[-1] - written[half]), 1e-9)
    return Run(rate_hz, list(_problems(frames, rate_hz, *ends, written)) if rate_hz else [], written_hz)


def _problems(
    frames: int,
    rate_hz: float,
    sent: dict[str, Any],
    recorded: dict[str, Any],
    written: numpy.typing.NDArray[numpy.float64],
) -> Iterator[str]:
    """Why the rate was not sustained. `written`: seconds, in ascending order."""
    lost = {name: recorded[name] for name in ("missing", "lost", "dropped", "damaged") if recorded[name]}
    if lost or recorded["frames_written"] != frames:
        yield f"{recorded['frames_written']} of {frames} frames were written {lost}"
    if sent["frames_sent"] != frames or sent.get("problem"):
        yield f"{sent['frames_sent']} of {frames} frames were sent: {sent.get('problem')}"
    if sent["late_max_ms"] > 1e3 * _LATE_MAX_S:
        yield f"the sender was late by {sent['late_max_ms']:.0f} ms"
    closing_s = recorded["seconds"] - recorded["frames_seconds"]
    if closing_s > _CLOSING_MAX_S:
        yield f"the file was closed {closing_s:.1f} s after the last frame"
    # A straight line through the delays, without the first third, in which buffers fill.
    due = numpy.arange(len(written)) / rate_hz
    rest = slice(len(written) // 3, None)
    growth = float(numpy.polyfit(due[rest], (written - written[0] - due)[rest], 1)[0])
    if growth > _GROWTH_MAX and growth * float(due[-1] - due[len(written) // 3]) > _RISE_MIN_S:
        yield f"frames were written ever later, by {100 * growth:.1f} %"


def bisect(chain: Chain, seconds: float) -> dict[str, Any]:
    """The highest sustained rate; a rate counts as not sustained if two runs say so."""
    runs: list[Run] = []

    def sustained(rate_hz: float) -> bool:
        for _ in range(2):
            runs.append(record_at(chain, rate_hz, seconds))
            if not runs[-1].problems:
                return True
        return False

    rate_hz = record_at(chain, 0.0, seconds).written_hz
    low = high = None
    while (low is None or high is None or high / low > _WIDTH) and len(runs) < _RUNS_MAX:
        if sustained(rate_hz):
            low = rate_hz
        else:
            high = rate_hz
        rate_hz = (
            math.sqrt(low * high) if low and high else low * _STRIDE if low else (high or rate_hz) / _STRIDE
        )
    tried = [(run.rate_hz, "; ".join(run.problems)) for run in runs]
    return {"sustained_hz": low, "less_than_hz": high, "runs": tried}


def _answer(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    begin = time.monotonic()
    printed, words = _output(command, environment, None)
    try:
        found = json.loads(printed)
    except ValueError:
        return {"answer": "failed", "problem": words[-2000:], "took_s": time.monotonic() - begin}
    return {**found, "took_s": time.monotonic() - begin}


def rehearse(chain: Chain, rate_hz: float, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "recorder.yaml"
        configuration.write_text(json.dumps(chain.configuration), encoding="utf-8")
        command = [
            *chain.recorder, PENSTOCK, "rehearse", *chain.detector, str(chain.target),
            "--config", str(configuration), "--rate", repr(rate_hz), "--seconds", str(2 * seconds),
            "--search-time", str(40 * seconds), "--search-max", "4", "--step-seconds", str(2 * seconds),
            "--soak", str(2 * seconds), "--space", _SPACE, "--yes", "--json", "--quiet",
            *chain.rehearsal,
        ]  # fmt: skip
        found = _answer(command, chain.environment)
    if found["answer"] == "failed":
        return found
    names = (
        "answer", "confidence", "reasons", "narrowest", "sustained_hz", "less_than_hz", "missing",
        "problem", "ratio", "took_s",
    )  # fmt: skip
    limit = [step for step in found["steps"] if step["narrowest"] == found["narrowest"] and step["stages"]]
    uses = limit[0]["stages"] if limit else found["stages"]
    return {name: found[name] for name in names} | {
        "search_ended": (found["search"] or {}).get("ended"),
        "headrooms": {use["stage"]: use["headroom"] for use in uses},
        "utilisations": {use["stage"]: round(use["utilisation"], 3) for use in uses},
        "steps": [
            (step["kind"], step["rate_hz"], step["sent_hz"], step["outcome"], step["narrowest"])
            for step in found["steps"]
        ],
    }


def verdict(chain: Chain, rate_hz: float, seconds: float) -> dict[str, Any]:
    command = [
        PENSTOCK, "verdict", *chain.detector, str(chain.target), "--rate", repr(rate_hz),
        "--space", _SPACE, "--seconds", str(2 * seconds), "--search-time", str(30 * seconds),
        "--soak", str(2 * seconds), "--yes", "--json", "--quiet",
    ]  # fmt: skip
    found = _answer(command, {})
    names = (
        "answer",
        "confidence",
        "measured_bytes_per_s",
        "less_than_bytes_per_s",
        "unpaced_bytes_per_s",
        "problem",
        "took_s",
    )
    return {name: found.get(name) for name in names} | {
        "search_ended": (found.get("search") or {}).get("ended")
    }


def _middle(low: float | None, high: float | None) -> float | None:
    """None if the limit was not found."""
    return math.sqrt(low * high) if low and high else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(one / other, 4) if one and other else None


def measure(kind: str, factor: float, disk: Path, memory: Path, seconds: float) -> dict[str, Any]:
    """One case: bisection, rehearsal and, where the storage is narrow, the verdict."""
    with KINDS[kind].chain(disk, memory) as chain:
        found = bisect(chain, seconds)
        known_hz = _middle(found["sustained_hz"], found["less_than_hz"])
        if known_hz is None:
            raise BenchmarkError(f"the bisection did not end: {found['runs']}")
        needed_hz = factor * known_hz
        rehearsed = rehearse(chain, needed_hz, seconds)
        rehearsed_hz = _middle(rehearsed.get("sustained_hz"), rehearsed.get("less_than_hz"))
        case = {
            "kind": kind,
            "expected": KINDS[kind].stage,
            "named": rehearsed.get("narrowest"),
            "answer": rehearsed["answer"],
            "factor": factor,
            "needed_hz": needed_hz,
            "frame_bytes": chain.frame_bytes,
            "bisection": found,
            "rehearsal": rehearsed,
            "of_bisection": _ratio(rehearsed_hz, known_hz),
            "sustained_of_bisection": _ratio(rehearsed.get("sustained_hz"), found["sustained_hz"]),
        }
        if KINDS[kind].stage == "storage":
            alone = verdict(chain, needed_hz, seconds)
            alone_bytes = _middle(alone["measured_bytes_per_s"], alone["less_than_bytes_per_s"])
            case |= {
                "verdict": alone,
                "of_verdict": _ratio(rehearsed_hz and rehearsed_hz * chain.frame_bytes, alone_bytes),
            }
        return case


def is_named(case: dict[str, Any]) -> bool:
    return bool(case["named"] == case["expected"])


def is_right(case: dict[str, Any]) -> bool | None:
    """Whether yes or no is right; None: no answer."""
    if case["answer"] in _YES:
        return bool(case["factor"] < 1)
    return bool(case["factor"] > 1) if case["answer"] in _NO else None


def is_wrong_yes(case: dict[str, Any]) -> bool:
    """A yes although a frame is missing, or although the rate is above the one that is sustained."""
    return case["answer"] in _YES and bool(case["factor"] > 1 or case["rehearsal"]["missing"])


def summarize(cases: list[dict[str, Any]]) -> Iterator[str]:
    columns = (
        "case", "runs", "stage", "named", "otherwise named", "answers right", "rate / bisection",
        "within 5 %", "rate / verdict",
    )  # fmt: skip
    yield f"| {' | '.join(columns)} |"
    yield "| --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |"
    failed = [case for case in cases if "failed" in case]
    sound = [case for case in cases if "failed" not in case]
    for kind, about in KINDS.items():
        of = [case for case in sound if case["kind"] == kind]
        if not of:
            continue
        others = sorted({str(case["named"]) for case in of if not is_named(case)})
        cells = (
            kind, len(of), about.stage, sum(map(is_named, of)), ", ".join(others) or "–",
            sum(is_right(case) is True for case in of), _spread(of, "of_bisection"),
            f"{_near(of, 'of_bisection')} of {len(of)}", _spread(of, "of_verdict"),
        )  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    yield f"The stage is right in {sum(map(is_named, sound))} of {len(cases)} cases."
    yield (
        f"The rate is within 5 % of the bisection in {_near(sound, 'of_bisection')} of {len(sound)} cases,"
        f" and of the verdict in {_near(sound, 'of_verdict')} of"
        f" {sum(case.get('of_verdict') is not None for case in sound)}."
    )
    yield f"Wrong yes: {sum(map(is_wrong_yes, sound))}. Failed: {len(failed)}."


def _known(cases: list[dict[str, Any]], name: str) -> list[float]:
    return [case[name] for case in cases if case.get(name) is not None]


def _near(cases: list[dict[str, Any]], name: str) -> int:
    return sum(abs(ratio - 1) <= _NEAR for ratio in _known(cases, name))


def _spread(cases: list[dict[str, Any]], name: str) -> str:
    found = _known(cases, name)
    if not found:
        return "–"
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def cases_of(kinds: list[str], factors: list[float], runs: int, seed: int) -> list[tuple[str, float]]:
    """Each kind has the factors in turn, from a random one on; the order of all is random."""
    chance = random.Random(seed)
    cases = []
    for kind in kinds:
        first = chance.randrange(len(factors))
        cases += [(kind, factors[(first + number) % len(factors)]) for number in range(runs)]
    return chance.sample(cases, len(cases))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="on a disk that supports direct I/O")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="on a tmpfs")
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas (default: all)")
    parser.add_argument(
        "--factors", default=",".join(map(str, _FACTORS)), help="multiples of the bisected rate"
    )
    parser.add_argument("--runs", type=int, default=5, help="of each kind")
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="of each run of a bisection; the steps of a rehearsal take twice as long",
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--output", type=Path, help="cases are added to it, a line each")
    parser.add_argument("--summarize", type=Path, metavar="FILE", help="print a table of such a file")
    given = parser.parse_args()
    if given.summarize is not None:
        lines = given.summarize.read_text(encoding="utf-8").splitlines()
        print("\n".join(summarize([json.loads(line) for line in lines])))
        return 0
    if given.folder is None or given.output is None:
        parser.error("FOLDER and --output are required")
    kinds = given.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--kinds {','.join(unknown)}: choose from {', '.join(KINDS)}")
    if os.geteuid() != 0 and any(KINDS[kind].as_root for kind in kinds):
        parser.error("link and disk require root")
    # So that namespaces, devices and folders are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    cases = cases_of(kinds, [float(each) for each in given.factors.split(",")], given.runs, seed)
    found: list[dict[str, Any]] = []
    with given.output.open("a", encoding="utf-8") as file:
        for number, (kind, factor) in enumerate(cases, 1):
            begin = time.monotonic()
            try:
                case = measure(kind, factor, given.folder, given.memory, given.seconds)
            except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
                case = {"kind": kind, "factor": factor, "failed": str(error)}
            around = {"day": time.strftime("%Y-%m-%d", time.gmtime()), "load_average": os.getloadavg()[0]}
            found.append(case | {"took_s": time.monotonic() - begin} | around)
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
            words = case.get("failed") or f"{case['named']}, {case['answer']}, rate {case['of_bisection']}"
            print(f"{number} of {len(cases)}: {kind}, factor {factor:g}: {words}", flush=True)
    print("\n".join(summarize(found)))
    return 1 if any("failed" in case for case in found) else 0


if __name__ == "__main__":
    sys.exit(main())
