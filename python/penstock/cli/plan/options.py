"""Options of `penstock plan`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from penstock.cli import completion
from penstock.cli.detector_choice import CustomColumns, CustomFile, CustomRows, CustomType
from penstock.model import panels
from penstock.model.catalogue import Level
from penstock.model.plans import Encoding


@dataclass(frozen=True)
class PlanOptions:
    """As the user gave them."""

    detectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DETECTOR",
            help="Detector as NAME, COUNTxNAME or COUNTxNAME@HZ, such as 2xeiger2-16m@100. Its compression"
            " ratio and duty cycle may follow: eiger2-16m,ratio=8,duty=0.3. NAME is from `penstock"
            " detectors`, a YAML file, or custom with --file or --rows, --columns, --type.",
            autocompletion=completion.detectors,
        ),
    ] = None
    duty: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Duty cycle: share of the time with frames, above 0 to 1, or in percent, such as 30%."
            " [default: 1]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    hours_per_day: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Hours with frames per day, above 0 to 24; sets the duty cycle instead of --duty.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    days_per_week: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            help="Days with frames per week, above 0 to 7; sets the duty cycle instead of --duty.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    headroom: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Headroom above the peak bandwidth, as a share of it, 0 to 100, such as 20% or 0.2.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "20%"
    retention: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="How long data is kept: 90d (or 90), 2w, 6mo, 2y; at most 100 years.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "30d"
    growth: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Growth of all rates from year to year, 0 to 10 (1000 %), such as 20%.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "0%"
    years: Annotated[
        int | None,
        typer.Option(
            help="Years of operation, 1 to 30, for which the volume and the capacity of each are listed."
            " [default: 5, or as long as data is kept]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    fill: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Maximum fill level of the storage, as a share of its capacity, such as 90% or 0.9.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "90%"
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Compression ratio of stored frames, 1 to 1000000, such as 8. [default: measured, or that of"
            " the catalogue]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    compression: Annotated[
        Level,
        typer.Option(
            help="Which ratio of the catalogue to plan with: low (of frames with many counts), typical or"
            " high.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "typical"
    encoding: Annotated[
        Encoding, typer.Option(help="Codec that compresses frames.", rich_help_panel=panels.ASSUMPTIONS)
    ] = "bslz4"
    codec_speed: Annotated[
        str | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Uncompressed bytes per second that one core compresses, such as 1.5GB/s. [default:"
            " measured]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure compression ratio and speed: the recorder compresses simulated frames on this"
            " machine.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = False
    images: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Image file or folder to measure compression with, instead of simulated frames. Repeatable.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    compressed_by: Annotated[
        Literal["recorder", "detector"] | None,
        typer.Option(
            help="Where frames are compressed: recorder (requires cores) or detector (reduces network load)."
            " [default: from the catalogue, which names the codec that a detector sends]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    write: Annotated[
        str | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Additional write bandwidth, such as 1GB/s. [default: 0]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    read_factor: Annotated[
        float,
        typer.Option(
            help="Concurrent read bandwidth as a multiple of the write bandwidth, 0 to 1000.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = 0.0
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Additional capacity, such as 100TB. [default: 0]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Speed of a network port. Repeatable. [default: 10, 25 and 100 Gb/s]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    link_efficiency: Annotated[
        float,
        typer.Option(help="Usable share of a port's speed, 0 to 1.", rich_help_panel=panels.ASSUMPTIONS),
    ] = 0.9
    server_cores: Annotated[
        int,
        typer.Option(
            help="Number of cores of a recorder's server that compress.", rich_help_panel=panels.ASSUMPTIONS
        ),
    ] = 32
    server_bandwidth: Annotated[
        str,
        typer.Option(
            metavar="BANDWIDTH",
            help="Network bandwidth of a recorder's server, in each direction.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "100Gb/s"
    redundancy: Annotated[
        str | None,
        typer.Option(
            metavar="DATA+PARITY",
            help="Redundancy as drives for data and parity: 8+2; 1+1 for two copies; none. [default: from"
            " --block]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Building block of the storage: a name that Tab completes, or a YAML file. With --tier: the"
            " alternative without tiers. Repeatable.",
            rich_help_panel=panels.BLOCKS,
            autocompletion=completion.blocks,
        ),
    ] = None
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Document of a run on the block of --block or, without --block, on the only block of the"
            " tiers. The measured bandwidth replaces the computed one, also in tiers of that block."
            " Repeatable.",
            rich_help_panel=panels.BLOCKS,
        ),
    ] = None
    tier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=AGE][,block=NAME]",
            help="Tier of storage, with the age at which data moves to the next one, and its building block,"
            " such as fast=2w. Repeatable, from young to old data; the last one has no age.",
            rich_help_panel=panels.BLOCKS,
        ),
    ] = None
    beamlines: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file of several beamlines, each with detectors, schedule and retention, instead of"
            " DETECTOR.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None
    file: CustomFile = None
    rows: CustomRows = None
    columns: CustomColumns = None
    type_: CustomType = None
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the capacity plan as Markdown into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the capacity plan as an HTML page with plots into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False
