"""Asks the recorder which HDF5 filter plug-ins it finds."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from penstock.model.errors import PenstockError
from penstock.model.filters import FoundFilter, plugin_folder
from penstock.programs.locate import find_program

_PATIENCE_S = 60


def find_filters(folders: Sequence[Path]) -> list[FoundFilter]:
    """By number, those of `folders` before those of hdf5plugin and of HDF5 itself."""
    program = find_program("penstock-recorder")
    looked = [*(str(folder.absolute()) for folder in folders), plugin_folder()]
    try:
        run = subprocess.run(
            [str(program), "--filters", *looked],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=True,
        )
        found = TypeAdapter(list[FoundFilter]).validate_json(run.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValidationError, IndexError) as error:
        raise PenstockError(
            f"{program} did not list its filters: {error}", "a plug-in in one of the folders may be broken"
        ) from error
    return sorted(found, key=lambda each: each.id)
