"""`penstock collect`"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, out, reports_errors
from penstock.model.configuration import TOKEN_VARIABLE, read_token
from penstock.model.errors import PenstockError, UsageError
from penstock.model.units import is_loopback, split_address
from penstock.programs.collect import Counts, collect
from penstock.report.progress import ProgressView

PORT = 9930


@reports_errors
def collect_command(
    folder: Annotated[Path, typer.Option(help="Where the journal is made; an existing folder.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Beyond loopback a token is required.")
    ] = f"127.0.0.1:{PORT}",
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token; otherwise the variable PENSTOCK_TOKEN."),
    ] = None,
    sync: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=3600, help="How often to sync; 0: before each answer."),
    ] = 1.0,
    pva: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Take this EPICS channel's values too, over pvAccess, with its own times; repeatable.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and end.")] = False,
) -> None:
    """Take values (positions, currents, temperatures) from any number of clients into a journal.

    `penstock attach` joins them to the frames of a series. Ends with SIGINT (Ctrl-C) or SIGTERM.
    """
    try:
        host, port = split_address(listen, PORT)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
    token = read_token(token_file, os.environ)
    if token is None and not is_loopback(host):
        raise UsageError(
            f"{listen} can be reached from other machines, so senders must show a token",
            f"give --token-file FILE, or set {TOKEN_VARIABLE}; or listen on 127.0.0.1",
        )
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "make it, or name another one")
    if dry_run:
        watch = f" and watch {', '.join(pva)}" if pva else ""
        out().print(
            f"would listen on {host}:{port}{watch}, and write a journal into {folder}",
            markup=False,
            soft_wrap=True,
        )
        return
    with ProgressView(err()) as view:
        path, counts = collect(
            folder,
            host,
            port,
            token,
            sync,
            lambda bound, path: view.say(f"listening on {host}:{bound}, journal {path}"),
            lambda counts: view.update("collecting", 0, 0, counts_text(counts)),
            view.say,
            pva or [],
        )
        view.finish(str(path), counts_text(counts))
    if counts.channels_problem and counts.storage_problem:
        view.say(counts.channels_problem)
    if counts.storage_problem:
        raise PenstockError(
            counts.storage_problem, "look at the storage, and start the collector anew: senders go on"
        )
    if counts.channels_problem:
        raise PenstockError(
            counts.channels_problem, "what clients sent is whole; the messages before tell of the channels"
        )


def counts_text(counts: Counts) -> str:
    """ "1200 values in 12 batches, 0 refused"."""
    text = f"{counts.values} values in {counts.batches} batches, {counts.refused} refused"
    problem = counts.storage_problem or counts.channels_problem
    return text + (f"; PROBLEM: {problem}" if problem else "")
