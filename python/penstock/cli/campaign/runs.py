"""`penstock runs`"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.campaign.entries import find_documents, read_entry
from penstock.cli.common import out, print_json, reports_errors, warn
from penstock.cli.words import examples
from penstock.files.catalogue import VARIABLE, Catalogue, Filter, default_path
from penstock.model.bench.entries import Kind, ListedValidity
from penstock.model.errors import ExitCode, UsageError
from penstock.report.entries import entries_lines, entry_sheet

runs_application = typer.Typer(
    help="The catalogue of runs: where documents of measurements lie.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    context_settings={"help_option_names": ["-h", "--help"]},
)

CatalogueFile = Annotated[
    Path | None,
    typer.Option(
        "--index",
        envvar=VARIABLE,
        metavar="FILE",
        help="Another one. [default: penstock/catalogue.sqlite in the XDG data folder]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="As JSON, for machines.")]


def _catalogue(path: Path | None) -> Catalogue:
    return Catalogue(path or default_path())


@runs_application.command(
    "list",
    epilog=examples(
        "penstock runs list",
        "penstock runs list --workload frames --target /data --since 30d --validity valid",
        "penstock runs list --kind campaign --json",
        "penstock runs list --validity incomplete",
    ),
)
@reports_errors
def list_command(
    kind: Annotated[Kind | None, typer.Option(help="Of the document.")] = None,
    workload: Annotated[str | None, typer.Option(help="frames, stream …")] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="That folder, or one below it; of the network HOST or HOST:PORT."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where the first run was made.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Begun then or later: 2026-03-01, or 30d, 12h ago.")
    ] = None,
    validity: Annotated[
        ListedValidity | None,
        typer.Option(help="Of the worst run; incomplete: what ended before its time, whatever its runs are."),
    ] = None,
    catalogue: CatalogueFile = None,
    json: Json = False,
) -> None:
    """List documents, the oldest first, and tell which of them changed or are not there any more."""
    wanted = Filter(kind, workload, host, target, None if since is None else _since(since), validity)
    listed = _catalogue(catalogue).documents(wanted)
    if json:
        print_json([each.model_dump(mode="json") for each in listed])
    else:
        console = out()
        for line in entries_lines(listed):
            console.print(line, soft_wrap=True)


@runs_application.command(
    "show", epilog=examples("penstock runs show 12", "penstock runs show run.json --json")
)
@reports_errors
def show_command(
    document: Annotated[str, typer.Argument(help="Its number in the list, or its path.")],
    catalogue: CatalogueFile = None,
    json: Json = False,
) -> None:
    """Show all that the catalogue knows of a document."""
    listed = _catalogue(catalogue).find(document)
    if json:
        print_json(listed)
    else:
        out().print(entry_sheet(listed))


@runs_application.command(
    "add", epilog=examples("penstock runs add results/", "penstock runs add run.json verdict.json")
)
@reports_errors
def add_command(
    documents: Annotated[list[Path], typer.Argument(help="Documents, or folders with documents.")],
    catalogue: CatalogueFile = None,
) -> None:
    """Enter documents, also those that moved or changed. Exit code 1: some are damaged.

    In a folder and those below it, files that are called .json and begin as documents do.
    """
    into, counts, damaged = _catalogue(catalogue), Counter[str](), False
    for place in documents:
        for path in find_documents(place):
            try:
                entry = read_entry(path)
            except UsageError as error:
                if not place.is_dir():
                    raise
                warn(f"left out: {error.message}")
                damaged = True
                continue
            counts[into.add(entry)] += 1
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    out().print(found or "no documents", markup=False)
    if damaged:
        raise typer.Exit(int(ExitCode.FAILED))


@runs_application.command(
    "forget", epilog=examples("penstock runs forget 12 13", "penstock runs forget --missing")
)
@reports_errors
def forget_command(
    documents: Annotated[list[str] | None, typer.Argument(help="Numbers in the list, or paths.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="All whose file is not there any more.")] = False,
    catalogue: CatalogueFile = None,
) -> None:
    """Take documents out of the catalogue. The files stay."""
    if bool(documents) == missing:
        raise UsageError("say what is to be forgotten", "name numbers or paths, or --missing")
    known = _catalogue(catalogue)
    found = [known.find(name) for name in documents or []]
    found += [each for each in known.documents() if each.state == "missing"] if missing else []
    if found:
        known.forget([each.id for each in found])
    out().print(f"{len(found)} forgotten", markup=False)


def _since(text: str) -> str:
    """As documents write it. A UsageError for what is no time."""
    try:
        if text[-1:] in ("d", "h") and text[:-1].isdecimal():
            ago = timedelta(days=int(text[:-1])) if text.endswith("d") else timedelta(hours=int(text[:-1]))
            when = datetime.now(UTC) - ago
        else:
            when = datetime.fromisoformat(text)
        # Without an end mark: documents have fractions of a second there.
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError) as error:
        raise UsageError(f'--since "{text}" is no time', "for example 2026-03-01, or 30d") from error
