"""Who runs a laboratory: root of this machine, or an ordinary user, also inside of the user's namespaces."""

import contextlib
import os
import stat
from functools import cache
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.laboratories import FOLDER_OF_ROOT

_SESSIONS = Path("/run/user")
"""of systemd: a folder for each user who is logged in"""


@cache
def ordinary_user() -> int | None:
    """Returns the user's number outside of the laboratory's namespaces; None: root of this machine."""
    if os.geteuid() != 0:
        return os.geteuid()
    inside, outside, count = map(int, Path("/proc/self/uid_map").read_text("ascii").split()[:3])
    return outside if (inside, count) == (0, 1) else None


def folders_of_laboratories() -> list[Path]:
    """New ones are in the first; sessions with another environment have used the others. None may exist."""
    user = ordinary_user()
    if user is None:
        return [FOLDER_OF_ROOT]
    runtime = [_SESSIONS / str(user), Path(os.environ.get("XDG_RUNTIME_DIR", ""))]
    own = [each.resolve() for each in runtime if each.is_absolute() and is_own_folder(each.resolve())]
    return [*(each / "penstock-lab" for each in dict.fromkeys(own)), Path(f"/tmp/penstock-lab-{user}")]


def make_folder_of_laboratories(folder: Path) -> None:
    """Raises PenstockError for one in which another user could change something."""
    mode = 0o711 if ordinary_user() is None else 0o700
    make_own_folder(folder, mode, "set XDG_RUNTIME_DIR to a folder of yours")


def make_own_folder(folder: Path, mode: int, remedy: str) -> None:
    """Makes it unless it exists. Raises PenstockError if another user owns it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode)
    if not is_own_folder(folder):
        raise PenstockError(f"{folder} belongs to another user", remedy)
    folder.chmod(mode)


def is_own_folder(folder: Path) -> bool:
    """Whether it is a folder of this user, without a link to it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
