"""The directory of a run: the run creates and marks it, and removes what its manifest lists.

A run never writes into a directory that existed before, and never removes what it did not create. Names are
listed before they are used. What has such a name is the run's if it has the permissions that mark what runs
create, and if the load generator, unless it was killed, reports that it created it. `penstock bench clean`
uses the same rule for what a killed run left. The manifest is written through the directory's descriptor, so
that a link in its place redirects nothing.
"""

import contextlib
import errno
import fcntl
import math
import os
import platform
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.data.marks import create_marked, is_marked
from penstock.bench.data.trees import TreeSet, names_in, remove_files
from penstock.files.storage import find_mount
from penstock.files.writable import write_problem
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of
from penstock.model.storage_url import Place, names_url
from penstock.model.text import counted
from penstock.model.units import (
    human_bytes,
    human_percent,
    human_size,
    parse_size,
    size_at_least,
    size_within,
)
from penstock.programs.signals import signals_later

NAME = "penstock-bench-"
DATA_NAME = "penstock-data-"
"""of the directory of a data set: several runs use it, and a run leaves it"""
_NAMES = (NAME, DATA_NAME)
MANIFEST = "penstock-bench.json"
_UNFINISHED = MANIFEST + ".new"
_MANIFEST_BYTES_MAX = 64 << 20
# Of the folder of a run on another machine, whose lock cannot be seen from here.
_QUIET_S = 600.0
# Whoever makes a folder marks it at once.
_UNMARKED_S = 30.0
_LOCK_TRIES, _LOCK_PAUSE_S = 10, 0.02
# What stays free: a full file system hurts others.
RESERVE_SHARE = 0.02
RESERVE_INODES = 1000
# Of what is free besides the reserve: what a run removes, some file systems free a little later.
ROOM_SHARE = 0.9
SPACE_BYTES = 20 * 10**9
"""that the files of a step of a verdict take at most, unless --space is given"""


class FileSet(BaseModel):
    """Files PREFIX000000000.SUFFIX with numbers below `count`, and NAME.partial of each.

    Also .NAME.new, which is a file of Penstock's store until it is complete; only a killed run leaves it.

    With `parts`, also the source files of a series: PREFIX000000000_member_0.SUFFIX.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    prefix: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*-$", max_length=40)
    count: int = Field(ge=0, le=10**9)
    suffix: str = Field("bin", pattern=r"^[a-z0-9]+(\.[a-z0-9]+)?$", max_length=10)
    parts: bool = False

    def has(self, name: str, made: Made | None = None) -> bool:
        """Whether the run may have created it. `made`: what the run reported; None: nothing."""
        while_made = made is None and name.startswith(".") and name.endswith(".new")
        part = r"(?:_member_[0-9]{1,9})?" if self.parts else ""
        numbered = rf"{re.escape(self.prefix)}([0-9]{{9}}){part}\.{re.escape(self.suffix)}(\.partial)?"
        match = re.fullmatch(numbered, name[1:-4] if while_made else name)
        if match is None or int(match[1]) >= self.count or (while_made and match[2]):
            return False
        return made is None or made.has_file(int(match[1]), partial=match[2] is not None)


class Manifest(BaseModel):
    """What a run may have written into its directory."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    format: Literal["penstock-bench 1"] = "penstock-bench 1"
    made: str
    name: str
    inode: int = Field(description="ID of the directory, which copies do not share")
    host: str = Field("", description="where the run was started")
    pid: int = Field(0, ge=0, description="of the command")
    bytes: int = Field(0, ge=0, description="that its files take at most at once, as far as it is known")
    kept: bool = Field(False, description="it was to stay")
    marks: bool = Field(False, description="the file system keeps the permissions that mark a run's files")
    sets: list[FileSet] = []
    trees: list[TreeSet] = []
    created: dict[str, Made] = Field({}, description="by prefix: what was created; without one it is unknown")
    in_the_way: str = Field(
        "",
        description="entry of the user's that had a name of the run; older versions wrote it, and remove"
        " nothing then",
    )


