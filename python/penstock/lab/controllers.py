"""Controllers of the root group that laboratories switch on, and the last of them switches off again.

The group of all laboratories remembers which ones were off before, in an extended attribute, which ends with
the group: it is right after a `kill -9`, too. Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst;
xattr(7), since Linux 5.7 for groups.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.lab.user import make_folder_of_laboratories
from penstock.model.laboratories import FOLDER_OF_ROOT

_SWITCHED_ON = "user.penstock.switched_on"
_NO_SETTINGS = (".pressure", ".peak")
"""ends of names of files that can be written, but hold measurements"""


class Controllers:
    """Of control groups of version 2. `tree` is the group of all laboratories, a child of the root group."""

    def __init__(self, tree: Path, names: Sequence[str] = ("cpu", "memory", "io")) -> None:
        self._root, self._tree, self._names = tree.parent, tree, names

    def make(self, group: Path) -> None:
        """Makes a group in the tree, with the controllers that the kernel gives it."""
        with _alone():
            group.mkdir(parents=True, exist_ok=True)
            off_before = set(self._names) - _words(self._root / "cgroup.subtree_control")
            for above in reversed(group.relative_to(self._root).parents):
                for name in self._names:
                    _switch(self._root / above, f"+{name}")
            switched_on = off_before & _words(self._root / "cgroup.subtree_control")
            with contextlib.suppress(OSError):  # an older kernel: they stay on
                words = " ".join(sorted(switched_on | self._switched_on()))
                os.setxattr(self._tree, _SWITCHED_ON, words.encode())

    def end(self) -> None:
        """Removes the tree after the last laboratory, and switches off what no other group uses."""
        with _alone(), contextlib.suppress(FileNotFoundError):
            if any(each.is_dir() for each in self._tree.iterdir()):
                return
            for name in self._switched_on():
                _switch(self._tree, f"-{name}")
                if not self._is_used(name):
                    _switch(self._root, f"-{name}")  # the kernel refuses if another group hands it on
            self._tree.rmdir()

    def _switched_on(self) -> set[str]:
        try:
            return set(os.getxattr(self._tree, _SWITCHED_ON).decode().split())
        except OSError:
            return set()

    def _is_used(self, name: str) -> bool:
        """Whether a setting of another group is not that of the tree, which has the kernel's."""
        settings = [
            file
            for file in self._tree.glob(f"{name}.*")
            if file.stat().st_mode & 0o600 == 0o600 and not file.name.endswith(_NO_SETTINGS)
        ]
        others = [each for each in self._root.iterdir() if each.is_dir() and each != self._tree]
        return any(_text(other / file.name) != _text(file) for other in others for file in settings)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Locks out other laboratories. Only root may open the folder."""
    make_folder_of_laboratories(FOLDER_OF_ROOT)
    folder = os.open(FOLDER_OF_ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _switch(group: Path, change: str) -> None:
    """Version 1 may have a controller, or a service manager may keep it to itself."""
    with contextlib.suppress(OSError):
        (group / "cgroup.subtree_control").write_text(change)


def _words(file: Path) -> set[str]:
    return set(file.read_text(encoding="ascii").split())


def _text(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text(encoding="ascii")
    return ""
