"""The folder in which a recorder creates its files."""

import os
from pathlib import Path

from penstock.model.errors import UsageError


def require_record_folder(folder: Path) -> None:
    """Raises UsageError unless it is a folder in which files may be created."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(
            f"the folder {folder} {what}", "create it, or choose another one with --folder or `folder:`"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"you have no permission to write into the folder {folder}",
            "change its permissions, or choose another one",
        )