class BenchFolder:
    """The directory of a run. Leaving it as a context manager removes the run's files and itself."""

    def __init__(self, path: Path, manifest: Manifest, keep: bool = False, is_left: bool = False) -> None:
        """Claims the directory for this process. Raises UsageError if another process works in it.

        `is_left`: by another process, so that users may have put files into it since.
        """
        self.path = path
        self._is_left = is_left
        self._manifest = manifest
        self._earlier: dict[str, Made] = {}
        self._keep = keep
        self._claim = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self._is_locked = False
        try:
            _lock(self._claim)
            self._is_locked = True
        except BlockingIOError as error:
            self.close()
            raise UsageError(f"a run uses {path}", "wait until it ends, or interrupt it") from error
        except OSError:
            pass  # a file system without locks

    def close(self) -> None:
        """Releases the directory without removing it."""
        if self._claim >= 0:
            os.close(self._claim)
        self._claim = -1

    @classmethod
    def make(cls, target: Path, keep: bool = False, needed_bytes: int = 0, name: str | None = None) -> Self:
        """Creates a directory in `target`, which exists; with `keep` it is not removed at the end.

        Its name is unique, unless it is given.

        Raises UsageError if `target` is not writable; PenstockError if it has no room for `needed_bytes`
        and what other runs on `target` will still write.
        """
        require_target(target)
        unique = f"{NAME}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
        path = target.absolute() / (name or unique)
        is_made = False
        try:
            with signals_later():  # most come while the storage is asked to make the folder
                path.mkdir(mode=0o700)
                is_made = True
                manifest = _new_manifest(path, keep, needed_bytes)
                folder = cls(path, manifest, keep)
                manifest.marks = folder._keeps_marks()
                folder._write_manifest()
            # Now that others can see it, one of two that begin together sees the other.
            _require_room_beside_others(target, path, needed_bytes)
        except BaseException as error:  # Ctrl-C, too: nothing is in it yet
            if is_made:
                _remove_unmarked(path)
            if not isinstance(error, OSError):
                raise
            refused = not is_made and error.errno in _REFUSALS
            raise (UsageError if refused else PenstockError)(
                f"cannot create a directory in {target}: {reason_of(error)}", _WRITABLE
            ) from error
        return folder

    @classmethod
    def left_at(cls, path: Path) -> Self:
        """Returns the directory that a run left. Raises UsageError if it may be another's or is in use."""
        try:
            status = path.lstat()
            manifest = _read_manifest(path) or _manifest_of_unmarked(path, status)
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"{path} is not the directory of a run: its {MANIFEST} cannot be read",
                "remove it yourself if it is yours",
            ) from error
        marked = (manifest.name, manifest.inode) == (path.name, status.st_ino)
        if not path.name.startswith(_NAMES) or not stat.S_ISDIR(status.st_mode) or not marked:
            raise UsageError(
                f"{path} is not the directory that its {MANIFEST} was written for",
                "it was copied or renamed; remove it yourself if it is yours",
            )
        folder = cls(path, manifest, is_left=True)
        try:
            folder._require_abandoned()
        except UsageError:
            folder.close()
            raise
        return folder

    def _require_abandoned(self) -> None:
        """Raises UsageError if a run may be using it that holds no visible lock, as on another machine."""
        made_by = self._manifest
        if made_by.host in ("", platform.node()):
            if not self._is_locked and made_by.pid and is_running(made_by.pid):
                raise UsageError(
                    f"a run may be using {self.path}: its process {made_by.pid} exists, and the file system"
                    f" has no locks",
                    "wait until it ends, or interrupt it",
                )
            return
        quiet_s = time.time() - _last_written(self._claim)
        if quiet_s < _QUIET_S:
            raise UsageError(
                f"a run of {made_by.host} may be working in {self.path}: it was written to"
                f" {max(0, round(quiet_s))} s ago",
                f"run this on {made_by.host}, or {round(_QUIET_S / 60)} minutes after that run's end",
            )

    @property
    def kept(self) -> bool:
        """Whether the run was to keep it."""
        return self._manifest.kept

    def announce(self, files: FileSet | TreeSet) -> None:
        """Lists files or trees in the manifest. Call it before the first of them is created.

        What is created under these names is unknown until `note_made`.
        """
        self.note_made(files.prefix, None)
        if isinstance(files, TreeSet):
            self._manifest.trees.append(files)
        else:
            self._manifest.sets.append(files)
        self._write_manifest()

    def note_made(self, prefix: str, made: Made | None) -> None:
        """Remembers what a run created under names with this prefix: nothing else of these is removed.

        None: it has not reported, and names decide. The manifest is written when the directory stays.
        """
        if made is not None:
            self._manifest.created[prefix] = self._earlier.pop(prefix, Made()).with_more(made)
        elif (known := self._manifest.created.pop(prefix, None)) is not None:
            self._earlier[prefix] = known

    def keep(self) -> None:
        """Writes what is known of its files into the manifest, as the directory stays."""
        self._write_manifest()

    def _require_nothing_in_the_way(self) -> None:
        if self._manifest.in_the_way:
            raise PenstockError(
                f"{self.path} was not removed: {self._manifest.in_the_way} existed before the run, and"
                " further files in it may be yours",
                "move your files away, then remove the directory yourself",
            )

    def _keeps_marks(self) -> bool:
        """Whether the storage keeps the permissions with which a file is created."""
        file = create_marked(_UNFINISHED, self._claim)
        try:
            return is_marked(os.fstat(file))
        finally:
            os.close(file)

    def _write_manifest(self) -> None:
        """Writes it through the descriptor, never through a link."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_UNFINISHED, dir_fd=self._claim)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(_UNFINISHED, flags, 0o600, dir_fd=self._claim), "w", encoding="utf-8") as file:
            file.write(self._manifest.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        os.rename(_UNFINISHED, MANIFEST, src_dir_fd=self._claim, dst_dir_fd=self._claim)

    def remove(self) -> None:
        """Removes the listed files and the directory. Raises PenstockError that names another file in it."""
        try:
            self._remove()
        except OSError as error:
            raise PenstockError(
                f"{self.path} cannot be removed: {reason_of(error)}",
                f"when the storage is back: penstock bench clean {self.path.parent}",
            ) from error

    def clear(self) -> None:
        """Removes the listed files; the directory stays for further ones."""
        try:
            with _Opened(self.path, self._claim) as opened:
                self._require_nothing_in_the_way()
                self._remove_files(opened)
        except OSError as error:
            raise PenstockError(
                f"files in {self.path} cannot be removed: {reason_of(error)}",
                f"when the storage is back: penstock bench clean {self.path.parent}",
            ) from error

    def _remove(self) -> None:
        with _Opened(self.path, self._claim) as opened:
            self._require_nothing_in_the_way()
            self._remove_files(opened)
            foreign = sorted(self._remove_trees(opened))
            if foreign:
                self._write_manifest()
                raise self._left(foreign)
            opened.remove(lambda name: name in (MANIFEST, _UNFINISHED))
        try:
            self.path.rmdir()
        except OSError as error:
            # Storage that had hung goes on with what it was asked for: the folder stays marked.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and self._claim >= 0:
                self._write_manifest()
            raise

    def _left(self, foreign: list[str]) -> PenstockError:
        """The error that names what is not removed."""
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        what = f"{self.path} was not removed: "
        prefixes = {files.prefix for files in self._manifest.sets}
        prefixes |= {trees.prefix for trees in self._manifest.trees}
        unknown = tuple(prefix for prefix in prefixes if not self._knows(prefix))
        if any(name.startswith(unknown) for name in foreign):
            return PenstockError(
                f"{what}whether the killed run created {foreign[0]}{more} is not known, because the file"
                " system keeps no permissions",
                "look into it, and remove the directory yourself",
            )
        return PenstockError(
            f"{what}{foreign[0]}{more} does not belong to this run",
            "move your files away, then `penstock bench clean` removes the rest",
        )

    def _knows(self, prefix: str) -> bool:
        """Whether something shows which files with this prefix the run created."""
        return self._manifest.marks or prefix in self._manifest.created or not self._is_left

    def _is_own(self, name: str) -> bool:
        known = (files for files in self._manifest.sets if self._knows(files.prefix))
        return any(files.has(name, self._manifest.created.get(files.prefix)) for files in known)

    def _remove_trees(self, opened: "_Opened") -> Iterator[str]:
        """Yields the paths of what stays."""
        known = [trees for trees in self._manifest.trees if self._knows(trees.prefix)]
        return opened.remove_trees(known, self._manifest.created, self._manifest.marks)

    def _remove_files(self, opened: "_Opened") -> None:
        opened.remove(self._is_own, self._manifest.marks)
        for prefix, made in self._manifest.created.items():
            self._manifest.created[prefix] = made.without_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._keep:
                self.remove()
            elif self._manifest.created:
                with contextlib.suppress(OSError):
                    self.keep()
        finally:
            self.close()


def _lock(folder: int) -> None:
    """Locks the directory. Raises BlockingIOError if a run holds the lock; others test it for a moment."""
    for _ in range(_LOCK_TRIES - 1):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _new_manifest(path: Path, keep: bool, needed_bytes: int) -> Manifest:
    return Manifest(
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        name=path.name,
        inode=path.lstat().st_ino,
        host=platform.node(),
        pid=os.getpid(),
        kept=keep,
        bytes=needed_bytes,
    )


def _read_manifest(path: Path) -> Manifest | None:
    """None where there is none."""
    try:
        number = os.open(path / MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):  # a pipe would be waited for
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file", str(path / MANIFEST))
    with os.fdopen(number, "rb") as file:
        return Manifest.model_validate_json(file.read(_MANIFEST_BYTES_MAX))


def _manifest_of_unmarked(path: Path, status: os.stat_result) -> Manifest:
    """Of a run that was killed between making its folder and marking it: nothing of anybody's is in it.

    A UsageError where it may be about to be marked, a FileNotFoundError where something is in it.
    """
    if not stat.S_ISDIR(status.st_mode) or {each.name for each in path.iterdir()} - {_UNFINISHED}:
        raise FileNotFoundError(errno.ENOENT, "no manifest", str(path))
    if time.time() - status.st_mtime < _UNMARKED_S:
        raise UsageError(
            f"{path} is empty and was just created: a run may be about to start in it",
            f"try again in {round(_UNMARKED_S)} seconds",
        )
    return Manifest(made="", name=path.name, inode=status.st_ino)


def _remove_unmarked(path: Path) -> None:
    """What a run that ends while it begins leaves."""
    with contextlib.suppress(OSError), _Opened(path) as opened:
        opened.remove(lambda name: name in (MANIFEST, _UNFINISHED))
        path.rmdir()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


def _last_written(folder: int) -> float:
    """When something in the folder was last written to, by the storage's clock; seconds since 1970."""
    times = [os.fstat(folder).st_mtime]
    for name in names_in(folder):
        with contextlib.suppress(FileNotFoundError):
            times.append(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime)
    return max(times)


