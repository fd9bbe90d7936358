"""The command tree. A command's modules are loaded when it is called (lazy.py)."""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.lazy import Later, lazy_group
from penstock.cli.words import (
    EXIT_CODES,
    EXIT_CODES_OF_COMPARISONS,
    EXIT_CODES_OF_RUNS,
    EXIT_CODES_OF_SHEETS,
    EXIT_CODES_OF_VERDICTS,
)

COMMANDS = {
    "record": Later(
        "penstock.cli.record.record:record_command",
        short_help="Record series after series, each into its own NeXus HDF5 file.",
        examples=[
            "penstock record --folder data",
            "penstock record beamline.yaml --dry-run",
            "penstock record --zmq tcp://10.1.2.3:31001 --folder /data --series 1",
            "penstock record --listen 10.1.2.3:9900 --token-file token.txt --folder /data",
        ],
    ),
    "pva": Later(
        "penstock.cli.record.pva:pva_command",
        short_help="Send the frames of an EPICS areaDetector to a recorder.",
        examples=[
            "penstock pva 13SIM1:Pva1:Image --to tcp://127.0.0.1:9900",
            "penstock pva 13SIM1:Pva1:Image --frames 1000 --start detector.yaml",
            "penstock pva 13SIM1:Pva1:Image --name-attribute Scan --name '{attribute}'",
        ],
    ),
    "simulate": Later(
        "penstock.cli.record.simulate:simulate_command",
        short_help="Simulate a detector, or replay real images as one.",
        examples=[
            "penstock simulate pilatus-6m --frames 250",
            "penstock simulate eiger2-16m --rate max --encoding bslz4 --to tcp://127.0.0.1:9900",
            "penstock simulate custom --rows 512 --columns 512 --type uint32 --frames 1000 --rate 100",
            "penstock simulate pilatus-6m --replay images/ --rate 25",
            "penstock simulate pilatus-6m --frames 100 --to 'files:out?format=cbf'",
        ],
    ),
    "detectors": Later(
        "penstock.cli.plan.detectors:detectors_command",
        short_help="The catalogue of detectors that can be simulated.",
        examples=[
            "penstock detectors",
            "penstock detectors pilatus-6m",
            "penstock detectors --json",
        ],
    ),
    "layout": Later(
        "penstock.cli.record.layout:layout_application",
        short_help="Layouts of what is in a file: ready, your own, areaDetector's.",
    ),
    "filters": Later(
        "penstock.cli.record.filters:filters_command",
        short_help="The HDF5 filter plug-ins that the recorder can use.",
        examples=[
            "penstock filters",
            "penstock filters --json",
        ],
    ),
    "advise": Later(
        "penstock.cli.plan.advise:advise_command",
        short_help="Recommend chunks for the way in which files will be read.",
        examples=[
            "penstock advise eiger2-16m --folder /data --read frames",
            "penstock advise eiger2-4m --read 'frames*3' --read roi:128x128",
            "penstock advise custom --rows 2048 --columns 2048 --read rows --images images/",
        ],
    ),
    "info": Later(
        "penstock.cli.files.info:info_command",
        short_help="What is in a file: frames, codec, ledger, times, tree.",
        examples=[
            "penstock info series.h5",
            "penstock info series.h5 --json",
        ],
    ),
    "check": Later(
        "penstock.cli.files.check:check_command",
        short_help="Check a file: every chunk, every frame, the structure.",
        examples=[
            "penstock check series.h5",
            "penstock check series.h5 --against recorded",
            "penstock check series.h5 --against images/",
        ],
    ),
    "export": Later(
        "penstock.cli.files.export:export_command",
        short_help="A master file for XDS plug-ins and readers of Eiger files.",
        examples=[
            "penstock export series.h5 --for xds",
            "penstock export series.h5 --for xds --copy",
            "penstock export series.h5 --for eiger --output elsewhere/series_master.h5",
            "penstock export series.h5 --for xds --dry-run",
        ],
    ),
    "recover": Later(
        "penstock.cli.files.recover:recover_command",
        short_help="Complete a file whose recorder was killed.",
        examples=[
            "penstock recover series.h5 --dry-run",
            "penstock recover series.h5",
        ],
    ),
    "join": Later(
        "penstock.cli.files.join:join_command",
        short_help="Show several series' files as one file.",
        examples=[
            "penstock join night.h5 scan_1.h5 scan_2.h5",
            "penstock join night.h5 scan_3.h5 --add",
        ],
    ),
    "collect": Later(
        "penstock.cli.record.collect:collect_command",
        short_help="Take values of motors, counters and the like into a journal.",
        examples=[
            "penstock collect --folder data",
            "penstock collect --folder data --listen 10.1.2.3:9930 --token-file token.txt",
            "penstock collect --folder data --pva RING:Current --pva BL1:Stage:X",
        ],
    ),
    "attach": Later(
        "penstock.cli.record.attach:attach_command",
        short_help="Join values of a journal to the frames of a series.",
        examples=[
            "penstock attach series.h5 values-20260102T030405.pnval",
            "penstock attach series.h5 *.pnval --interpolation linear --max-age 2 --dry-run",
        ],
    ),
    "verdict": Later(
        "penstock.cli.bench.verdict:verdict_command",
        short_help="Can this storage take this detector?",
        exit_codes=EXIT_CODES_OF_VERDICTS,
        examples=[
            "penstock verdict pilatus-6m /data",
            "penstock verdict pilatus-6m /data --quick --yes",
            "penstock verdict pilatus-6m /data --soak 600 --output verdict.json --report verdict.html",
            "penstock verdict eiger2-4m /data --ratio 8 --seconds 60 --dry-run",
        ],
    ),
    "describe": Later(
        "penstock.cli.plan.describe:describe_command",
        short_help="The data sheet of a storage and of this machine.",
        exit_codes=EXIT_CODES_OF_SHEETS,
        examples=[
            "penstock describe /data",
            "penstock describe /data --markdown data-sheet.md",
            "penstock describe /data --measure --devices --dry-run",
        ],
    ),
    "plan": Later(
        "penstock.cli.plan.plan:plan_command",
        short_help="What detectors need before storage is bought.",
        examples=[
            "penstock plan 2xeiger2-16m pilatus-6m --ratio 8 --duty 0.3 --retention 90",
            "penstock plan eiger2-16m@100 --measure --block nvme-server-example",
            "penstock plan --write 1TB/s --capacity 100PB --block test-brick-gen2 --headroom 0 --fill 1",
        ],
    ),
    "report": Later(
        "penstock.cli.campaign.report:report_command",
        short_help="A page with tables and plots from documents of measurements.",
        examples=[
            "penstock report verdict.json --output verdict.html",
            "penstock report run.json campaign.json --output report.html --markdown report.md --csv it.csv",
        ],
    ),
    "bench": Later(
        "penstock.cli.bench.group:bench_application",
        short_help="Measure a storage with one workload.",
    ),
    "compare": Later(
        "penstock.cli.bench.compare:compare_command",
        short_help="Is this storage better or worse than before?",
        exit_codes=EXIT_CODES_OF_COMPARISONS,
        examples=[
            "penstock compare before.json after.json --threshold 5%",
            "penstock compare runs/ssd runs/nfs --json",
            "penstock compare campaign.json --base-case 'rate=10 target=ssd' --case 'rate=10 target=nfs'",
            "penstock compare --trend nightly/",
        ],
    ),
    "campaign": Later(
        "penstock.cli.campaign.campaign:campaign_command",
        short_help="Measure many cases, many times, on one storage or several.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock campaign --list",
            "penstock campaign pilatus-6m-rates --target /data --dry-run",
            "penstock campaign campaign.yaml --target ssd=/a --target disk=/b --output result.json --yes",
            "penstock campaign campaign.yaml --target /data --output result.json --resume",
        ],
    ),
    "runs": Later(
        "penstock.cli.campaign.runs:runs_application",
        short_help="The catalogue of runs: where documents of measurements lie.",
    ),
    "demo": Later(
        "penstock.cli.demo:demo_command",
        short_help="Record a simulated detector, and check every pixel.",
        examples=[
            "penstock demo",
            "penstock demo --quick",
            "PENSTOCK_DATA=images/ penstock demo",
        ],
    ),
}

application = typer.Typer(
    name="penstock",
    help="Record detectors into NeXus HDF5 files at the speed of the storage, and measure what that is.",
    epilog=EXIT_CODES + " `penstock COMMAND --help` tells more about each command.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=lazy_group(COMMANDS),
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@application.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of the `penstock` command."""
    application(prog_name="penstock")
