"""Writes documents, and enters them into the catalogue of runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from penstock.bench.campaign.entries import entry_of
from penstock.cli.common import warn
from penstock.files.catalogue import Catalogue, default_path
from penstock.files.documents import Document, read_bytes
from penstock.files.space import write_document
from penstock.model.errors import PenstockError


def write_and_enter(path: Path, document: Document) -> None:
    """A new file. A catalogue that cannot be used is a warning: what was measured is in the document."""
    write_document(path, document.model_dump_json())
    enter(path, document)


@contextlib.contextmanager
def written_whatever_happens(path: Path | None, document: Document) -> Iterator[None]:
    """The document is written first; where that fails, what it holds is shown all the same, inside."""
    trouble: PenstockError | None = None
    if path is not None:
        try:
            write_and_enter(path, document)
        except PenstockError as error:
            trouble = error
    yield
    if trouble is not None:
        raise trouble


def enter(path: Path, document: Document, more: str = "") -> bool:
    """Whether it is in the catalogue now. Where it is not, a warning, with `more`."""
    try:
        Catalogue(default_path()).add(entry_of(document, path, read_bytes(path)))
    except (PenstockError, OSError) as error:
        warn(f"warning: {path} is not in the catalogue of runs: {error}{more}")
        return False
    return True


class Entering:
    """Enters a document that grows, whenever it has grown.

    A catalogue that cannot be used is waited for once: after that it is tried again at the end alone, as no
    measurement waits for an index. Use as a context manager.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: Document | None = None  # what is not in the catalogue

    def enter(self, document: Document) -> None:
        waits = self._left is not None
        self._left = document
        if not waits and enter(self._path, document, "; it is tried once more at the end"):
            self._left = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._left is not None:
            enter(self._path, self._left)
