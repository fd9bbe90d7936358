"""Shows a mount of another process's mount namespace in this one: `python -m penstock.lab.graft PID FROM TO`.

A daemon that insists on files of this machine runs with other files in their places, so in a mount namespace
of its own; what it mounts there is seen there alone. Sources: open_tree(2), move_mount(2); Linux 5.2.
"""

import ctypes
import os
import sys

_OPEN_TREE, _MOVE_MOUNT = 428, 429  # on all architectures but alpha
_AT_FDCWD, _OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = -100, 1, 4
_CLONE_NEWNS = 0x20000
_LIBC = ctypes.CDLL(None, use_errno=True)


def graft(process: int, source: str, at: str) -> None:
    """This process has one thread, or the kernel refuses. Raises OSError."""
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    _require(_LIBC.setns(os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY), _CLONE_NEWNS))
    tree = _require(_LIBC.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE))
    _require(_LIBC.setns(own, _CLONE_NEWNS))
    _require(_LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(at), _MOVE_MOUNT_F_EMPTY_PATH))


def _require(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


if __name__ == "__main__":
    graft(int(sys.argv[1]), sys.argv[2], sys.argv[3])
