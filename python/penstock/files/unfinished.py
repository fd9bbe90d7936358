"""Files have other names until they are complete; the next command removes what a killed one left."""

import contextlib
import functools
import hashlib
import itertools
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_numbers = itertools.count()


@contextlib.contextmanager
def unfinished(paths: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    """Yields the name under which to write each of the files, in the same folder.

    The block renames those that are complete; the others are removed when it ends. If the command is killed,
    they stay until a command on the same machine writes the same file.
    """
    own = f"{_here()}-{os.getpid()}-{next(_numbers)}"
    new = {path: path.with_name(f".{path.name}.{own}.partial") for path in paths}
    for path in new:
        _remove_left(path)
    try:
        yield new
    finally:
        for written in new.values():
            written.unlink(missing_ok=True)


def _remove_left(path: Path) -> None:
    """Removes unfinished files of `path` whose process on this machine has ended."""
    name = re.compile(rf"\.{re.escape(path.name)}\.{_here()}-(?P<process>[0-9]+)-[0-9]+\.partial")
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            found = name.fullmatch(entry.name)
            if found is None or _runs(int(found["process"])):
                continue
            with contextlib.suppress(OSError):
                if stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                    Path(entry.path).unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True


@functools.cache
def _here() -> str:
    """Stands for the machine and the container, in which a process number means one process."""
    with contextlib.suppress(OSError):
        text = f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return "0" * 8
