"""Writes documents, and adds them to the run index."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from penstock.bench.campaign.entries import entry_of
from penstock.cli.common import warn
from penstock.files.catalogue import Catalogue, default_path
from penstock.files.documents import Document, Indexed, Shown, read_bytes
from penstock.files.growing_document import GrowingDocument
from penstock.files.space import write_document
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Verdict
from penstock.model.errors import PenstockError


def write_and_enter(path: Path, document: Document) -> None:
    """Writes a new file and adds it to the run index. A run index that fails is a warning only."""
    write_document(path, document.model_dump_json())
    enter(path, document)


@contextlib.contextmanager
def written_first(write: Callable[[], None]) -> Iterator[None]:
    """Calls `write`; if that fails, raises the error after the body has shown the results.

    So results are in their file when they cannot be shown, and are shown when they cannot be written.
    """
    trouble: PenstockError | None = None
    try:
        write()
    except PenstockError as error:
        trouble = error
    yield
    if trouble is not None:
        raise trouble


def written_whatever_happens(path: Path | None, document: Document) -> AbstractContextManager[None]:
    """Writes the document first, if there is a path; `written_first` has the rest."""
    return written_first(lambda: None if path is None else write_and_enter(path, document))


def write_page(path: Path | None, document: Shown, kept_at: Path | None, what: str) -> None:
    """Writes the page of `--report`, if it is given, of a document that was kept or not."""
    if path is None:
        return
    # Loading the plotting library takes as long as the rest of a command.
    from penstock.report.write import report_texts

    source = str(kept_at) if kept_at is not None else f"a {what} that was not saved"
    for file, text in report_texts({source: document}, path, None, None):
        write_document(file, text.rstrip("\n"))


class StepwiseDocument:
    """The document of a measurement, written after each of its steps if `--output` names it.

    Use as a context manager, which closes it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._growing: GrowingDocument | None = None
        self._is_kept = False

    @property
    def kept_at(self) -> Path | None:
        """The file that has what was written last."""
        return self._path if self._is_kept else None

    def write(self, document: Verdict | Rehearsal) -> None:
        if self._path is None:
            return
        self._is_kept = False
        text = document.model_dump_json()
        if self._growing is None:
            self._growing = GrowingDocument.create(self._path, text)
        else:
            self._growing.write(text)
        self._is_kept = True

    def finish(self, document: Verdict | Rehearsal) -> None:
        """Writes the result, and adds it to the run index."""
        self.write(document)
        self._close()
        if self._path is not None:
            enter(self._path, document)

    def _close(self) -> None:
        if self._growing is not None:
            self._growing.close()
            self._growing = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


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
