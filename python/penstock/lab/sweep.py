"""How every laboratory ends: by its name alone, all that belongs to it is found and removed."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from penstock.lab.cgroups import unlimit_device
from penstock.lab.commands import SYSTEM_PATH, run
from penstock.lab.ground import GROUND
from penstock.lab.mounts import abort, connections_below, detach, make_private, mounts_below, remove_tree
from penstock.lab.place import DISKS, MARK, Place
from penstock.model.errors import PenstockError

_LOOPS = Path("/sys/block")
_DETACHED_WITHIN_S = 60.0


def sweep(place: Place) -> None:
    """May be repeated. Raises PenstockError for what does not go; the rest is removed all the same.

    The folder goes last, and only if nothing else is left: the rest is found through it.
    """
    problems: list[str] = []
    for step in (_abort, _kill, _detach, _unmount, _wait_for_devices, _remove_groups):
        problems += _problems_of(step, place)
    if not problems:
        problems += _problems_of(_remove_files, place)
    if problems:
        raise PenstockError(
            f"laboratory {place.name} could not be removed: {'; '.join(problems)}",
            f"remedy that, then `penstock lab down {place.name}`",
        )


def _problems_of(step: Callable[[Place], None], place: Place) -> list[str]:
    try:
        step(place)
    except PenstockError as error:
        return [error.message]
    except (OSError, ValueError) as error:
        return [str(error)]
    return []


def _abort(place: Place) -> None:
    """A process that waits for a FUSE file system cannot be killed otherwise."""
    for mount in connections_below(*_folders(place)):
        abort(mount)


def _kill(place: Place) -> None:
    GROUND.kill(place)


def _detach(place: Place) -> None:
    """The kernel does it when they are unmounted; images in memory have no path from then on."""
    for loop in _loops_of(place):
        unlimit_device((_LOOPS / loop / "dev").read_text(encoding="ascii").strip())
        run(["losetup", "--detach", f"/dev/{loop}"], check=False)


def _unmount(place: Place) -> None:
    problems, mounts = [], mounts_below(*_folders(place))
    for mount in mounts:
        make_private(mount)
    for mount in mounts:
        try:
            detach(mount)
        except OSError as error:
            problems.append(str(error))
    if problems:
        raise PenstockError("; ".join(problems))


def _wait_for_devices(place: Place) -> None:
    """Takes pools and arrays of the kernel apart, which hold them."""
    deadline = time.monotonic() + _DETACHED_WITHIN_S
    if Path("/sys/module/zfs").exists() and shutil.which("zpool", path=SYSTEM_PATH) is not None:
        run(["zpool", "destroy", "-f", place.pool], check=False)
    while loops := _loops_of(place):
        for array in {each.name for loop in loops for each in (_LOOPS / loop / "holders").glob("md*")}:
            run(["mdadm", "--stop", f"/dev/{array}"], check=False)
        if time.monotonic() > deadline:
            raise PenstockError(f"loop devices {', '.join(loops)} are still in use{_holders(place)}")
        time.sleep(0.02)
    Path("/dev/md", place.pool).unlink(missing_ok=True)  # stays where no udev runs


def _holders(place: Place) -> str:
    """Names processes with a working directory, an open file or a copy of a mount in its folder."""
    folder = str(place.folder)
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and _holds(process, folder):
            found.append(process.name)
    return f" by processes {', '.join(found)}" if found else ""


def _holds(process: Path, folder: str) -> bool:
    with contextlib.suppress(OSError):
        links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
        if any(str(link.readlink()).startswith(folder) for link in links):
            return True
        return f" {folder}/".encode() in (process / "mountinfo").read_bytes()
    return False


def _loops_of(place: Place) -> list[str]:
    folders = _folders(place)
    found = []
    for backing in _LOOPS.glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            image = os.fsdecode(backing.read_bytes().rstrip(b"\n")).removesuffix(" (deleted)")
            if any(Path(image).is_relative_to(folder) for folder in folders):
                found.append(backing.parent.parent.name)
    return found


def _remove_groups(place: Place) -> None:
    GROUND.remove(place)


def _remove_files(place: Place) -> None:
    if left := mounts_below(*_folders(place)):
        raise PenstockError(f"{left[0].at} is a mount that cannot be removed")
    for link, folder in place.links():
        with contextlib.suppress(FileNotFoundError):
            remove_tree(folder, MARK)
        link.unlink(missing_ok=True)
    for folder in place.orphans():
        remove_tree(folder, MARK)
    with contextlib.suppress(FileNotFoundError):
        remove_tree(place.folder)
    with contextlib.suppress(OSError):  # other laboratories are there
        DISKS.rmdir()


def _folders(place: Place) -> list[Path]:
    """Its own is the last: it has the links to the others."""
    return [*(folder for _, folder in place.links()), *place.orphans(), place.folder]
