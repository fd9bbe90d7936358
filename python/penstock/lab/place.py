"""The folders and files of a laboratory, all found by its name."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.lab.mounts import remove_tree
from penstock.lab.user import (
    folders_of_laboratories,
    is_own_folder,
    make_folder_of_laboratories,
    make_own_folder,
    ordinary_user,
)
from penstock.model.errors import PenstockError, UsageError
from penstock.model.laboratories import FOLDER_OF_ROOT

ROOTS = folders_of_laboratories()
ROOT = ROOTS[0]
DISKS = Path("/var/tmp/penstock-lab")
MARK = ".penstock-lab"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,29}")


@dataclass(frozen=True)
class Place:
    name: str
    root: Path = ROOT

    @property
    def folder(self) -> Path:
        """Configurations, logs, mount points and namespaces."""
        return self.root / self.name

    @property
    def socket(self) -> Path:
        return self.folder / "control"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def log(self) -> Path:
        return self.folder / "supervisor.log"

    @property
    def pool(self) -> str:
        """Name of its pool or array in the kernel, which all laboratories share."""
        return f"penstock-{self.name}"

    @property
    def label(self) -> str:
        """Names its folders where other users have some, too."""
        user = ordinary_user()
        return f"penstock-lab-{self.name}" if user is None else f"penstock-lab-{user}-{self.name}"

    @property
    def namespaces(self) -> Path:
        """Of its networks, as mounted files."""
        return self.folder / "net"

    @property
    def _links(self) -> Path:
        return self.folder / "elsewhere"

    def make_elsewhere(self, folder: Path) -> Path:
        """A new folder for data, which belongs to the laboratory; returns it without links.

        Replaces one that a reboot left of the same laboratory. Raises UsageError if it is another one that
        exists, its parent does not exist, or it lies in a laboratory.
        """
        if folder.parent == DISKS:
            make_own_folder(DISKS, 0o700, "remove it, or choose another --folder")
        try:
            own = folder.parent.resolve(strict=True) / folder.name
        except OSError as error:
            raise UsageError(f"--folder: {folder.parent} does not exist", "create it") from error
        if any(map(own.is_relative_to, ROOTS)) or any((above / MARK).exists() for above in own.parents):
            raise UsageError(f"{own} lies in a laboratory", "choose another --folder")
        self._links.mkdir(exist_ok=True)
        link = self._links / str(len(list(self._links.iterdir())))
        # The link is first, so that a folder is never left behind; the mark tells it from a user's.
        link.symlink_to(own)
        try:
            if _name_of_orphan(own) == self.name:
                remove_tree(own, MARK)
            own.mkdir(mode=0o755 if ordinary_user() is None else 0o700)
            self._mark(own)
        except FileExistsError as error:
            link.unlink()
            raise UsageError(f"{own} exists already", "choose another --folder") from error
        except OSError as error:
            raise UsageError(
                f"{own} cannot be made: {error.strerror or error}", "choose another --folder"
            ) from error
        return own

    def _mark(self, folder: Path) -> None:
        """Locks the mark until this process ends: a folder whose mark nobody locks may be an orphan."""
        mark = os.open(folder / MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks: it has no orphans
            fcntl.flock(mark, fcntl.LOCK_EX)
        os.write(mark, self.name.encode())

    def links(self) -> list[tuple[Path, Path]]:
        """Links to folders of data that belong to the laboratory; one of a user may have the same name."""
        try:
            found = [(link, link.readlink()) for link in self._links.iterdir()]
        except FileNotFoundError:
            return []
        return [(link, folder) for link, folder in found if self._owns(folder)]

    def _owns(self, folder: Path) -> bool:
        """Whether its mark is there, which is alone in its folder if it could not be written.

        Of a folder that somebody removed, loop devices may be left.
        """
        try:
            mark = (folder / MARK).read_text(encoding="utf-8")
            return mark == self.name or (not mark and [each.name for each in folder.iterdir()] == [MARK])
        except FileNotFoundError:
            return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        except OSError:
            return False

    def orphans(self) -> list[Path]:
        """Folders of data in the default places after a reboot, which removes the links to them."""
        return [folder for name, folder in _orphans() if name == self.name]

    def exists(self) -> bool:
        """Whether something of it is there, up or left behind."""
        return self.folder.exists() or bool(self.orphans())

    @property
    def lock(self) -> Path:
        return self.root / f".{self.name}.lock"


def place_of(name: str) -> Place:
    """Raises UsageError for a name that is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a laboratory",
            "use up to 30 lower-case letters, digits and hyphens, the first one a letter",
        )
    there = [Place(name, root) for root in _roots()]
    return next((each for each in there if each.folder.exists() or each.lock.exists()), Place(name))


