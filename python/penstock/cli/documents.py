"""Writes documents, and adds them to the run index."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from penstock.bench.campaign.entries import entry_of
from penstock.cli.common import warn
from penstock.files.catalogue import Catalogue, default_path
from penstock.files.documents import Document, Indexed, read_bytes
from penstock.files.space import write_document
from penstock.model.errors import PenstockError


def write_and_enter(path: Path, document: Document) -> None:
    """Writes a new file and adds it to the run index. A run index that fails is a warning only."""
    write_document(path, document.model_dump_json())
    enter(path, document)


@contextlib.contextmanager
def written_whatever_happens(path: Path | None, document: Document) -> Iterator[None]:
    """Writes the document first; if that fails, raises the error after the body has shown the results."""
    trouble: PenstockError | None = None
    if path is not None:
        try:
            write_and_enter(path, document)
        except PenstockError as error:
            trouble = error
    yield
    if trouble is not None:
        raise trouble


def enter(path: Path, document: Indexed, more: str = "") -> bool:
    """Returns whether the document is in the run index now; prints a warning, with `more`, if not."""
    try:
        Catalogue(default_path()).add(entry_of(document, path, read_bytes(path)))
    except (PenstockError, OSError) as error:
        warn(f"warning: could not add {path} to the run index: {error}{more}")
        return False
    return True


class Entering:
    """Updates the entry of a growing document in the run index. Use as a context manager.

    After one failure it tries again only at the end, so that no measurement waits for the index.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: Document | None = None  # what is not in the catalogue

    def enter(self, document: Document) -> None:
        waits = self._left is not None
        self._left = document
        if not waits and enter(self._path, document, "; another attempt follows at the end"):
            self._left = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._left is not None:
            enter(self._path, self._left)
