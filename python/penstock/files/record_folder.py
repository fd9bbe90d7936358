"""The folder in which a recorder creates its files."""

from pathlib import Path

from penstock.files.writable import require_writable
from penstock.model.errors import UsageError
from penstock.model.storage_url import names_url


def require_record_folder(folder: Path) -> None:
    """Raises UsageError unless it is a folder in which files may be created."""
    choose = "choose another one with --folder or `folder:`"
    if names_url(folder):
        # Not all of it: it may have a password or a token.
        raise UsageError(
            f"a URL ({folder.parts[0]}//) is not possible here",
            "name a mounted directory with --folder or `folder:`",
        )
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", choose)
    if not folder.is_dir():
        raise UsageError(f"the folder {folder} does not exist", f"create it, or {choose}")
    require_writable(folder)
