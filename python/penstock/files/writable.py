"""Whether this user may write to a place, and what to do if not."""

import os
import shlex
from pathlib import Path

from penstock.model.errors import UsageError


def write_problem(path: Path) -> tuple[str, str] | None:
    """Returns why nothing can be written to this directory or file, and a remedy; None if it is possible."""
    is_folder = path.is_dir()
    if os.access(path, os.W_OK | os.X_OK if is_folder else os.W_OK, effective_ids=True):
        return None
    other = "choose another folder" if is_folder else "work on a copy"
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"the file system of {path} is read-only", f"{other}, or mount the file system as writable"
    what = f"you have no permission to write {'into ' if is_folder else ''}{path}"
    if path.stat().st_uid != os.geteuid():
        return what, f"ask its owner for access, or {other}"
    return what, f"run `chmod u+rw{'x' if is_folder else ''} {shlex.quote(str(path))}`, or {other}"


def require_writable(path: Path) -> None:
    """Raises UsageError unless this user may write to this directory or file."""
    if problem := write_problem(path):
        raise UsageError(*problem)
