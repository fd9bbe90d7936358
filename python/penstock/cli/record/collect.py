"""`penstock collect`"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import out, reports_errors
from penstock.cli.verbosity import progress, shows_progress
from penstock.model import panels
from penstock.model.configuration import TOKEN_VARIABLE, read_token
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import counted
from penstock.model.units import is_loopback, split_address
from penstock.programs.collect import Counts, collect

PORT = 9930


@reports_errors
@shows_progress
def collect_command(
    folder: Annotated[
        Path,
        typer.Option(help="Existing folder in which the journal is created.", rich_help_panel=panels.FILES),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Address to listen on. A token is required except on loopback.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = f"127.0.0.1:{PORT}",
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that clients must send; otherwise the variable PENSTOCK_TOKEN.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None,
    sync: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=3600,
            help="Interval in seconds at which the journal is synced to storage; 0: before each"
            " acknowledgement.",
            rich_help_panel=panels.FILES,
        ),
    ] = 1.0,
    pva: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Also collect the values of this EPICS channel over pvAccess, with its timestamps."
            " Repeatable.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and exit.", rich_help_panel=panels.RUN)
    ] = False,
) -> None:
    """Collect values (positions, currents, temperatures) of any number of clients into a journal.

    `penstock attach` matches them to the frames of a series. Stop it with SIGINT (Ctrl-C) or SIGTERM.
    """
    try:
        host, port = split_address(listen, PORT)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
    token = read_token(token_file, os.environ)
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--listen {listen} is reachable from other machines and requires a token",
            f"give --token-file FILE, set {TOKEN_VARIABLE}, or listen on 127.0.0.1",
        )
    if not folder.is_dir():
        raise UsageError(f"--folder {folder} is not an existing folder", "create it, or name another one")
    if dry_run:
        watch = f" and watch {', '.join(pva)}" if pva else ""
        out().print(
            f"would listen on {host}:{port}{watch}, and write a journal into {folder}",
            markup=False,
            soft_wrap=True,
        )
        return
    with progress() as view:
        path, counts = collect(
            folder,
            host,
            port,
            token,
            sync,
            lambda bound, path: view.info(f"listening on {host}:{bound}, journal {path}"),
            lambda counts: view.update("collecting", 0, 0, counts_text(counts)),
            view.say,
            pva or [],
        )
        view.finish(str(path), counts_text(counts))
    if counts.channels_problem and counts.storage_problem:
        view.say(counts.channels_problem)
    if counts.storage_problem:
        raise PenstockError(
            counts.storage_problem, "check the storage and restart the collector; clients then resume"
        )
    if counts.channels_problem:
        raise PenstockError(
            counts.channels_problem,
            "the values of clients are complete; the log above names the affected channels",
        )


def counts_text(counts: Counts) -> str:
    """ "1200 values in 12 batches, 0 rejected"; a problem is the command's error."""
    values, batches = counted(counts.values, "value"), counted(counts.batches, "batch", "batches")
    return f"{values} in {batches}, {counts.refused} rejected"
