"""The folder that a run works in: made and marked by it, and removed by what its manifest lists.

Nothing is ever written into a folder that was there before, and nothing is removed that the manifest does
not name: a run that was killed leaves its manifest, and `penstock bench clean` removes what that lists.
Files are listed before they are made.
"""

import fcntl
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.trees import TreeSet, names_in, remove_file
from penstock.model.errors import PenstockError, UsageError
from penstock.model.units import human_bytes

NAME = "penstock-bench-"
MANIFEST = "penstock-bench.json"
_UNFINISHED = MANIFEST + ".new"
_MANIFEST_BYTES_MAX = 1 << 20
# To whom there are too many files for the file system.
ROOM_ADVICE = "--layout file_a_writer makes one file a writer"
# What stays free: a full file system hurts others.
RESERVE_SHARE = 0.02
RESERVE_INODES = 1000


class FileSet(BaseModel):
    """Files called PREFIX000000000.SUFFIX up to, and without, number `count`; or NAME.partial."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    prefix: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*-$", max_length=40)
    count: int = Field(ge=0, le=10**9)
    suffix: str = Field("bin", pattern=r"^[a-z0-9]{1,10}$")

    def has(self, name: str) -> bool:
        match = re.fullmatch(re.escape(self.prefix) + rf"([0-9]{{9}})\.{self.suffix}(\.partial)?", name)
        return match is not None and int(match[1]) < self.count


class Manifest(BaseModel):
    """What a run may have written into its folder."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    format: Literal["penstock-bench 1"] = "penstock-bench 1"
    made: str
    name: str
    inode: int = Field(description="of the folder: a copy of it is another one")
    kept: bool = Field(False, description="it was to stay")
    sets: list[FileSet] = []
    trees: list[TreeSet] = []


