"""What a simulated detector did to its frames on purpose, beside what the recorder's ledger says of them."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import numpy.typing as npt
import pytest
from conftest import Record, RecordCommand, Run

from penstock.model.errors import ExitCode, UsageError
from penstock.model.events import DetectorSeriesEnd, MetricsAddress, parse_event
from penstock.model.faults import parse_fault

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
FRAMES, ROWS, COLUMNS = 120, 32, 48
SCENE = ("custom", "--rows", str(ROWS), "--columns", str(COLUMNS), "--frames", str(FRAMES), "--no-stamp")
KINDS = ("drop", "late", "reorder", "duplicate", "corrupt", "flip", "shape", "cut")
RECEIVED, DAMAGED, MISSING, PARTIAL = 1, 2, 0, 5
AMISS = ("missing", "late", "duplicate", "damaged")


@dataclass
class Log:
    """What a series' log of faults says, frame by frame; `unseen` are faults that no recorder can see."""

    lines: list[dict[str, Any]]
    unseen: tuple[str, ...] = ()
    damaged: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for line in self.faults:
            frame = (line["frame"], line["element"])
            if line["fault"] == "drop":
                self.dropped.append(frame)
            elif line["fault"] in ("corrupt", "flip", "shape", "cut") and line["fault"] not in self.unseen:
                self.damaged.append(frame)

    @property
    def faults(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "fault" in line]

    @property
    def expected(self) -> dict[str, Any]:
        return dict(self.lines[-1]["expected"])

    def states(self, elements: int = 1) -> list[int]:
        states = [RECEIVED] * FRAMES
        for frame, count in Counter(frame for frame, _ in self.dropped).items():
            states[frame] = MISSING if count == elements else PARTIAL
        for frame, _ in self.damaged:
            states[frame] = DAMAGED
        return states

    def counts(self) -> dict[str, int]:
        received = self.states().count(RECEIVED)
        return {
            "received": received,
            "missing": FRAMES - received,
            "late": sum(line["late"] for line in self.faults),
            "duplicate": sum(line["fault"] == "duplicate" for line in self.faults),
            "damaged": len(self.damaged),
        }


def random_faults(seed: int, elements: int) -> list[str]:
    """A plan nobody thought about: rates, amounts, elements and lists of frames."""
    random = np.random.default_rng(seed)
    options = []
    for kind in random.permutation(KINDS):
        amount = f":{random.integers(1, 30)}" if kind in ("late", "reorder") else ""
        element = f"/{random.integers(elements)}" if elements > 1 and random.random() < 0.4 else ""
        if random.random() < 0.3:
            frames = ",".join(map(str, random.integers(0, FRAMES, 4)))
            options += ["--fault", f"{kind}{amount}{element}@{frames}"]
        else:
            options += ["--fault", f"{kind}{amount}{element}={random.uniform(0, 6):.2f}%"]
    return options


@dataclass
class Bench:
    """A recorder, and a clean recording to compare with."""

    recorder: RecordCommand
    run: Run
    folder: Path
    target: str

    def metric(self, what: str) -> int:
        """Of all series so far."""
        address = next(event.address for event in self.recorder.events if isinstance(event, MetricsAddress))
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf'penstock_frame_problems_total{{what="{what}"}} (\d+)', text)
        assert found, text
        return int(found[1])

    def send(self, name: str, *options: str) -> tuple[Path, Any]:
        sent = self.run(
            "simulate", *SCENE, "--rate", "max", "--to", self.target, "--series-name", name, *options
        )
        assert sent.returncode == 0, sent.stderr
        end = self.recorder.series_end()
        assert end.series_unique_id == name
        assert end.problem is None
        return self.folder / f"{name}.h5", end

    def send_with_faults(
        self, name: str, *options: str, unseen: tuple[str, ...] = ()
    ) -> tuple[Path, Any, Log]:
        log = self.folder / f"{name}.jsonl"
        file, end = self.send(name, "--fault-log", str(log), *options)
        lines = [json.loads(line) for line in log.read_text(encoding="ascii").splitlines()]
        return file, end, Log(lines, unseen)


