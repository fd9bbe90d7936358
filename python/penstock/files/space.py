"""Free space, before something large is written."""

import shutil
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of, unwritten_remedy
from penstock.model.units import human_bytes


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """A PenstockError unless the file system of `folder` has `needed_bytes` free."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise PenstockError(
            f"{what} needs about {human_bytes(needed_bytes)} in {folder}, and {human_bytes(free)} are free",
            "free some space, or choose another folder",
        )


def write_document(path: Path, text: str) -> None:
    """A new file: one that is there is not overwritten. A PenstockError says why it cannot be written.

    Where writing ends in the middle no half of it is left.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            try:
                file.write(text + "\n")
                file.flush()
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        remedy = unwritten_remedy(error, "name another file")
        raise PenstockError(f"{path} cannot be written: {reason_of(error)}", remedy) from error
