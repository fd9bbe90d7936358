"""Files and directories with the permissions of those that a run creates."""

from pathlib import Path

from penstock.bench.data.folder import BenchFolder
from penstock.bench.data.marks import DIRECTORY_MODE, FILE_MODE


def mark(top: Path) -> None:
    """Marks a file, or a directory with all that is in it."""
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            path.chmod(DIRECTORY_MODE if path.is_dir() else FILE_MODE)


def clean(path: Path) -> None:
    """As `penstock bench clean` does."""
    left = BenchFolder.left_at(path)
    try:
        left.remove()
    finally:
        left.close()
