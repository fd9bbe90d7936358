"""`penstock record`: its options. What it does is in recording.py (why: lazy.py)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.common import reports_errors
from penstock.cli.option_table import DataclassTable, OverlayTable, command_of
from penstock.cli.record.chain_choice import RecorderMpi
from penstock.cli.verbosity import shows_progress
from penstock.model import panels
from penstock.model.configuration import Configuration


@dataclass(frozen=True)
class RunOptions:
    """Options that are not fields of the configuration."""

    configuration: Annotated[
        Path | None,
        typer.Argument(
            help="YAML file, which options override. docs/reference/configuration.md lists its fields."
        ),
    ] = None
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address on which to listen for senders of the TCP protocol. Repeatable. HOST may be a"
            " network"
            " interface. A token is required except on loopback. [default: 127.0.0.1:9900]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that senders must send; otherwise the variable PENSTOCK_TOKEN.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    zmq: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENDPOINT",
            help="ZeroMQ endpoint of a detector that sends Stream V2 or V1, such as tcp://127.0.0.1:31001."
            " Repeatable.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    pva: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="NTNDArray channel of an EPICS areaDetector, for example 13SIM1:Pva1:Image. Repeatable."
            " `penstock pva` does the same in a separate process.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    pva_frames: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --pva: number of frames of a series. [default: until the channel ends it]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    pva_idle_end: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="With --pva: end a series after this many seconds without a frame. [default: 60]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    pva_name: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="With --pva: template of series names with {channel} and {date}. [default:"
            " {channel}-{date}]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    pva_start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --pva: YAML file with fields that the channel does not send, such as pixel_size_x.",
            rich_help_panel=panels.SOURCES,
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Set a field of the configuration, such as nexus.sample_name='lysozyme 3'. Repeatable.",
            rich_help_panel=panels.SERIES,
        ),
    ] = None
    join: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Add each complete series as an entry to this file in --folder, as `penstock join` does.",
            rich_help_panel=panels.FILES,
        ),
    ] = None
    ranks: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            help="Number of MPI processes that record into one file. Rank N listens on the given port + N.",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = 1
    mpi: RecorderMpi = "openmpi"
    require_complete: Annotated[
        bool,
        typer.Option(
            "--require-complete",
            help="Exit with code 1 also if frames are missing.",
            rich_help_panel=panels.SERIES,
        ),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and exit.", rich_help_panel=panels.RUN)
    ] = False
    show_placement: Annotated[
        bool,
        typer.Option(
            "--show-placement",
            help="Show the processors, and on which ones threads and memory would be placed, and exit.",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = False
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print events as JSON lines (with --dry-run: the job; with --show-placement: the"
            " placement).",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False


def _run(given: dict[tuple[str, ...], Any], run: RunOptions) -> None:
    """Record series after series, each into its own NeXus HDF5 file.

    SIGINT (Ctrl-C) and SIGTERM complete the files and exit; SIGUSR2 completes the open series and continues.
    Exit code 1: a series failed or was rejected, or every message was rejected. Missing, corrupt and dropped
    frames are counted in the summary of each series and in its file; they lead to exit code 1 only with
    --require-complete.
    """
    from penstock.cli.record.recording import run_record

    run_record(given, run)


record_command = reports_errors(
    shows_progress(command_of(_run, OverlayTable(Configuration), DataclassTable(RunOptions)))
)
