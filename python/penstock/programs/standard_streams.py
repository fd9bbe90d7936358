"""Standard streams that the caller closed (`penstock … >&-`)."""

import os
import sys


def open_closed_streams() -> None:
    """Opens them, because a file of ours would get their numbers otherwise. Writing to one stays an error."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest number that is free
    # Python has None for them, which its types do not show.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