def _roots() -> list[Path]:
    """Those in which no other user could have put something."""
    return [root for root in ROOTS if is_own_folder(root)]


def own_root_of(path: Path) -> Path | None:
    """Returns the user's own folder of laboratories in which a path lies."""
    return next((each for each in ROOTS if path.is_relative_to(each) and path != each), None)


def root_of(path: Path) -> Path | None:
    """Returns the folder of laboratories in which a path lies, the user's own or root's; None: neither."""
    of_root = path.is_relative_to(FOLDER_OF_ROOT) and path != FOLDER_OF_ROOT
    return own_root_of(path) or (FOLDER_OF_ROOT if of_root else None)


def places() -> list[Place]:
    """Of laboratories that are up, and of what others left behind."""
    names = {each.name for root in _roots() for each in root.iterdir() if each.is_dir()}
    names |= {name for name, _ in _orphans()}
    return [place_of(name) for name in sorted(names) if _NAME.fullmatch(name)]


def _orphans() -> list[tuple[str, Path]]:
    """Each with the name of its laboratory."""
    disks = DISKS.glob("*") if is_own_folder(DISKS) else []
    folders = [*disks, *DISKS.parent.glob(f"{DISKS.name}-*")]
    found = [(_name_of_orphan(folder), folder) for folder in folders]
    return [(name, folder) for name, folder in found if name]


def _name_of_orphan(folder: Path) -> str:
    """Returns the name in the mark of this user's folder; empty: without a mark, or in use."""
    try:
        if not is_own_folder(folder):
            return ""
        with (folder / MARK).open(encoding="utf-8") as mark:
            return mark.read() if is_free(mark.fileno()) else ""
    except (OSError, ValueError):
        return ""


def locked(place: Place) -> int | None:
    """Returns a descriptor that holds the lock as long as a process has it; None if it is held already."""
    make_folder_of_laboratories(place.root)
    while True:
        descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if holds(place, descriptor):
            return descriptor
        os.close(descriptor)  # its holder has removed the file


def is_up(place: Place) -> bool:
    """Whether a supervisor or its guard lives."""
    if not place.lock.exists():
        return False
    descriptor = locked(place)
    if descriptor is None:
        return True
    forget_lock(place, descriptor)
    os.close(descriptor)
    return False


@contextmanager
def lock_in_use(place: Place) -> Iterator[int | None]:
    """A descriptor of the lock, also after its file is removed; None if no supervisor or guard has it."""
    try:
        descriptor = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield None if is_free(descriptor) else descriptor
    finally:
        os.close(descriptor)


def is_free(descriptor: int) -> bool:
    """Whether no other process holds the lock of this descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def holds(place: Place, descriptor: int) -> bool:
    """Whether the lock file is that of this descriptor, and not of a later laboratory of the name."""
    try:
        return os.fstat(descriptor).st_ino == place.lock.stat().st_ino
    except FileNotFoundError:
        return False


def forget_lock(place: Place, descriptor: int) -> None:
    """Removes the lock file at the end. The caller holds the lock."""
    if holds(place, descriptor):
        place.lock.unlink(missing_ok=True)


@contextmanager
def alone_at(place: Place, patience_s: float = 0.0) -> Iterator[None]:
    """Locks out other commands. Raises PenstockError if another one still has the lock then."""
    deadline = time.monotonic() + patience_s
    while (descriptor := locked(place)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if descriptor is None:
        raise PenstockError(f"laboratory {place.name} is being brought up or taken down", "try again")
    try:
        yield
    finally:
        forget_lock(place, descriptor)
        os.close(descriptor)
