"""Events with a known truth: what an analysis of them must find. Floats have 10 bits, as in NanoAOD."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import awkward
import numpy
import numpy.typing

from penstock.bench.science.analysis.parameters import BASKET_EVENTS

TREE = "Events"
SCAN = ("trigger", "MET_pt", "Muon_pt", "Muon_eta", "Jet_pt", "Jet_eta")
INDEX, JUMP = "trigger", ("Muon_pt", "Jet_pt", "Cell_e")
"""branches: of a scan, the one that navigation scans, and those that it jumps to"""
_PASSED, _CHOSEN = 1, 2
"""bits of the trigger: of 10 % and of 1 % of the events"""
_MUON_PT_MIN = 25.0
_EDGES = numpy.linspace(0.0, 200.0, 51, dtype=numpy.float32)
_SUMS_MOD = 2**63
_PLACE_BITS = 20
_COUNT_PLACE = (1 << _PLACE_BITS) - 1
"""of the number of values in an entry, behind the places of the values"""
Numbers = numpy.typing.NDArray[numpy.uint64]


@dataclass
class Found:
    """What an analysis found in a file.

    Exact: counts, and sums of the bits of all values that it used. Each has a weight of its entry and of its
    place in the entry's list, so that values that changed places are found, in whatever order entries come.
    """

    selected: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * (len(_EDGES) - 1))
    sums: dict[str, int] = field(default_factory=dict)

    def fill(self, values: "numpy.typing.NDArray[numpy.float32]") -> None:
        counts, _ = numpy.histogram(values, _EDGES)
        self.histogram = [before + int(more) for before, more in zip(self.histogram, counts, strict=True)]
        self.selected += len(values)

    def add(self, branch: str, values: Any, entries: Numbers) -> None:
        """`entries`: number in the file of each entry of `values`."""
        self.sums[branch] = (self.sums.get(branch, 0) + _weighted_sum(values, entries)) % _SUMS_MOD

    @property
    def digest(self) -> int:
        """Of all sums."""
        return sum(self.sums.values()) % _SUMS_MOD

    def differences(self, truth: "Found") -> list[str]:
        """Names of what is not as it was generated."""
        names = sorted({*self.sums, *truth.sums})
        wrong = [name for name in names if self.sums.get(name) != truth.sums.get(name)]
        if (self.selected, self.histogram) != (truth.selected, truth.histogram):
            bins = sum(abs(a - b) for a, b in zip(self.histogram, truth.histogram, strict=True))
            wrong.append(f"histogram ({self.selected} events of {truth.selected}, bins differ by {bins})")
        return wrong


def _weighted_sum(values: Any, entries: Numbers) -> int:
    bits = awkward.to_numpy(awkward.flatten(values, axis=None)).view(numpy.uint32)
    first = numpy.asarray(entries, numpy.uint64) << numpy.uint64(_PLACE_BITS)
    if values.ndim == 1:
        return _total(bits, first)
    counts = awkward.to_numpy(awkward.num(values))
    places = awkward.to_numpy(awkward.flatten(awkward.local_index(values))).astype(numpy.uint64)
    of_counts = _total(counts, first + numpy.uint64(_COUNT_PLACE))
    return of_counts + _total(bits, numpy.repeat(first, counts) + places)


def _total(values: Any, places: Numbers) -> int:
    """Modulo 2^64."""
    return int((values.astype(numpy.uint64) * _weights(places)).sum(dtype=numpy.uint64))


def _weights(places: Numbers) -> Numbers:
    """Odd and without a pattern. Source: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = (places ^ (places >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> numpy.uint64(31))) | numpy.uint64(1)


def scan(found: Found, arrays: Any, entries: Numbers) -> None:
    """A skim: events with a trigger and a muon of high momentum."""
    for name in SCAN:
        found.add(name, arrays[name], entries)
    highest = awkward.fill_none(awkward.max(arrays["Muon_pt"], axis=1), 0.0)
    highest = awkward.to_numpy(highest).astype(numpy.float32)
    passed = (awkward.to_numpy(arrays["trigger"]) & _PASSED) != 0
    found.fill(highest[passed & (highest > _MUON_PT_MIN)])


def chosen(trigger: Any) -> "numpy.typing.NDArray[numpy.int64]":
    """Numbers of the events that navigation jumps to."""
    return numpy.flatnonzero(numpy.asarray(trigger) & _CHOSEN)


def visit(found: Found, arrays: Any, entries: Numbers) -> None:
    """Events that navigation has jumped to."""
    for name in JUMP:
        found.add(name, arrays[name], entries)
    highest = awkward.fill_none(awkward.max(arrays["Cell_e"], axis=1), 0.0)
    found.fill(awkward.to_numpy(highest).astype(numpy.float32))


def baskets(seed: int, file: int, count: int) -> Iterator[dict[str, Any]]:
    """Arrays of `count` events in all, by branch."""
    random = numpy.random.default_rng([seed, file])
    for first in range(0, count, BASKET_EVENTS):
        yield _basket(random, first, file)


def _basket(random: numpy.random.Generator, first: int, file: int) -> dict[str, Any]:
    count = BASKET_EVENTS
    share = random.random(count)
    bits = numpy.where(share < 0.1, _PASSED, 0) | numpy.where(random.random(count) < 0.01, _CHOSEN, 0)
    muons, jets, cells = (random.poisson(mean, count) for mean in (2, 6, 60))
    return {
        "run": numpy.full(count, file, numpy.int32),
        "event": numpy.arange(first, first + count, dtype=numpy.uint64),
        "trigger": bits.astype(numpy.uint32),
        "MET_pt": _floats(random.exponential(30.0, count)),
        "Muon": _objects(muons, pt=_spectrum(random, muons, 15.0), eta=_angle(random, muons)),
        "Jet": _objects(
            jets,
            pt=_spectrum(random, jets, 30.0),
            eta=_angle(random, jets),
            btag=_floats(random.random(jets.sum())),
        ),
        "Cell": _objects(
            cells,
            e=_spectrum(random, cells, 10.0),
            id=random.integers(0, 200_000, cells.sum()).astype(numpy.int32),
        ),
    }


def _spectrum(random: numpy.random.Generator, counts: Any, mean: float) -> Any:
    return _floats(random.exponential(mean, counts.sum()))


def _angle(random: numpy.random.Generator, counts: Any) -> Any:
    return _floats(random.normal(0.0, 1.5, counts.sum()))


def _floats(values: Any) -> Any:
    """With 10 bits of the mantissa."""
    return (values.astype(numpy.float32).view(numpy.uint32) & numpy.uint32(0xFFFFE000)).view(numpy.float32)


def _objects(counts: Any, **fields: Any) -> Any:
    return awkward.unflatten(awkward.zip(fields), counts)