@pytest.fixture(params=["tcp", "zmq"])
def bench(
    request: pytest.FixtureRequest, record: Record, run: Run, tmp_path: Path, free_port: int
) -> Iterator[Bench]:
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.2\n", encoding="ascii")
    metrics = ("--metrics", "127.0.0.1:0")
    if request.param == "tcp":
        recorder = record(tmp_path, str(config), *metrics)
        yield Bench(recorder, run, tmp_path, f"tcp://{recorder.address}")
    else:
        source = ("--zmq", f"tcp://127.0.0.1:{free_port}")
        recorder = record(tmp_path, str(config), *source, *metrics, listen=False)
        yield Bench(recorder, run, tmp_path, f"zmq://127.0.0.1:{free_port}")
    code, log = recorder.stop()
    assert code == 0, log


def stored(path: Path) -> tuple[npt.NDArray[np.uint16], list[int], dict[str, Any]]:
    with h5py.File(path) as file:
        states = file["/entry/penstock/frame_state"]
        return file["/entry/data/data"][()], list(states[()]), dict(states.attrs)


def test_the_ledger_says_what_was_done(bench: Bench, run: Run) -> None:
    """Random plans, each kind of fault, plain and compressed, whole frames and elements."""
    tcp = bench.target.startswith("tcp")
    clean, _ = bench.send("clean")
    pixels = stored(clean)[0]
    done: set[str] = set()
    amiss = np.zeros(len(AMISS), int)
    variants: list[tuple[str, ...]] = [(), ("--encoding", "bslz4")]
    if tcp:
        variants.append(("--elements", "2x2"))
    for number, variant in enumerate([*variants, *variants]):
        seed = 100 + number
        elements = 4 if "--elements" in variant else 1
        plan = random_faults(seed, elements)
        if not tcp and variant:  # what a flipped bit does to compressed pixels depends on the bit
            plan += ["--fault", "drop=0"]
            at = next(i for i, each in enumerate(plan) if each.startswith("flip"))
            plan[at] = "drop=0"
        name = f"s{number}"
        file, end, log = bench.send_with_faults(
            name, "--fault-seed", str(seed), *plan, *variant, unseen=() if tcp else ("flip",)
        )
        told = f"{variant} {plan}"
        counts = log.counts()
        assert counts == {key: log.expected[key] for key in counts}, told
        assert counts == {
            "received": end.frames_received,
            **{key: getattr(end, key) for key in ("missing", "late", "duplicate", "damaged")},
        }, told
        there, states, attributes = stored(file)
        assert counts == {key: attributes[key] for key in counts}, told
        assert attributes["filled"] == end.filled == counts["missing"]
        amiss += np.array([counts[key] for key in AMISS])
        assert states == log.states(elements), told
        lost = {*log.dropped, *log.damaged}
        flipped = {line["frame"] for line in log.faults if line["fault"] == "flip"} if not tcp else set()
        rows, columns = (ROWS // 2, COLUMNS // 2) if elements > 1 else (ROWS, COLUMNS)
        for frame in range(FRAMES):
            for element in range(elements):
                row, column = divmod(element, 2 if elements > 1 else 1)
                part = np.s_[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
                got, wanted = there[frame][part], pixels[frame][part]
                if (frame, element) in lost:
                    assert np.all(got == 0xFFFF), (told, frame, element)
                elif frame in flipped:
                    assert np.bitwise_count(got ^ wanted).sum() == 1, (told, frame)
                else:
                    assert np.array_equal(got, wanted), (told, frame, element)
        if elements > 1:
            check_elements(file, attributes, log, lost)
        done |= {line["fault"] for line in log.faults}
    assert done == set(KINDS), "each kind was done"
    assert [bench.metric(what) for what in AMISS] == list(amiss)
    page = run("info", str(bench.folder / "s0.h5")).stdout
    counts = stored(bench.folder / "s0.h5")[2]
    for key in AMISS:
        assert f"{counts[key]} {key}" in page, page
    checked = run("check", str(bench.folder / "s0.h5"), "--json")
    assert json.loads(checked.stdout)["missing"] == stored(bench.folder / "s0.h5")[2]["missing"]


def check_elements(file: Path, attributes: dict[str, Any], log: Log, lost: set[tuple[int, int]]) -> None:
    """What the file says of each element, and of each frame of it."""

    def count(of: Callable[[dict[str, Any]], bool]) -> list[int]:
        return [sum(of(line) and line["element"] == each for line in log.faults) for each in range(4)]

    received = np.ones((FRAMES, 4), np.uint8)
    for frame, element in lost:
        received[frame, element] = 0
    with h5py.File(file) as content:
        assert np.array_equal(content["/entry/penstock/element_received"][()], received)
    assert list(attributes["received_by_element"]) == list(received.sum(0, int))
    assert list(attributes["received_by_element"]) == log.expected["received_by_element"]
    assert list(attributes["late_by_element"]) == count(lambda line: line["late"])
    assert list(attributes["duplicate_by_element"]) == count(lambda line: line["fault"] == "duplicate")
    assert list(attributes["damaged_by_element"]) == [
        sum(element == each for _, element in log.damaged) for each in range(4)
    ]


def test_the_same_seed_does_the_same(bench: Bench) -> None:
    plan = ("--fault", "drop=10%", "--fault", "late:5=10%", "--fault", "reorder:4=5%")
    logs = [bench.send_with_faults(name, *plan, "--fault-seed", seed)[2] for name, seed in SEEDS]
    assert logs[0].lines[1:] == logs[1].lines[1:]
    assert logs[0].lines[1:] != logs[2].lines[1:]


SEEDS = [("a", "7"), ("b", "7"), ("c", "8")]


LATE_MAX_MS = 30  # of a sender at 200 Hz: 6 frames
ATTEMPTS = 8


def test_named_frames_and_a_delay_in_time(bench: Bench) -> None:
    """Frame 10 is overtaken by the frames of 50 ms, of which there are 10 at 200 Hz; the last one is not.

    A sender that was stopped for 50 ms has nothing to hold back, so a series with a late sender is repeated.
    """
    for attempt in range(ATTEMPTS):
        name = f"s{attempt}"
        overtook, late_ms = delayed_series(bench, name)
        if late_ms <= LATE_MAX_MS:
            break
    else:
        pytest.skip(f"the sender was late by more than {LATE_MAX_MS} ms in each of {ATTEMPTS} series")
    assert 9 - late_ms / 5 <= overtook <= 11 + late_ms / 5
    log = str(bench.folder / f"{name}.jsonl")
    again = bench.run("simulate", *SCENE, "--to", bench.target, "--fault-log", log)
    assert again.returncode == ExitCode.USAGE
    assert f"{name}.jsonl exists already and is not overwritten" in again.stderr


def delayed_series(bench: Bench, name: str) -> tuple[int, float]:
    """The number of frames that overtook frame 10, and by how much the sender was late, in ms."""
    sent = bench.run(
        *("simulate", *SCENE, "--rate", "200", "--to", bench.target, "--series-name", name, "--json"),
        *("--fault", "late:50ms@10", "--fault", f"late:9@{FRAMES - 1}", "--fault", "drop@3-5,8"),
        *("--fault-log", str(bench.folder / f"{name}.jsonl")),
    )
    assert sent.returncode == 0, sent.stderr
    sender = parse_event("penstock-detector", sent.stdout.splitlines()[-1])
    assert isinstance(sender, DetectorSeriesEnd)
    assert (sender.fault_seed, sender.faults) == (1, {"drop": 4, "late": 2})
    end = bench.recorder.series_end()
    assert (end.missing, end.late, end.frames_received) == (4, 1, FRAMES - 4)
    file = bench.folder / f"{name}.h5"
    assert np.flatnonzero(np.array(stored(file)[1]) == MISSING).tolist() == [3, 4, 5, 8]
    with h5py.File(file) as content:
        received = content["/entry/penstock/timing/received"][:]
    return int(np.sum(received[11 : FRAMES - 1] < received[10])), sender.late_max_ms


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("drop", '--fault: "drop" cannot be read'),
        ("melt=1%", '--fault: "melt=1%" cannot be read'),
        ("drop=2", "not a probability"),
        ("drop=1e", "not a probability"),
        ("drop:3=1%", "does not take this amount"),
        ("reorder:5ms=1%", "does not take this amount"),
        ("late:0=1%", "is not possible"),
        ("drop@5-3", "names no frames"),
        ("drop@,", "names no frames"),
    ],
)
def test_a_fault_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_fault(text)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--fault", "drop/1=1%"), "element 1 of 1"),
        (("--fault", f"drop@3,7-{FRAMES}"), f"drop of frame {FRAMES}, but the last frame is {FRAMES - 1}"),
        (("--fault-log", "/no/such/folder/s.jsonl"), "the folder /no/such/folder does not exist"),
        (("--fault", "drop=1%", "--to", "files:x"), "does not support files"),
    ],
)
def test_faults_of_what_is_not_there(run: Callable[..., Any], options: tuple[str, ...], says: str) -> None:
    refused = run("simulate", *SCENE, *options)
    assert refused.returncode == 2
    assert says in refused.stderr
