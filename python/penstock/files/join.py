"""A file that shows several series' files as its entries: links, no pixels."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import h5py

from penstock.files.hdf5 import attribute_of, item_at, open_for_reading, require_file, value_of
from penstock.files.inspect import JOINED
from penstock.model.errors import PenstockError, UsageError

_ENTRIES_MAX = 65536


@dataclass
class JointFile:
    """The series in it, in the order in which they were added: entry_1, entry_2, …"""

    path: Path
    targets: list[tuple[str, str]] = field(default_factory=list)  # file, as the link has it, and entry

    @classmethod
    def open(cls, path: Path, *, add: bool) -> "JointFile":
        """What is there already, if `add`. A UsageError where `path` is a file that must stay as it is."""
        if not os.path.lexists(path):
            return cls(path)
        if not add:
            raise UsageError(f"{path} is there already and is not overwritten", "give another name, or --add")
        with open_for_reading(path) as file:
            if attribute_of(file, JOINED) is None:
                raise UsageError(f"{path} was not made by `penstock join`", "give another name")
            links = [file.get(f"entry_{number + 1}", getlink=True) for number in range(len(file))]
        if not all(isinstance(link, h5py.ExternalLink) for link in links):
            raise UsageError(f"{path} has entries that are not links", "give another name")
        return cls(path, [(link.filename, link.path) for link in links])

    def add(self, files: list[Path]) -> None:
        """Writes the file anew, with these behind the others, and replaces it in one step.

        Whoever has it open keeps what was there. A file that is in it already stays where it is.
        """
        targets = list(self.targets)
        for path in files:
            target = (self._seen_from_here(path), _entry_of(path))
            if target not in targets:
                targets.append(target)
        if len(targets) > _ENTRIES_MAX:
            raise UsageError(
                f"{len(targets)} entries; at most {_ENTRIES_MAX} are possible", "make another file"
            )
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        try:
            _write(unfinished, targets)
            if self.targets:
                unfinished.replace(self.path)
            else:
                os.link(unfinished, self.path)  # fails where somebody was quicker
        except OSError as error:
            raise PenstockError(
                f"{self.path} cannot be written: {error}", "is there space, and may the folder be written?"
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)
        self.targets = targets

    def _seen_from_here(self, path: Path) -> str:
        """Relative, so that the files can be moved together."""
        require_file(path)
        if path.resolve() == self.path.resolve():
            raise UsageError(f"{path} would be an entry of itself", "name other files")
        return os.path.relpath(path.resolve(), self.path.parent.resolve())


def _entry_of(path: Path) -> str:
    with open_for_reading(path) as file:
        entries = [name for name in file if attribute_of(item_at(file, name), "NX_class") == "NXentry"]
        if len(entries) != 1:
            raise UsageError(
                f"{path} has {len(entries)} groups NXentry; one is expected", "name files of series"
            )
        if value_of(file, f"{entries[0]}/end_time") is None:
            raise UsageError(
                f"{path} is not complete: its series has not ended",
                "wait for its end, or complete it with `penstock recover`",
            )
        return f"/{entries[0]}"


def _write(path: Path, targets: list[tuple[str, str]]) -> None:
    with h5py.File(path, "x", libver=("v110", "v110")) as file:
        file.attrs["NX_class"] = "NXroot"
        file.attrs[JOINED] = len(targets)
        file.attrs["default"] = "entry_1"
        for number, (name, entry) in enumerate(targets, 1):
            file[f"entry_{number}"] = h5py.ExternalLink(name, entry)
