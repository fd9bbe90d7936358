"""What documents are written as."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.files.documents import Document, Shown
from penstock.model.bench.comparisons import Comparison
from penstock.model.errors import UsageError
from penstock.report.pages.comma_separated import csv_of
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of


def report_texts(
    documents: Mapping[str, Shown], html: Path | None, markdown: Path | None, csv: Path | None
) -> Iterator[tuple[Path, str]]:
    """The files that are asked for, and what belongs into them. `documents` by the names of their files."""
    plain = _with_values(documents) if csv is not None else {}
    if html is not None or markdown is not None:
        pages = [page_of(document, source) for source, document in documents.items()]
        if html is not None:
            yield html, html_of(pages)
        if markdown is not None:
            yield markdown, markdown_of(pages)
    if csv is not None:
        yield csv, csv_of(plain)


def _with_values(documents: Mapping[str, Shown]) -> dict[str, Document]:
    """A UsageError where one of them has no values of runs."""
    found: dict[str, Document] = {}
    for source, document in documents.items():
        if isinstance(document, Comparison):
            raise UsageError(
                f"{source} is a comparison, but --csv requires runs",
                "leave out --csv, or name the compared documents",
            )
        found[source] = document
    return found
