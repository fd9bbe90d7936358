"""`penstock bench clean`"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import DATA_NAME, BenchFolder, find_removable
from penstock.bench.science.data.clean import StoredSet, find_stored
from penstock.cli import completion
from penstock.cli.bench.running import REMOVES, may_go_on, parse_place
from penstock.cli.common import out, reports_errors, warn
from penstock.cli.verbosity import info
from penstock.model import panels
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.storage_url import StorageUrl
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_seconds


@reports_errors
def clean_command(
    target: Annotated[
        Path,
        typer.Argument(
            help="Directory or URL that runs were started on.",
            parser=parse_place,
            metavar="TARGET",
            autocompletion=completion.folders,
        ),
    ],
    kept: Annotated[
        bool,
        typer.Option(
            "--kept", help="Also remove directories that runs with --keep left.", rich_help_panel=panels.RUN
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove without asking.", rich_help_panel=panels.RUN)
    ] = False,
) -> None:
    """Remove data sets and the directories of killed runs: only the files that these runs created.

    Directories that a run still uses, or that may not belong to a run, stay and are listed; the exit code is
    then 1. On a server (URL), data sets are removed; each run removes its own files there.
    """
    if isinstance(target, StorageUrl):
        _clean_server(target, yes)
    else:
        _clean_folder(target, kept, yes)


def _clean_folder(target: Path, kept: bool, yes: bool) -> None:
    folders, doubts = find_removable(target, kept)
    _clean(target, [(str(each.path), _left_text(each), each.remove) for each in folders], doubts, yes)


def _clean_server(target: StorageUrl, yes: bool) -> None:
    found, doubts = find_stored(target)
    _clean(target, [(str(each.place), _stored_text(each), each.remove) for each in found], doubts, yes)


def _clean(
    target: Path | StorageUrl,
    found: Sequence[tuple[str, str, Callable[[], None]]],
    doubts: Sequence[PenstockError],
    yes: bool,
) -> None:
    """`found`: name, description, and how it is removed. Raises typer.Exit if there are doubts."""
    for doubt in doubts:
        warn(str(doubt))
    for name, text, _ in found:
        out().print(f"{name}: {text}", markup=False, soft_wrap=True)
    if found:
        may_go_on(yes, unanswerable=REMOVES)
    troubles = [trouble for name, _, remove in found if (trouble := _removed(name, remove)) is not None]
    for trouble in troubles[1:]:
        warn(str(trouble))
    if troubles:
        raise troubles[0]
    if not found:
        info().print(
            f"nothing to remove: {target} has no data set and no directory of a killed run", markup=False
        )
    if doubts:
        raise typer.Exit(int(ExitCode.FAILED))


def _left_text(folder: BenchFolder) -> str:
    """Returns "312 files, 20 MB, 4 min old"."""
    count, size = 0, 0
    for place, _, names in os.walk(folder.path):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone already
                size += Path(place, name).lstat().st_size
                count += 1
    what = "data set, " if folder.path.name.startswith(DATA_NAME) else ""
    with contextlib.suppress(OSError):
        age = human_seconds(max(0.0, time.time() - folder.path.stat().st_mtime))
        return f"{what}{counted(count, 'file')}, {human_bytes(size)}, {age} old"
    return f"{what}{counted(count, 'file')}"


def _stored_text(stored: StoredSet) -> str:
    return f"data set, {counted(stored.files, 'file')}, {human_bytes(stored.bytes)}"


def _removed(name: str, remove: Callable[[], None]) -> PenstockError | None:
    """Reports the removal, or returns why it failed; the other directories are removed nevertheless."""
    try:
        remove()
    except PenstockError as error:
        return error
    info().print(f"removed {name}", markup=False, soft_wrap=True)
    return None
