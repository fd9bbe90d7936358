"""What of a buffer's load a storage sustains, and what it would fail at first."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.bench.science.uvbuffer.buffer import (
    FULL_BYTES,
    FULL_FILES,
    FULL_LIFE_S,
    FULL_WRITE_BYTES_PER_S,
    PASSES,
    Buffer,
)
from penstock.bench.science.uvbuffer.tally import CREATE, DELETE, LIST, OPEN, OWN, READ, WRITE

SUSTAINED_SHARE = 0.97
CAPACITY, LISTING = "capacity", "directory listings"
_DIGITS = 3
_FULL_FILES_PER_S = FULL_FILES / FULL_LIFE_S

Role = Literal["write", "read", "delete"]
KINDS: tuple[tuple[str, Role, str, bool], ...] = (
    ("creates", "write", CREATE, False),
    ("write bandwidth", "write", WRITE, True),
    ("opens", "read", OPEN, False),
    ("read bandwidth", "read", READ, True),
    ("deletes", "delete", DELETE, False),
)


@dataclass(frozen=True)
class Kind:
    """Operations of one kind. `busy`: share of the time of its processes that went into them.

    Rates are operations, or with `is_bytes` bytes, per second.
    """

    name: str
    role: Role
    is_bytes: bool
    target_per_s: float
    done_per_s: float
    busy: float
    full_per_s: float

    @property
    def share(self) -> float:
        return min(1.0, self.done_per_s / self.target_per_s)

    @property
    def storages(self) -> float:
        """Such storages for the full case, each with what this one did."""
        return _extrapolated(self.full_per_s / self.done_per_s) if self.done_per_s > 0 else math.inf


@dataclass(frozen=True)
class Limits:
    kinds: list[Kind]
    own_busy: dict[str, float]
    """of the processes of each role: what they do themselves"""
    listing_busy: float = 0.0
    """of the deleter, which lists the directory"""

    @property
    def sustained(self) -> float:
        return min(kind.share for kind in self.kinds)

    @property
    def is_sustained(self) -> bool:
        return self.sustained >= SUSTAINED_SHARE

    @property
    def first(self) -> Kind:
        """Of the role that has the least time left: that for which most of it goes.

        Processes that wait for others, such as readers of files that are not written yet, have time. Those
        that reach their rates are the limit of nothing, unless all do.
        """
        behind = {kind.role for kind in self.kinds if kind.share < SUSTAINED_SHARE}
        role = max(behind or self.own_busy, key=self._busy)
        return max(self._of(role), key=lambda kind: kind.busy)

    @property
    def headroom(self) -> float:
        """How many times the load would take all the time of one role's processes."""
        first = self.first
        return first.share / max(1e-9, self._busy(first.role))

    @property
    def own_share(self) -> float:
        """Of the busiest role's time, what does not go to the storage."""
        role = self.first.role
        return self.own_busy[role] / max(1e-9, self._busy(role))

    def _busy(self, role: str) -> float:
        return self.own_busy[role] + sum(kind.busy for kind in self._of(role))

    def _of(self, role: str) -> list[Kind]:
        """Deletes wait for the listing, which has no rate of its own: its rates are those of deletes."""
        kinds = [kind for kind in self.kinds if kind.role == role]
        listing = [replace(kind, name=LISTING, busy=self.listing_busy) for kind in kinds if role == "delete"]
        return [*kinds, *listing]


@dataclass(frozen=True)
class Needed:
    """Such storages for the full case, by what decides: a kind of operation, or the capacity."""

    by_name: dict[str, float]

    @property
    def decides(self) -> str:
        return max(self.by_name, key=lambda name: self.by_name[name])

    @property
    def most(self) -> float:
        """Infinite if a kind of operation was never done."""
        return self.by_name[self.decides]


def needed_by(limits: Limits, capacity_bytes: int) -> Needed:
    of_kinds = {kind.name: kind.storages for kind in limits.kinds}
    return Needed(of_kinds | {CAPACITY: _extrapolated(FULL_BYTES / max(1, capacity_bytes))})


def _extrapolated(count: float) -> float:
    """Rounds up, to as many digits as an extrapolation has."""
    whole = math.ceil(count)
    step = int(10 ** max(0, len(str(whole)) - _DIGITS))
    return math.ceil(whole / step) * step


def limits_of(buffer: Buffer, results: Iterable[dict[str, Any]]) -> Limits:
    """`results`: what the processes returned."""
    done: Counter[str] = Counter()
    taken_s: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        done[result["role"]] += result["counts"].get("done", 0)
        taken_s[result["role"]].update(result["taken_s"])
    begin, end = buffer.window
    workers = {"write": buffer.writers, "read": buffer.readers, "delete": 1}

    def busy(role: str, operation: str) -> float:
        return taken_s[role][operation] / (end - begin) / workers[role]

    kinds = []
    for name, role, operation, is_bytes in KINDS:
        passes, unit = PASSES if role == "read" else 1, buffer.file_bytes if is_bytes else 1
        full = FULL_WRITE_BYTES_PER_S if is_bytes else _FULL_FILES_PER_S
        kinds.append(
            Kind(
                name=name,
                role=role,
                is_bytes=is_bytes,
                target_per_s=buffer.files_per_s * passes * unit,
                done_per_s=done[role] / (end - begin) * unit,
                busy=busy(role, operation),
                full_per_s=full * passes,
            )
        )
    return Limits(kinds, {role: busy(role, OWN) for role in workers}, busy("delete", LIST))
