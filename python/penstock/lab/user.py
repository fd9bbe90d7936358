"""Who runs a laboratory: root of this machine, or an ordinary user, also inside of the user's namespaces."""

import os
import stat
from functools import cache
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.laboratories import FOLDER_OF_ROOT


@cache
def ordinary_user() -> int | None:
    """Returns the user's number outside of the laboratory's namespaces; None: root of this machine."""
    if os.geteuid() != 0:
        return os.geteuid()
    inside, outside, count = map(int, Path("/proc/self/uid_map").read_text("ascii").split()[:3])
    return outside if (inside, count) == (0, 1) else None


def folder_of_laboratories() -> Path:
    """It may not exist yet."""
    user = ordinary_user()
    if user is None:
        return FOLDER_OF_ROOT
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and Path(runtime).is_dir() and Path(runtime).stat().st_uid == os.geteuid():
        return Path(runtime).resolve() / "penstock-lab"
    return Path(f"/tmp/penstock-lab-{user}")


def make_folder_of_laboratories(folder: Path) -> None:
    """Raises PenstockError for one in which another user could change something."""
    folder.mkdir(mode=0o711 if ordinary_user() is None else 0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PenstockError(f"{folder} belongs to another user", "set XDG_RUNTIME_DIR to a folder of yours")
    if ordinary_user() is not None:
        folder.chmod(0o700)
