"""The command tree."""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.advise import advise_command
from penstock.cli.bench import bench_application
from penstock.cli.bench_metadata import metadata_command
from penstock.cli.bench_network import network_command
from penstock.cli.bench_stream import stream_command
from penstock.cli.campaign import campaign_command
from penstock.cli.check import check_command
from penstock.cli.common import EXIT_CODES, examples
from penstock.cli.compare import compare_command
from penstock.cli.demo import demo_command
from penstock.cli.describe import describe_command
from penstock.cli.detectors import detectors_command
from penstock.cli.filters import filters_command
from penstock.cli.info import info_command
from penstock.cli.plan import plan_command
from penstock.cli.record import record_command
from penstock.cli.recover import recover_command
from penstock.cli.report import report_command
from penstock.cli.runs import runs_application
from penstock.cli.simulate import simulate_command
from penstock.cli.verdict import verdict_command

application = typer.Typer(
    name="penstock",
    help="Record detectors into NeXus HDF5 files at the speed of the storage, and measure what that is.",
    epilog=EXIT_CODES + " `penstock COMMAND --help` tells more about each command.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


application.command(
    "record",
    epilog=examples(
        "penstock record --folder data",
        "penstock record beamline.yaml --dry-run",
        "penstock record --zmq tcp://10.1.2.3:31001 --folder /data --series 1",
        "penstock record --listen 10.1.2.3:9900 --token-file token.txt --folder /data",
    ),
)(record_command)
application.command(
    "simulate",
    epilog=examples(
        "penstock simulate pilatus-6m --frames 250",
        "penstock simulate eiger2-16m --rate max --encoding bslz4 --to tcp://127.0.0.1:9900",
        "penstock simulate custom --rows 512 --columns 512 --type uint32 --frames 1000 --rate 100",
        "penstock simulate pilatus-6m --replay images/ --rate 25",
        "penstock simulate pilatus-6m --frames 100 --to 'files:out?format=cbf'",
    ),
)(simulate_command)
application.command(
    "detectors",
    epilog=examples("penstock detectors", "penstock detectors pilatus-6m", "penstock detectors --json"),
)(detectors_command)
application.command(
    "filters",
    short_help="The HDF5 filter plug-ins that the recorder can use.",
    epilog=examples("penstock filters", "penstock filters --json"),
)(filters_command)
application.command(
    "advise",
    short_help="Recommend chunks for the way in which files will be read.",
    epilog=examples(
        "penstock advise eiger2-16m --folder /data --read frames",
        "penstock advise eiger2-4m --read 'frames*3' --read roi:128x128",
        "penstock advise custom --rows 2048 --columns 2048 --read rows --like images/",
    ),
)(advise_command)
application.command("info", epilog=examples("penstock info series.h5", "penstock info series.h5 --json"))(
    info_command
)
application.command(
    "check",
    short_help="Check a file: every chunk, every frame, the structure.",
    epilog=examples(
        "penstock check series.h5",
        "penstock check series.h5 --against recorded",
        "penstock check series.h5 --against images/",
    ),
)(check_command)
application.command(
    "recover",
    short_help="Complete a file whose recorder was killed.",
    epilog=examples("penstock recover series.h5 --dry-run", "penstock recover series.h5"),
)(recover_command)
application.command(
    "verdict",
    short_help="Can this storage take this detector?",
    epilog=examples(
        "penstock verdict pilatus-6m /data",
        "penstock verdict pilatus-6m /data --quick --yes",
        "penstock verdict pilatus-6m /data --soak 600 --output verdict.json --report verdict.html",
        "penstock verdict eiger2-4m /data --ratio 8 --seconds 60 --dry-run",
    ),
)(verdict_command)
application.command(
    "describe",
    short_help="The data sheet of a storage and of this machine.",
    epilog=examples(
        "penstock describe /data",
        "penstock describe /data --markdown data-sheet.md",
        "penstock describe /data --measure --devices --dry-run",
    ),
)(describe_command)
application.command(
    "plan",
    short_help="What detectors need before storage is bought.",
    epilog=examples(
        "penstock plan 2xeiger2-16m pilatus-6m --ratio 8 --duty 0.3 --retention 90",
        "penstock plan eiger2-16m@100 --measure --block nvme-server-example",
        "penstock plan --write 1TB/s --capacity 100PB --block test-brick-gen2 --headroom 0 --fill 1",
    ),
)(plan_command)
application.command(
    "report",
    short_help="A page with tables and plots from documents of measurements.",
    epilog=examples(
        "penstock report verdict.json --output verdict.html",
        "penstock report run.json campaign.json --output report.html --markdown report.md --csv report.csv",
    ),
)(report_command)
bench_application.command(
    "stream",
    epilog=examples(
        "penstock bench stream /data --threads 2 --size 8GiB",
        "penstock bench stream /data --threads 4 --shared --segments 256 --size 1GiB --transfer 1MiB",
        "penstock bench stream /data --transfer 1MiB --buffered --sync end --dry-run",
        "penstock bench stream /data --ranks 4 --backend mpiio --shared --collective --hint cb_nodes=2",
    ),
)(stream_command)
bench_application.command(
    "metadata",
    epilog=examples(
        "penstock bench metadata /data --items 10000 --threads 4",
        "penstock bench metadata /data --items 10 --depth 5 --branch 5 --iterations 5 --dry-run",
        "penstock bench metadata /data --threads 8 --shared --shift 1 --only files --size 4KiB",
    ),
)(metadata_command)
bench_application.command(
    "network",
    short_help="Measure the network between two machines.",
    epilog=examples(
        "penstock bench network --local",
        "penstock bench network --listen eth1 --token-file token.txt",
        "penstock bench network 10.1.2.3 --token-file token.txt --streams 4 --link 100Gb",
    ),
)(network_command)
application.add_typer(bench_application, name="bench")
application.command(
    "compare",
    short_help="Is this storage better or worse than before?",
    epilog=examples(
        "penstock compare before.json after.json --threshold 5%",
        "penstock compare runs/ssd runs/nfs --json",
        "penstock compare campaign.json --base-case ssd --case nfs",
        "penstock compare --trend nightly/",
    ),
)(compare_command)
application.command(
    "campaign",
    short_help="Measure many cases, many times, on one storage or several.",
    epilog=examples(
        "penstock campaign --list",
        "penstock campaign pilatus-6m-rates --target /data --dry-run",
        "penstock campaign campaign.yaml --target ssd=/a --target disk=/b --output result.json --yes",
        "penstock campaign campaign.yaml --target /data --output result.json --resume",
    ),
)(campaign_command)
application.add_typer(runs_application, name="runs")
application.command(
    "demo",
    short_help="Record a simulated detector, and check every pixel.",
    epilog=examples("penstock demo", "penstock demo --quick", "PENSTOCK_DATA=images/ penstock demo"),
)(demo_command)


def main() -> None:
    """The entry point of the `penstock` command."""
    application(prog_name="penstock")
