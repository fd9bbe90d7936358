"""The permissions that mark what a run creates.

All processes that create files for a run have the same unusual umask: the load generator (native/programs/
load.cpp has the same number), the recorder, and jobs. A file has its mark as soon as it exists, so what a run
created is known even if it was killed, and a user's file with the same name differs.
"""

import os
import stat

UMASK = 0o062
"""gives others, who cannot enter the run's directory, more permissions than the group: nobody else does"""
FILE_MODE = 0o666 & ~UMASK
DIRECTORY_MODE = 0o777 & ~UMASK


def is_marked(status: os.stat_result) -> bool:
    """Whether a process of a run created this file or directory, if its file system keeps permissions."""
    expected = DIRECTORY_MODE if stat.S_ISDIR(status.st_mode) else FILE_MODE
    return stat.S_IMODE(status.st_mode) == expected


def create_marked(name: str, folder: int) -> int:
    """Creates a file as processes of a run do. Returns its descriptor, for writing."""
    before = os.umask(UMASK)
    try:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    finally:
        os.umask(before)
