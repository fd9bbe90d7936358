"""What a run of the load generator created, as it reports at its end: only that may be removed."""

from bisect import bisect_right
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

Ranges = list[tuple[int, int]]
"""first and last number"""


class NamesHandled(BaseModel):
    """What a thread did in a phase of a metadata workload, with its items or directories in their order."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    operation: str = Field(description="as in the phases of a document")
    tree: int = Field(ge=0)
    thread: int = Field(ge=0, description="whose items")
    done: int = Field(ge=0, description="calls that succeeded")
    attempted: int = Field(ge=0, description="`done`, or one more: the last call may have created its name")


class Made(BaseModel):
    """Files and names that exist because a run created them, and did not remove them."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    files: Ranges = []
    partial: Ranges = Field([], description="files that are not complete, with another name")
    names: list[NamesHandled] = []

    def with_more(self, more: "Made") -> "Made":
        """With what a later run created."""
        return Made(
            files=sorted(self.files + more.files),
            partial=sorted(self.partial + more.partial),
            names=self.names + more.names,
        )

    def without_files(self) -> "Made":
        return Made(names=self.names)

    def has_file(self, number: int, partial: bool) -> bool:
        ranges = self.partial if partial else self.files
        at = bisect_right(ranges, number, key=lambda each: each[0])
        return any(first <= number <= last for first, last in ranges[max(0, at - 2) : at])

    def trees(self) -> "dict[int, MadeTree]":
        found: dict[int, MadeTree] = {}
        for each in self.names:
            found.setdefault(each.tree, MadeTree()).apply(each)
        return found


class MadeTree:
    """What is there of one tree: its directories, and the items of each thread."""

    def __init__(self) -> None:
        self.folders = 0
        """the first ones of its directories, in their order"""
        self._items: dict[tuple[str, int], _Span] = {}

    def has_item(self, letter: str, thread: int, number: int) -> bool:
        """`number` counts the thread's items in all directories, in their order."""
        span = self._items.get((letter, thread))
        return span is not None and span.first <= number < span.end

    def apply(self, names: NamesHandled) -> None:
        kind, _, what = names.operation.partition("_")
        if kind == "tree":
            self.folders = names.attempted if what == "create" else self.folders - names.done
            return
        plain, renamed = _LETTERS[kind]
        if what == "remove":
            letter = renamed if (renamed, names.thread) in self._items else plain
            self._span(letter, names.thread).first = names.done
            return
        if what == "rename":
            self._span(plain, names.thread).first = names.done
        self._items[renamed if what == "rename" else plain, names.thread] = _Span(0, names.attempted)

    def _span(self, letter: str, thread: int) -> "_Span":
        return self._items.setdefault((letter, thread), _Span(0, 0))


_LETTERS = {"folder": ("d", "e"), "file": ("f", "g")}


@dataclass
class _Span:
    first: int
    end: int
