"""Events that are not where they were generated are found, in whatever order they are read."""

import itertools
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import awkward
import numpy
import pytest

from penstock.bench.science.analysis import make, work
from penstock.bench.science.analysis.events import JUMP, SCAN, Found, baskets, scan, visit
from penstock.bench.science.analysis.parameters import BASKET_EVENTS, STEP_EVENTS
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.posix import PosixStorage

FIRST = 3 * BASKET_EVENTS
ENTRIES = numpy.arange(FIRST, FIRST + BASKET_EVENTS, dtype=numpy.uint64)
Arrays = dict[str, Any]


def branches(arrays: Arrays) -> Arrays:
    found = {
        f"{name}_{each}": arrays[name][each]
        for name in ("Muon", "Jet", "Cell")
        for each in arrays[name].fields
    }
    return found | {name: arrays[name] for name in ("trigger", "MET_pt")}


def wrong(arrays: Arrays, changed: Arrays) -> list[str]:
    truth, found = Found(), Found()
    scan(truth, arrays, ENTRIES)
    scan(found, arrays | changed, ENTRIES)
    return found.differences(truth)


def two_exchanged(arrays: Arrays) -> Arrays:
    values = arrays["MET_pt"].copy()
    values[[17, 800]] = values[[800, 17]]
    return {"MET_pt": values}


def halves_exchanged(arrays: Arrays) -> Arrays:
    """Of the bytes of a basket."""
    return {"MET_pt": numpy.roll(arrays["MET_pt"], BASKET_EVENTS // 2)}


def lists(arrays: Arrays, change: Callable[[list[list[float]]], None]) -> Arrays:
    jets = arrays["Jet_pt"].tolist()
    change(jets)
    return {"Jet_pt": awkward.values_astype(awkward.Array(jets), numpy.float32)}


def jet_in_the_next_event(arrays: Arrays) -> Arrays:
    def change(jets: list[list[float]]) -> None:
        at = next(number for number, each in enumerate(jets) if len(each) > 1)
        jets[at + 1].insert(0, jets[at].pop())

    return lists(arrays, change)


def list_reversed(arrays: Arrays) -> Arrays:
    return lists(arrays, lambda jets: max(jets, key=len).reverse())


def empty_list_moved(arrays: Arrays) -> Arrays:
    def change(jets: list[list[float]]) -> None:
        jets.insert(0, jets.pop(jets.index([])))

    return lists(arrays, change)


@pytest.mark.parametrize(
    "change", [two_exchanged, halves_exchanged, jet_in_the_next_event, list_reversed, empty_list_moved]
)
def test_values_in_another_place_are_found(change: Callable[[Arrays], Arrays]) -> None:
    arrays = branches(next(baskets(1, 0, BASKET_EVENTS)))
    changed = change(arrays)
    (name,) = changed
    assert sorted(awkward.flatten(changed[name], axis=None)) == sorted(
        awkward.flatten(arrays[name], axis=None)
    )
    assert wrong(arrays, {}) == []
    assert wrong(arrays, changed) == [name]


def test_visits_in_any_order_find_the_same_and_an_exchanged_event() -> None:
    arrays = branches(next(baskets(1, 0, BASKET_EVENTS)))
    order = numpy.random.default_rng(2).permutation(BASKET_EVENTS)
    truth, found, exchanged = Found(), Found(), Found()
    visit(truth, arrays, ENTRIES)
    for part in (order[:300], order[300:]):
        visit(found, {name: arrays[name][part] for name in JUMP}, ENTRIES[part])
        visit(exchanged, {name: arrays[name][part] for name in JUMP}, ENTRIES[part[::-1]])
    assert found == truth
    assert exchanged.differences(truth) == sorted(JUMP)


class Tree:
    """Of a file that goes on after its first step."""

    num_entries = STEP_EVENTS + 1

    def __init__(self) -> None:
        every = [branches(each) for each in baskets(1, 0, STEP_EVENTS)]
        self.whole = {
            name: awkward.to_packed(awkward.concatenate([each[name] for each in every])) for name in SCAN
        }

    def arrays(self, names: list[str], entry_start: int, entry_stop: int, library: str) -> Arrays:
        assert library == "ak"
        return {name: self.whole[name][entry_start:entry_stop] for name in names}


def peak_of(work: Callable[[], object]) -> int:
    """Bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_making_a_file_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basket = next(baskets(1, 0, BASKET_EVENTS))
    monkeypatch.setattr(make, "baskets", lambda *_: itertools.repeat(basket, 30))
    storage = PosixStorage(tmp_path)
    job = Job(0, storage, lambda _: None, threading.Event())
    size = {"seed": 1, "first": 0, "events": 0, "compression": "none"}
    peak = peak_of(lambda: make._make_file(job, 0, size))
    assert storage.names() == ["events-000000000.root"]
    assert peak < 0.8 * storage.size("events-000000000.root")


def _nothing_needed(_tree: Any) -> Any:
    return SimpleNamespace(of=lambda *_: 0)


def wrong_of_a_stopped_pass(tree: Tree, steps: list[int]) -> tuple[int, list[str]]:
    job = SimpleNamespace(number=0, stopping=True, done=lambda _: None)
    analysis: Any = work._Analysis(cast(Job, job), {"pattern": "scan", "seed": 1})
    analysis._needed = _nothing_needed
    analysis._scan(tree, {"name": "events.root", "truth": {"steps": steps}})
    return analysis.compared, analysis.wrong


def test_of_a_pass_that_is_stopped_what_was_read_is_compared() -> None:
    tree, truth = Tree(), Found()
    step = range(STEP_EVENTS)
    scan(truth, tree.arrays(list(SCAN), 0, STEP_EVENTS, "ak"), numpy.array(step, numpy.uint64))
    steps = [truth.digest, 0, 0]
    assert wrong_of_a_stopped_pass(tree, steps) == (1, [])
    tree.whole["MET_pt"] = awkward.Array(numpy.roll(tree.whole["MET_pt"], 1))
    assert wrong_of_a_stopped_pass(tree, steps) == (1, [f"events.root: the first {STEP_EVENTS} events"])


class Chosen:
    """A tree of events that are all selected."""

    num_entries = 250

    def __getitem__(self, _name: str) -> Any:
        return SimpleNamespace(array=lambda **_: numpy.full(self.num_entries, 2, numpy.uint32))

    def arrays(self, names: list[str], **_: object) -> Any:
        return awkward.Array({name: [[1.0]] for name in names})


def test_events_that_were_visited_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    visited: set[int] = set()

    def take(_found: Found, arrays: Any, entries: Any) -> None:
        together.append(len(arrays))
        visited.update(entries.tolist())

    monkeypatch.setattr(work, "visit", take)
    monkeypatch.setattr(work, "_VISITED_TOGETHER", 100)
    job = SimpleNamespace(number=0, stopping=False, done=lambda _: None)
    analysis: Any = work._Analysis(cast(Job, job), {"pattern": "navigate", "seed": 1})
    analysis._needed, analysis._compare = _nothing_needed, lambda *_: None
    analysis._navigate(Chosen(), {})
    assert together == [100, 100, 50]
    assert visited == set(range(250))
