"""The job: it processes the events of its files again and again, until it is stopped."""

import bisect
import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import awkward
import numpy
import uproot

from penstock.bench.science.analysis.events import INDEX, JUMP, SCAN, TREE, Found, chosen, scan, visit
from penstock.bench.science.analysis.parameters import STEP_EVENTS
from penstock.bench.science.analysis.source import source_of
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.page_cache import cached_share
from penstock.bench.science.storage.read_ahead import ReadAhead
from penstock.bench.science.storage.storage import Range, read_ranges
from penstock.model.errors import PenstockError
from penstock.model.text import one_short_line

_STORAGE, _REST = "storage", "decompression and computing"
_WRONG_MAX = 10
_VISITED_TOGETHER = 1000
"""events, whose arrays are kept so long"""


def work(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """`files`: name and truth of each. Returns what was compared, and bytes that were needed."""
    analysis = _Analysis(job, parameters)
    with analysis.opened(parameters["files"][0]["name"]):
        pass
    job.begin()
    job.spent_s.clear()
    begun = time.monotonic()
    analysis.run()
    job.spent_s[_REST] = time.monotonic() - begun - job.spent_s[_STORAGE]
    return {
        "needed_bytes": analysis.needed_bytes,
        "compared": analysis.compared,
        "wrong": analysis.wrong,
        "dropped": analysis.dropped,
        "cached_share": analysis.cached_share,
    }


class _Analysis:
    def __init__(self, job: Job, parameters: dict[str, Any]) -> None:
        self.needed_bytes = self.compared = 0
        self.wrong: list[str] = []
        self.dropped = True
        self.cached_share: float | None = 0.0
        """the largest one of a file in this machine's page cache before its first pass; None: unknown"""
        self._looked_at: set[str] = set()
        self._job, self._parameters = job, parameters
        self._pattern = parameters["pattern"]
        self._random = numpy.random.default_rng([parameters["seed"], job.number])

    def run(self) -> None:
        analyse = self._scan if self._pattern == "scan" else self._navigate
        while not self._job.stopping:
            for file in self._parameters["files"]:
                self.dropped = self._job.storage.forget(file["name"]) and self.dropped
                self._look_at_cache(file["name"])
                with self.opened(file["name"]) as tree:
                    analyse(tree, file)
                if self._job.stopping:
                    return

    def _look_at_cache(self, name: str) -> None:
        """Some pages cannot be dropped, such as those that another process has mapped."""
        path = self._job.storage.local_path(name)
        if path is None or name in self._looked_at:
            return
        self._looked_at.add(name)
        share, before = cached_share(path), self.cached_share
        self.cached_share = None if share is None or before is None else max(share, before)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """The tree of a file. Raises PenstockError that names the file for whatever uproot raises."""
        try:
            with self._job.storage.open(name) as stored:
                size = self._job.storage.size(name)
                read = self._reader(stored, size)
                source = source_of(read, size, self._parameters["vector_reads"])
                with uproot.open(name, handler=source, object_cache=None, array_cache=None) as file:
                    yield file[TREE]
        except PenstockError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {one_short_line(str(error))}"
            raise PenstockError(
                f"{self._job.storage.place}/{name} cannot be read as a ROOT file: {said}", "check the storage"
            ) from error

    def _reader(self, stored: Any, size: int) -> Callable[[list[Range]], list[bytes]]:
        ahead = self._parameters["read_ahead"]
        read: Callable[[list[Range]], list[bytes]] = (
            ReadAhead(stored, size, ahead, self._job.storage.counts).read_ranges
            if ahead
            else lambda ranges: read_ranges(stored, ranges)
        )

        def timed(ranges: list[Range]) -> list[bytes]:
            with self._job.spending(_STORAGE):
                return read(ranges)

        return timed

    def _scan(self, tree: Any, file: dict[str, Any]) -> None:
        """If it is stopped before the end, what it has read is compared."""
        found, needed = Found(), self._needed(tree)
        for start in range(0, tree.num_entries, STEP_EVENTS):
            stop = min(start + STEP_EVENTS, tree.num_entries)
            arrays = tree.arrays(list(SCAN), entry_start=start, entry_stop=stop, library="ak")
            scan(found, arrays, numpy.arange(start, stop, dtype=numpy.uint64))
            self.needed_bytes += sum(needed.of(name, start, stop) for name in SCAN)
            self._job.done(stop - start)
            if self._job.stopping and stop < tree.num_entries:
                self._compare_begin(file, found, stop)
                return
        self._compare(file, found, tree.num_entries)

    def _navigate(self, tree: Any, file: dict[str, Any]) -> None:
        """Jumps in an order that is drawn anew in each pass."""
        found, needed, count = Found(), self._needed(tree), tree.num_entries
        selected = chosen(tree[INDEX].array(library="np"))
        self.needed_bytes += needed.of(INDEX, 0, count)
        done, events, order = 0, [], self._random.permutation(selected)
        for number, at in enumerate(order.tolist(), 1):
            events.append(tree.arrays(list(JUMP), entry_start=at, entry_stop=at + 1, library="ak"))
            if len(events) == _VISITED_TOGETHER or number == len(order):
                visit(found, awkward.concatenate(events), order[number - len(events) : number])
                events = []
            self.needed_bytes += sum(needed.of(name, at, at + 1) for name in JUMP)
            due = count * number // len(selected)
            self._job.done(due - done)
            done = due
            if self._job.stopping and number < len(selected):
                return
        self._compare(file, found, count)

    def _needed(self, tree: Any) -> "_Needed":
        return _NeededPages(tree) if self._parameters["format"] == "rntuple" else _NeededBaskets(tree)

    def _compare(self, file: dict[str, Any], found: Found, events: int) -> None:
        truth = Found(**file["truth"][self._pattern])
        self.compared += 1
        wrong = found.differences(truth)
        if events != file["truth"]["events"]:
            wrong.append(f"{events} events of {file['truth']['events']}")
        self._note(file, ", ".join(wrong))

    def _compare_begin(self, file: dict[str, Any], found: Found, events: int) -> None:
        """Of a pass that was stopped after whole steps."""
        self.compared += 1
        truth = file["truth"]["steps"][events // STEP_EVENTS - 1 :]
        self._note(file, "" if truth[:1] == [found.digest] else f"the first {events} events")

    def _note(self, file: dict[str, Any], wrong: str) -> None:
        if wrong and len(self.wrong) < _WRONG_MAX:
            self.wrong.append(f"{file['name']}: {wrong}")


class _Needed:
    """Stored bytes of the parts that events are in, each counted once in a pass."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._seen: set[tuple[str, int]] = set()
        self._parts: dict[str, tuple[list[int], list[int]]] = {}

    def of(self, name: str, start: int, stop: int) -> int:
        if name not in self._parts:
            self._parts[name] = self._parts_of(name)
        edges, sizes = self._parts[name]
        total, part = 0, bisect.bisect_right(edges, start) - 1
        while part < len(sizes) and edges[part] < stop:
            if (name, part) not in self._seen:
                self._seen.add((name, part))
                total += sizes[part]
            part += 1
        return total

    @abstractmethod
    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        """First entries of the parts and the end, and the bytes of each."""


class _NeededBaskets(_Needed):
    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        branch = self._tree[name]
        edges = [int(each) for each in branch.entry_offsets]
        return edges, [int(each) for each in branch.member("fBasketBytes")[: len(edges) - 1]]


class _NeededPages(_Needed):
    """Pages of the columns of a field, cluster by cluster: uproot reads whole clusters."""

    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        clusters, columns = self._tree.cluster_summaries, self._columns_of(name)
        edges = [*(int(each.num_first_entry) for each in clusters), int(self._tree.num_entries)]
        pages = ([links[column].pages for column in columns] for links in self._tree.page_link_list)
        sizes = [
            sum(int(page.locator.num_bytes) for of_column in each for page in of_column) for each in pages
        ]
        return edges, sizes

    def _columns_of(self, name: str) -> list[int]:
        fields: set[int] = set()
        for number, field in enumerate(self._tree.field_records):  # one that is inside another one follows it
            is_top = field.parent_field_id == number
            if (is_top and field.field_name == name) or (not is_top and field.parent_field_id in fields):
                fields.add(number)
        return [
            number for number, column in enumerate(self._tree.column_records) if column.field_id in fields
        ]
