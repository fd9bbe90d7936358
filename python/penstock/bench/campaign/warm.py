"""The first bytes through a new mount: `python -m penstock.bench.campaign.warm FOLDER`."""

import os
import sys
from pathlib import Path

_BYTES = 64 << 20


def warm(path: Path) -> None:
    """The first write through a new mount opens connections and makes files that later ones find."""
    file = path / ".penstock-warm"
    with file.open("wb") as first:
        for _ in range(_BYTES >> 20):
            first.write(bytes(1 << 20))
        os.fsync(first.fileno())
    file.read_bytes()
    file.unlink()


if __name__ == "__main__":
    warm(Path(sys.argv[1]))
