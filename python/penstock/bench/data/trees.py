"""Trees of folders that a metadata workload makes, and their removal: what is not of them stays."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from penstock.bench.data.marks import is_marked
from penstock.model.bench.load import MetadataWorkload
from penstock.model.bench.made import MadeTree

_ITEM = re.compile(r"([defg])([0-9]{3}|[1-9][0-9]{3,4})-([0-9]{9})")
_FOLDER = re.compile(r"t(0|[1-9][0-9]{0,4})")
_FILE_LETTERS = "fg"
_LARGE_BYTES = 1 << 20
_THREADS, _AT_ONCE = 4, 1024


class TreeSet(BaseModel):
    """Folders called PREFIX000000000 up to, and without, number `count`, with one workload's names in them.

    `native/load/workloads/tree.hpp` has the same names.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    prefix: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*-$", max_length=40)
    count: int = Field(ge=0, le=10**9)
    depth: int = Field(ge=0, le=20)
    branch: int = Field(ge=1, le=10_000)
    threads: int = Field(ge=1, le=65536)
    items: int = Field(ge=1, le=10**9)

    @classmethod
    def of(cls, workload: MetadataWorkload, prefix: str, ranks: int = 1) -> Self:
        return cls(
            prefix=prefix,
            count=workload.iterations * workload.trees(ranks),
            depth=workload.depth,
            branch=workload.branch,
            threads=ranks * workload.threads,
            items=workload.items,
        )

    def has(self, name: str) -> bool:
        match = re.fullmatch(re.escape(self.prefix) + r"([0-9]{9})", name)
        return match is not None and int(match[1]) < self.count

    def remove(
        self, parent: int, name: str, made: dict[int, MadeTree] | None = None, marked: bool = False
    ) -> Iterator[str]:
        """Removes a tree in the folder with the descriptor `parent`; yields the paths of what is not its own.

        A folder with such a thing in it stays. Descriptors are followed, no links. `made`: trees that the
        run reported, by number; None removes whatever the tree's names allow. `marked`: only what has the
        permissions of a run.
        """
        tree = made.get(int(name.removeprefix(self.prefix)), MadeTree()) if made is not None else None
        yield from _Removal(self, tree, marked).remove(parent, name, _Place(0, 0))


@dataclass(frozen=True)
class _Place:
    """A folder of a tree, by its depth and its number in the order in which folders are made."""

    level: int
    number: int

    def inside(self, child: int, branch: int) -> "_Place":
        return _Place(self.level + 1, self.number * branch + child + 1)


@dataclass(frozen=True)
class _Removal:
    trees: TreeSet
    made: MadeTree | None
    marked: bool

    def remove(self, parent: int, name: str, place: _Place) -> Iterator[str]:
        if self.made is not None and place.number >= self.made.folders:
            yield name
            return
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except NotADirectoryError:  # a file, or a link
            yield name
            return
        try:
            foreign = self.marked and not is_marked(os.fstat(folder))
            if foreign:
                yield name
                return
            for path in self._remove_inside(folder, place):
                foreign = True
                yield f"{name}/{path}"
        finally:
            os.close(folder)
        if not foreign:
            os.rmdir(name, dir_fd=parent)

    def _remove_inside(self, folder: int, place: _Place) -> Iterator[str]:
        for name in names_in(folder):
            inner = _FOLDER.fullmatch(name)
            if inner is not None and place.level < self.trees.depth and int(inner[1]) < self.trees.branch:
                yield from self.remove(folder, name, place.inside(int(inner[1]), self.trees.branch))
            elif not self._has_item(name, place):
                yield name
            elif name[0] in _FILE_LETTERS:
                if not remove_file(folder, name, self.marked):
                    yield name
            else:
                yield from _remove_empty(folder, name, self.marked)

    def _has_item(self, name: str, place: _Place) -> bool:
        match = _ITEM.fullmatch(name)
        if match is None:
            return False
        thread, item = int(match[2]), int(match[3])
        if thread >= self.trees.threads or item >= self.trees.items:
            return False
        number = place.number * self.trees.items + item
        return self.made is None or self.made.has_item(match[1], thread, number)


def names_in(folder: int) -> list[str]:
    """Of an open folder."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def remove_files(folder: int, names: list[str], marked: bool) -> None:
    """Several at a time where there are many: file systems that discard blocks wait for the disk."""
    remove = partial(remove_file, folder, marked=marked)
    if len(names) <= _AT_ONCE:
        for name in names:
            remove(name)
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        for first in range(0, len(names), _AT_ONCE):
            list(threads.map(remove, names[first : first + _AT_ONCE]))


def remove_file(folder: int, name: str, marked: bool) -> bool:
    """Only a regular one with no second name: anything else was put there by somebody else.

    `marked`: so was one without the permissions of a run.
    """
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or (marked and not is_marked(status)):
        return False
    if status.st_size < _LARGE_BYTES:
        os.unlink(name, dir_fd=folder)
    else:
        _remove_large(folder, name)
    return True


def _remove_large(folder: int, name: str) -> None:
    """Frees its space at once: a client of MooseFS keeps that of a removed file for minutes.

    It is emptied only when it has no name any more: it may be a mount point, or get a second name meanwhile.
    """
    file = -1
    with contextlib.suppress(OSError):
        file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        os.unlink(name, dir_fd=folder)
        if file >= 0 and os.fstat(file).st_nlink == 0:
            os.ftruncate(file, 0)
    finally:
        if file >= 0:
            os.close(file)


def _remove_empty(folder: int, name: str, marked: bool) -> Iterator[str]:
    with contextlib.suppress(OSError):
        if not marked or is_marked(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            os.rmdir(name, dir_fd=folder)
            return
    yield name
