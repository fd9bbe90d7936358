"""What documents are written as."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.files.documents import Document, Shown
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.errors import UsageError
from penstock.report.pages.comma_separated import csv_of
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.overview import overview_page


def report_texts(
    documents: Mapping[str, Shown], html: Path | None, markdown: Path | None, csv: Path | None
) -> Iterator[tuple[Path, str]]:
    """The files that are asked for, and what belongs into them. `documents` by the names of their files.

    Pages of several documents begin with an overview.
    """
    plain = _with_values(documents) if csv is not None else {}
    if html is not None or markdown is not None:
        pages = [page_of(document, source) for source, document in documents.items()]
        if len(pages) > 1:
            pages.insert(0, overview_page(documents, pages))
        if html is not None:
            yield html, html_of(pages)
        if markdown is not None:
            yield markdown, markdown_of(pages)
    if csv is not None:
        yield csv, csv_of(plain)


def without_runs(documents: Mapping[str, Shown]) -> list[str]:
    """Returns the names of the documents that have no metrics of runs, and so no line of a CSV file."""
    return [source for source, document in documents.items() if isinstance(document, Comparison | Rehearsal)]


def _with_values(documents: Mapping[str, Shown]) -> dict[str, Document]:
    """Returns the documents that have metrics of runs. Raises UsageError if none has."""
    found: dict[str, Document] = {}
    kinds: list[str] = []
    for source, document in documents.items():
        if isinstance(document, Comparison | Rehearsal):
            kind = "a comparison" if isinstance(document, Comparison) else "a rehearsal"
            kinds.append(f"{source} is {kind}")
        else:
            found[source] = document
    if not found:
        raise UsageError(
            f"{', '.join(kinds)}, but --csv requires runs",
            "leave out --csv, or name documents with runs",
        )
    return found
