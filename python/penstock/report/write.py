"""What documents are written as."""

from collections.abc import Iterator
from pathlib import Path

from penstock.files.documents import Document
from penstock.report.comma_separated import csv_of
from penstock.report.html import html_of
from penstock.report.markdown import markdown_of
from penstock.report.pages import page_of


def report_texts(
    documents: dict[str, Document], html: Path | None, markdown: Path | None, csv: Path | None
) -> Iterator[tuple[Path, str]]:
    """The files that are asked for, and what belongs into them. `documents` by the names of their files."""
    if html is not None or markdown is not None:
        pages = [page_of(document, source) for source, document in documents.items()]
        if html is not None:
            yield html, html_of(pages)
        if markdown is not None:
            yield markdown, markdown_of(pages)
    if csv is not None:
        yield csv, csv_of(documents)
