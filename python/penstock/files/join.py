"""A file that shows several series' files as its entries: links, no pixels."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import h5py

from penstock.files.aside import aside, require_file, run_aside
from penstock.files.hdf5 import attribute_of, item_at, open_for_reading, value_of
from penstock.files.inspect import end_time_place
from penstock.files.links import JOINED
from penstock.files.members import completion_of, refuse_part
from penstock.files.naming import give_name
from penstock.files.unfinished import unfinished
from penstock.files.values.attach import is_attached
from penstock.files.writable import require_writable
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of
from penstock.model.text import counted

_ENTRIES_MAX = 65536


@dataclass
class JointFile:
    """The series in it, in the order in which they were added: entry_1, entry_2, …"""

    path: Path
    extends: bool = False  # what others have added meanwhile is kept
    targets: list[tuple[str, str]] = field(default_factory=list)  # file, as the link has it, and entry

    @classmethod
    def open(cls, path: Path, *, add: bool) -> "JointFile":
        """What exists already, if `add`. A UsageError where `path` is a file that must stay as it is."""
        if not os.path.lexists(path):
            return cls(path, add)
        if not add:
            raise UsageError(
                f"{path} exists already and is not overwritten",
                "name a new file, or give --add to add entries to a file of `penstock join`",
            )
        path = path.resolve()  # of a link the file behind it is meant
        return cls(path, add, _targets_in(path))

    def add(self, files: list[Path]) -> int:
        """Writes the file anew, with these behind the others, and replaces it in one step.

        Whoever has it open keeps what was there. A file that is in it already stays where it is: returns how
        many these were. Others that add to it at the same time wait for each other.
        """
        require_writable(self.path.parent)
        added = [(self._seen_from_here(path), _entry_of(path)) for path in files]
        with _one_at_a_time(self.path.parent):
            if self.extends and os.path.lexists(self.path):
                self.targets = _targets_in(self.path)
            together = [*self.targets, *added]
            self._replace(list(dict.fromkeys(together)))
            return len(together) - len(self.targets)

    def _replace(self, targets: list[tuple[str, str]]) -> None:
        if len(targets) > _ENTRIES_MAX:
            raise UsageError(
                f"{counted(len(targets), 'entry', 'entries')} exceed the maximum of {_ENTRIES_MAX}",
                "make another file",
            )
        before = self.path if self.targets else None
        try:
            with unfinished([self.path]) as names:
                new = names[self.path]
                run_aside(before or new, lambda: _write(new, self.path, targets, before))
                if self.targets:
                    new.replace(self.path)
                else:
                    give_name(new, self.path)  # fails where somebody was quicker
        except OSError as error:
            raise PenstockError(
                f"{self.path} cannot be written: {reason_of(error)}",
                "check the free space and the permissions of the folder",
            ) from error
        self.targets = targets

    def _seen_from_here(self, path: Path) -> str:
        """Relative, so that the files can be moved together."""
        require_file(path)
        if path.resolve() == self.path.resolve():
            raise UsageError(f"{path} cannot be an entry of itself", "name other files")
        return os.path.relpath(path.resolve(), self.path.parent.resolve())


@aside
def _targets_in(path: Path) -> list[tuple[str, str]]:
    with open_for_reading(path) as file:
        if attribute_of(file, JOINED) is None:
            raise UsageError(f"{path} was not made by `penstock join`", "give another name")
        links = [file.get(f"entry_{number + 1}", getlink=True) for number in range(len(file))]
    if not all(isinstance(link, h5py.ExternalLink) for link in links):
        raise UsageError(f"{path} has entries that are not links", "give another name")
    return [(link.filename, link.path) for link in links]


@aside
def _entry_of(path: Path) -> str:
    with open_for_reading(path) as file:
        refuse_part(file, path)
        entries = [name for name in file if attribute_of(item_at(file, name), "NX_class") == "NXentry"]
        if len(entries) != 1:
            raise UsageError(
                f"{path} has {counted(len(entries), 'group')} NXentry, expected one", "name files of series"
            )
        if is_attached(file):
            raise UsageError(
                f"{path} has values of `penstock attach`, but no series",
                "name the files of the series",
            )
        if all(value_of(file, place) is None for place in (f"{entries[0]}/end_time", end_time_place(file))):
            raise UsageError(
                f"{path} is not complete: its series has not ended",
                completion_of(file, path),
            )
        return f"/{entries[0]}"


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Of those who add to files of a folder; on other machines where the file system knows locks."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(new: Path, path: Path, targets: list[tuple[str, str]], before: Path | None) -> None:
    """Writes `path` under the name `new`. The root's attributes of `before` may be others than Penstock's."""
    attributes = {}
    if before is not None:
        with open_for_reading(before) as old:
            attributes = dict(old.attrs.items())
    with _explained(path), h5py.File(new, "x", libver=("v110", "v110")) as file:
        for name, value in ({"NX_class": "NXroot", "default": "entry_1"} | attributes).items():
            file.attrs[name] = value
        file.attrs[JOINED] = len(targets)
        for number, (name, entry) in enumerate(targets, 1):
            file[f"entry_{number}"] = h5py.ExternalLink(name, entry)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PenstockError(
            f"{path} cannot be written: {reason_of(error)}",
            "check the free space and the permissions of the folder",
        ) from error