def _require_room_beside_others(target: Path, own: Path, needed_bytes: int) -> None:
    """What runs that work in `target` now have announced, and not written yet, is not free."""
    others = sum(_still_to_write(path) for path in find_left(target) if path.name != own.name)
    if not others or not needed_bytes:
        return
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize - int(room.f_blocks * room.f_frsize * RESERVE_SHARE)
    if free - others < needed_bytes:
        raise PenstockError(
            f"the run writes {human_size(needed_bytes)}; other runs that work in {target} now will write"
            f" {human_bytes(others)} more, and {human_bytes(max(0, free))} are free besides the reserve",
            "wait until they end: concurrent runs disturb each other",
        )


def others_at_work(own: Path) -> list[str]:
    """Folders beside `own` in which runs work now, as far as it is known."""
    with contextlib.suppress(OSError, UsageError):
        return [str(path) for path in find_left(own.parent) if path.name != own.name and _is_at_work(path)]
    return []


def _is_at_work(path: Path) -> bool:
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(folder)
    return False


def _still_to_write(path: Path) -> int:
    """Of a run that works in `path` now; 0 where none does, as far as it is known."""
    with contextlib.suppress(OSError, ValidationError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            manifest = _read_manifest(path)
            there = sum(
                os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * 512
                for name in names_in(folder)
            )
            return max(0, manifest.bytes - there) if manifest is not None else 0
        finally:
            os.close(folder)
    return 0


_Wanted = Callable[[str], bool]


class _Opened:
    """A folder by its descriptor: what somebody puts in its place, a link or a folder, is not touched."""

    def __init__(self, path: Path, claim: int = -1) -> None:
        """`claim` is a descriptor of the folder that is meant, where there is one."""
        self._path = path
        self._claim = claim
        self._descriptor = -1

    def __enter__(self) -> Self:
        """A PenstockError where another folder has taken its place."""
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if self._claim >= 0 and not os.path.sameopenfile(self._descriptor, self._claim):
            os.close(self._descriptor)
            raise PenstockError(
                f"{self._path} is not the directory that was created: nothing in it is removed",
                f"the run's own was moved away; its {MANIFEST} lists what the run wrote",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def remove(self, wanted: _Wanted, marked: bool = False) -> None:
        """Regular files only: a link or a folder of a listed name was put there by somebody else.

        `marked`: so was a file without the permissions of a run.
        """
        remove_files(self._descriptor, [name for name in names_in(self._descriptor) if wanted(name)], marked)

    def remove_trees(self, trees: list[TreeSet], made: dict[str, Made], marked: bool) -> Iterator[str]:
        """What is left is yielded, but for the manifest."""
        known = {prefix: each.trees() for prefix, each in made.items()}
        for name in names_in(self._descriptor):
            listed = next((tree for tree in trees if tree.has(name)), None)
            if listed is not None:
                yield from listed.remove(self._descriptor, name, known.get(listed.prefix), marked)
            elif name not in (MANIFEST, _UNFINISHED):
                yield name


def find_left(target: Path) -> Iterator[Path]:
    """Folders in `target` that are called as those of runs and of data sets are."""
    require_target(target)
    return (path for path in sorted(target.iterdir()) if path.name.startswith(_NAMES))


def find_removable(target: Path, kept: bool) -> tuple[list[BenchFolder], list[UsageError]]:
    """Folders in `target` that runs left, and why others are none. Some were `kept`."""
    found: list[BenchFolder] = []
    doubts: list[UsageError] = []
    for path in find_left(target):
        try:
            folder = BenchFolder.left_at(path)
        except UsageError as error:
            doubts.append(error)
            continue
        if kept or not folder.kept:
            found.append(folder)
        else:
            folder.close()
    return found, doubts


def require_target(target: Path, purpose: str = "to measure") -> None:
    """Raises UsageError unless `target` is a directory whose name a document can hold."""
    try:
        str(target.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the name of the target {str(target)!r} is not UTF-8", "rename it, or name a symbolic link to it"
        ) from error
    if not target.is_dir():
        if names_url(target):
            # Not all of it: it may have a password or a token, which nothing has refused yet.
            scheme = target.parts[0]
            raise UsageError(
                f"a URL ({scheme}//) is not possible here", f"name a mounted directory {purpose}"
            )
        what = "is not a directory" if target.exists() else "does not exist"
        raise UsageError(f"the target {target} {what}", f"name a directory on the storage {purpose}")


def require_writable(target: Path) -> None:
    """As `require_target`; a UsageError, too, where nothing may be written into it."""
    require_target(target)
    if problem := write_problem(target):
        raise UsageError(*problem)


_WRITABLE = "name a writable directory, on a file system that is not mounted read-only"
# What the system says of a place where nothing may be made; a storage that fails says something else.
_REFUSALS = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
)


@contextlib.contextmanager
def usable(target: Place) -> Iterator[None]:
    """What goes wrong with a storage that was there becomes a PenstockError that names it."""
    try:
        yield
    except BrokenPipeError:  # whoever reads the output is gone
        raise
    except OSError as error:
        raise PenstockError(
            f"{target} is no longer usable: {reason_of(error)}",
            "check whether the storage is still available, and see the system's log",
        ) from error


def room_for_frames(target: Path, stored_bytes: int, file_a_frame: bool) -> int:
    """How many frames `target` takes, with a reserve left free."""
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize - int(room.f_blocks * room.f_frsize * RESERVE_SHARE)
    frames = max(0, free // stored_bytes)
    if not file_a_frame or not _limits_files(room):
        return frames
    return min(frames, max(0, room.f_favail - RESERVE_INODES))


def _limits_files(room: os.statvfs_result) -> bool:
    """Systems that make inodes as they need them report 0 of 0; CephFS reports -1 free ones."""
    return room.f_files > 0 and room.f_favail >= 0


@dataclass(frozen=True)
class RoomAdvice:
    """What has no room, and imperatives that make it smaller.

    `space` is the option that limits the bytes, if there is one, and `space_min` the least that it allows.
    """

    what: str = "the run"
    fewer_bytes: str = "reduce --seconds"
    fewer_files: str = "use --layout file_a_writer, which creates one file per writer"
    space: str = ""
    space_min: int = 0

    def to_fit(self, target: Path, bytes_that_fit: int) -> str:
        """Returns the remedy for a target that has room for this many bytes."""
        if bytes_that_fit <= 0:
            return f"free space on {target}, or choose another target"
        if not self.space:
            return (
                f"{self.fewer_bytes} (at most {size_within(bytes_that_fit)} fits), or choose another target"
            )
        value = size_within(math.floor(ROOM_SHARE * bytes_that_fit)).replace(" ", "")
        if parse_size(value) < max(1, self.space_min):
            return (
                f"free space on {target}, or choose another target: {self.space} must be at least"
                f" {size_at_least(self.space_min)}"
            )
        fewer = f", {self.fewer_bytes}" if self.fewer_bytes else ""
        return f"use {self.space} {value}{fewer}, or choose another target"


ROOM_ADVICE = RoomAdvice()


def require_room(
    target: Path, needed_bytes: int, files: int, advice: RoomAdvice = ROOM_ADVICE, others_bytes: int = 0
) -> None:
    """Raises PenstockError unless `target` has room for the bytes and files, and a reserve stays free.

    `others_bytes`: of the needed ones, those that the advice does not make fewer.
    """
    room = os.statvfs(target)
    if not room.f_blocks and not room.f_bavail:
        mount = find_mount(target)
        kind = f"a {mount.kind} file system" if mount is not None else "a file system without blocks"
        raise UsageError(
            f"{target} is on {kind}, which reports that it stores 0 bytes",
            "name a directory on the storage to measure; if this is one, check that its servers are up",
        )
    free = room.f_bavail * room.f_frsize
    reserve = int(room.f_blocks * room.f_frsize * RESERVE_SHARE)
    if free - reserve < needed_bytes:
        raise PenstockError(
            f"{advice.what} writes {human_bytes(needed_bytes)}, but {target} has {human_bytes(free)} free, of"
            f" which {human_bytes(reserve)} must stay free ({human_percent(RESERVE_SHARE)} of the file"
            " system)",
            advice.to_fit(target, free - reserve - others_bytes),
        )
    if _limits_files(room) and room.f_favail - RESERVE_INODES < files:
        raise PenstockError(
            f"{advice.what} makes {counted(files, 'file')}, but {target} has inodes for only {room.f_favail}",
            advice.fewer_files,
        )
