"""Finds data sets, and removes those of a server.

Those of a file system are removed as directories of runs are.
"""

from dataclasses import dataclass
from pathlib import Path

from penstock.bench.data.folder import DATA_NAME
from penstock.bench.science.data.manifest import CONTENTS
from penstock.bench.science.data.prepare import task
from penstock.bench.science.storage.endpoint import require_server
from penstock.bench.science.storage.open import require_storage
from penstock.model.errors import PenstockError
from penstock.model.storage_url import StorageUrl


@dataclass(frozen=True)
class StoredSet:
    """A data set's directory, complete or not."""

    place: StorageUrl
    files: int
    bytes: int

    def remove(self) -> None:
        """Removes what its mark lists. Raises PenstockError that names another file in it."""
        task(self.place, "remove", name=self.place.name)


def is_complete(directory: Path) -> bool:
    """Whether it is a data set that a run finished, and left for further ones."""
    return directory.name.startswith(DATA_NAME) and (directory / CONTENTS).is_file()


def find_stored(target: StorageUrl) -> tuple[list[StoredSet], list[PenstockError]]:
    """Data sets in `target`, and why other directories with such a name are none."""
    require_storage(target)
    require_server(target)
    found: list[StoredSet] = []
    doubts: list[PenstockError] = []
    for name in task(target, "find")["names"]:
        try:
            counted = task(target / name, "measure", name=name)
        except PenstockError as error:
            doubts.append(error)
        else:
            found.append(StoredSet(target / name, counted["files"], counted["bytes"]))
    return found, doubts
