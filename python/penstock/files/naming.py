"""A file gets its name once it is whole, and takes nobody's place."""

import ctypes
import errno
import os
from pathlib import Path

_CURRENT_FOLDER = -100  # AT_FDCWD
_NO_REPLACE = 1  # RENAME_NOREPLACE


def path_while_made(path: Path) -> Path:
    """Returns where a recorder makes the file `path`, until it is complete."""
    return path.with_name(f".{path.name}.new")


def give_name(new: Path, path: Path) -> None:
    """`new` becomes `path`. A FileExistsError where something has that name: that stays, and so does `new`.

    By a hard link, which fails on a name that is taken as a rename does not; where the file system has none
    (FAT, some network and object storages), by the rename of Linux that replaces nothing.
    """
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:
        _rename(new, path)
    else:
        new.unlink()


def _rename(new: Path, path: Path) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        names = os.fsencode(new), os.fsencode(path)
        if rename(_CURRENT_FOLDER, names[0], _CURRENT_FOLDER, names[1], _NO_REPLACE) == 0:
            return
        if ctypes.get_errno() == errno.EEXIST:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    # Neither the kernel nor the file system may know it: an empty file keeps the place.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        new.replace(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