class BenchFolder:
    """Use as a context manager: leaving it removes what the run wrote, and the folder."""

    def __init__(self, path: Path, manifest: Manifest, keep: bool = False) -> None:
        """Claims the folder for this process. A UsageError where another one works in it."""
        self.path = path
        self._manifest = manifest
        self._keep = keep
        self._claim = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise UsageError(f"a run is working in {path}", "wait for its end, or interrupt it") from error
        except OSError:
            pass  # a file system without locks

    def close(self) -> None:
        """Gives the folder up without removing it."""
        if self._claim >= 0:
            os.close(self._claim)
        self._claim = -1

    @classmethod
    def make(cls, target: Path, keep: bool = False) -> Self:
        """A new folder in `target`, which is there; with `keep` it stays, and what is in it."""
        require_target(target)
        name = f"{NAME}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
        path = target.absolute() / name
        try:
            path.mkdir(mode=0o700)
            made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            folder = cls(path, Manifest(made=made, name=name, inode=path.lstat().st_ino, kept=keep), keep)
            folder._write_manifest()
        except OSError as error:
            raise PenstockError(
                f"no folder can be made in {target}: {error.strerror}",
                "name a folder that you may write into, on the storage that is to be measured",
            ) from error
        return folder

    @classmethod
    def left_at(cls, path: Path) -> Self:
        """The folder of a run that did not remove it. A UsageError where it is not certain that it is one."""
        try:
            status = path.lstat()
            with (path / MANIFEST).open("rb") as file:
                manifest = Manifest.model_validate_json(file.read(_MANIFEST_BYTES_MAX))
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"{path} is no folder of a run: its {MANIFEST} cannot be read",
                "remove it by hand if it is yours",
            ) from error
        marked = (manifest.name, manifest.inode) == (path.name, status.st_ino)
        if not path.name.startswith(NAME) or not stat.S_ISDIR(status.st_mode) or not marked:
            raise UsageError(
                f"{path} is not the folder that its {MANIFEST} was written for",
                "it was copied or renamed; remove it by hand if it is yours",
            )
        return cls(path, manifest)

    @property
    def kept(self) -> bool:
        """It was to stay."""
        return self._manifest.kept

    def announce(self, files: FileSet | TreeSet) -> None:
        """To be called before the first of these files or folders is made."""
        if isinstance(files, TreeSet):
            self._manifest.trees.append(files)
        else:
            self._manifest.sets.append(files)
        self._write_manifest()

    def _write_manifest(self) -> None:
        unfinished = self.path / _UNFINISHED
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(self._manifest.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path / MANIFEST)

    def remove(self) -> None:
        """Removes what is listed, and the folder. A PenstockError names what is not its own."""
        try:
            self._remove()
        except OSError as error:
            raise PenstockError(
                f"{self.path} cannot be removed: {error.strerror}",
                f"when the storage is back: penstock bench clean {self.path.parent}",
            ) from error

    def clear(self) -> None:
        """Removes the files that are listed; the folder stays, for more."""
        try:
            with _Opened(self.path) as opened:
                opened.remove(self._is_listed)
        except OSError as error:
            raise PenstockError(
                f"files in {self.path} cannot be removed: {error.strerror}",
                f"when the storage is back: penstock bench clean {self.path.parent}",
            ) from error

    def _remove(self) -> None:
        with _Opened(self.path) as opened:
            opened.remove(self._is_listed)
            foreign = sorted(opened.remove_trees(self._manifest.trees))
            if foreign:
                more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
                raise PenstockError(
                    f"{self.path} stays: {foreign[0]}{more} in it is not of this run",
                    "move them away, then `penstock bench clean` removes the rest",
                )
            opened.remove(lambda name: name in (MANIFEST, _UNFINISHED))
        self.path.rmdir()

    def _is_listed(self, name: str) -> bool:
        return any(files.has(name) for files in self._manifest.sets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._keep:
                self.remove()
        finally:
            self.close()


_Wanted = Callable[[str], bool]


class _Opened:
    """A folder by its descriptor: no link that somebody puts in its place leads elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def remove(self, wanted: _Wanted) -> None:
        """Regular files only: a link or a folder of a listed name was put there by somebody else."""
        for name in names_in(self._descriptor):
            if wanted(name):
                remove_file(self._descriptor, name)

    def remove_trees(self, trees: list[TreeSet]) -> Iterator[str]:
        """What is left is yielded, but for the manifest."""
        for name in names_in(self._descriptor):
            listed = next((tree for tree in trees if tree.has(name)), None)
            if listed is not None:
                yield from listed.remove(self._descriptor, name)
            elif name not in (MANIFEST, _UNFINISHED):
                yield name


def find_left(target: Path) -> Iterator[Path]:
    """Folders in `target` that are called as those of runs are."""
    require_target(target)
    return (path for path in sorted(target.iterdir()) if path.name.startswith(NAME))


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


def require_target(target: Path) -> None:
    """A UsageError unless `target` is a folder, whose name a document can hold."""
    try:
        str(target.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the name of the target {str(target)!r} is not UTF-8", "rename it, or name a link to it"
        ) from error
    if not target.is_dir():
        what = "is not a folder" if target.exists() else "is not there"
        raise UsageError(f"the target {target} {what}", "name a folder on the storage that is to be measured")


def room_for_frames(target: Path, stored_bytes: int, file_a_frame: bool) -> int:
    """How many frames `target` takes, with a reserve left free."""
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize - int(room.f_blocks * room.f_frsize * RESERVE_SHARE)
    frames = max(0, free // stored_bytes)
    return min(frames, max(0, room.f_favail - RESERVE_INODES)) if file_a_frame and room.f_files else frames


def require_room(
    target: Path,
    needed_bytes: int,
    files: int,
    fewer_files: str = ROOM_ADVICE,
) -> None:
    """A PenstockError unless `target` takes so many bytes and files, and a reserve stays free."""
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize
    reserve = int(room.f_blocks * room.f_frsize * RESERVE_SHARE)
    if free - reserve < needed_bytes:
        raise PenstockError(
            f"the run writes {human_bytes(needed_bytes)}, and {target} has {human_bytes(free)} free, of which"
            f" {human_bytes(reserve)} are left alone",
            "a shorter run writes less (--seconds), or choose another target",
        )
    # File systems that make inodes as they need them say 0 of 0.
    if room.f_files and room.f_favail - RESERVE_INODES < files:
        raise PenstockError(
            f"the run makes {files} files, and {target} has inodes for {room.f_favail}",
            fewer_files,
        )
