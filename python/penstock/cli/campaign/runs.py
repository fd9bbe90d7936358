"""`penstock runs`"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.campaign.entries import find_documents, read_entry
from penstock.cli.common import out, print_json, reports_errors, warn
from penstock.files.catalogue import VARIABLE, Catalogue, Filter, default_path
from penstock.model import panels
from penstock.model.bench.entries import Kind, ListedValidity
from penstock.model.errors import ExitCode, UsageError
from penstock.report.entries import entries_lines, entry_sheet

CatalogueFile = Annotated[
    Path | None,
    typer.Option(
        "--index",
        envvar=VARIABLE,
        metavar="FILE",
        help="File of the run index. [default: penstock/catalogue.sqlite in the XDG data folder]",
        rich_help_panel=panels.FILES,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)]


def _catalogue(path: Path | None) -> Catalogue:
    return Catalogue(path or default_path())


@reports_errors
def list_command(
    kind: Annotated[
        Kind | None, typer.Option(help="Kind of document.", rich_help_panel=panels.SELECTION)
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="Workload: frames, stream, hdf5, metadata or network.", rich_help_panel=panels.SELECTION
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Target folder or one of its parents; for the network HOST or HOST:PORT.",
            rich_help_panel=panels.SELECTION,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Host of the first run.", rich_help_panel=panels.SELECTION)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Start time or later: a date such as 2026-03-01, or an age such as 30d or 12h.",
            rich_help_panel=panels.SELECTION,
        ),
    ] = None,
    validity: Annotated[
        ListedValidity | None,
        typer.Option(
            help="Validity of the worst run; incomplete lists measurements that ended early.",
            rich_help_panel=panels.SELECTION,
        ),
    ] = None,
    catalogue: CatalogueFile = None,
    json: Json = False,
) -> None:
    """List documents, the oldest first, and mark those that changed or are missing."""
    wanted = Filter(kind, workload, host, target, None if since is None else _since(since), validity)
    listed = _catalogue(catalogue).documents(wanted)
    if json:
        print_json([each.model_dump(mode="json") for each in listed])
    else:
        console = out()
        for line in entries_lines(listed):
            console.print(line, soft_wrap=True)


@reports_errors
def show_command(
    document: Annotated[str, typer.Argument(help="Number in the list, or path of the document.")],
    catalogue: CatalogueFile = None,
    json: Json = False,
) -> None:
    """Show all fields of one document in the run index."""
    listed = _catalogue(catalogue).find(document)
    if json:
        print_json(listed)
    else:
        out().print(entry_sheet(listed))


@reports_errors
def add_command(
    documents: Annotated[
        list[Path],
        typer.Argument(metavar="DOCUMENT", help="Documents, or folders that contain documents."),
    ],
    catalogue: CatalogueFile = None,
) -> None:
    """Add documents to the run index, including ones that moved or changed. Exit code 1: some are corrupt.

    In folders it finds, recursively, files named *.json that start like a document.
    """
    into, counts, damaged = _catalogue(catalogue), Counter[str](), False
    for place in documents:
        for path in find_documents(place):
            try:
                entry = read_entry(path)
            except UsageError as error:
                if not place.is_dir():
                    raise
                warn(f"skipped: {error.message}")
                damaged = True
                continue
            counts[into.add(entry)] += 1
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    out().print(found or "no documents", markup=False)
    if damaged:
        raise typer.Exit(int(ExitCode.FAILED))


@reports_errors
def forget_command(
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOCUMENT", help="Numbers in the list, or paths of documents."),
    ] = None,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="Forget all documents whose file no longer exists.",
            rich_help_panel=panels.SELECTION,
        ),
    ] = False,
    catalogue: CatalogueFile = None,
) -> None:
    """Remove documents from the run index. The files stay."""
    if bool(documents) == missing:
        raise UsageError(
            "give either documents or --missing", "name documents by number or path, or give --missing"
        )
    known = _catalogue(catalogue)
    found = [known.find(name) for name in documents or []]
    found += [each for each in known.documents() if each.state == "missing"] if missing else []
    if found:
        known.forget([each.id for each in found])
    out().print(f"{len(found)} forgotten", markup=False)


def _since(text: str) -> str:
    """Returns the time as documents write it. Raises UsageError."""
    try:
        if text[-1:] in ("d", "h") and text[:-1].isdecimal():
            ago = timedelta(days=int(text[:-1])) if text.endswith("d") else timedelta(hours=int(text[:-1]))
            when = datetime.now(UTC) - ago
        else:
            when = datetime.fromisoformat(text)
        # Without an end mark: documents have fractions of a second there.
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f'--since "{text}" is neither a date nor an age', "write for example 2026-03-01 or 30d"
        ) from error
