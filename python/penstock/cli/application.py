"""The command tree. A command's modules are loaded when it is called (lazy.py)."""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.lazy import Later, LaterGroup, context_settings, lazy_group
from penstock.cli.words import (
    EXIT_CODES,
    EXIT_CODES_OF_CHECKS,
    EXIT_CODES_OF_COMPARISONS,
    EXIT_CODES_OF_FILES,
    EXIT_CODES_OF_PLANS,
    EXIT_CODES_OF_RUNS,
    EXIT_CODES_OF_SHEETS,
    EXIT_CODES_OF_VERDICTS,
)

_RECORD = "Record a detector"
_READ = "Read, check and convert files"
_MEASURE = "Measure storage and networks"
_PLAN = "Plan and look up"

BENCH = {
    "frames": Later(
        "penstock.cli.bench.frames:frames_command",
        short_help="Write frames at a fixed rate, or at maximum rate.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench frames /data --frame-size 8MiB --rate 100 --seconds 60",
            "penstock bench frames /data --frame-size 512KiB --rate 0 --frames 1000 --yes",
            "penstock bench frames /data --format cbf --shape 2527x2463 --rate 25 --rename",
            "penstock bench frames /data --frame-size 8MiB --rate 50"
            " --background 'stream --threads 2 --size 8GiB'",
        ],
    ),
    "clean": Later(
        "penstock.cli.bench.frames:clean_command",
        short_help="Remove directories that killed runs left behind.",
        examples=["penstock bench clean /data", "penstock bench clean /data --yes"],
    ),
    "stream": Later(
        "penstock.cli.bench.stream:stream_command",
        short_help="Measure write and read bandwidth of large files.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench stream /data --threads 2 --size 8GiB",
            "penstock bench stream /data --threads 4 --shared --segments 256 --size 1GiB --transfer 1MiB",
            "penstock bench stream /data --transfer 1MiB --buffered --sync end --dry-run",
            "penstock bench stream /data --ranks 4 --backend mpiio --shared --collective --hint cb_nodes=2",
            "penstock bench stream /data --backend hdf5 --size 8GiB",
        ],
    ),
    "hdf5": Later(
        "penstock.cli.bench.stream:hdf5_command",
        short_help="Measure write and read bandwidth through HDF5.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench hdf5 /data --size 8GiB --chunk 1MiB",
            "penstock bench hdf5 /data --deflate 1 --content compressible --ratio 4",
            "penstock bench hdf5 /data --ranks 4 --shared --collective",
        ],
    ),
    "metadata": Later(
        "penstock.cli.bench.metadata:metadata_command",
        short_help="Measure how fast files and directories are created and removed.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench metadata /data --items 10000 --threads 4",
            "penstock bench metadata /data --items 10 --depth 5 --branch 5 --iterations 5 --dry-run",
            "penstock bench metadata /data --threads 8 --shared --shift 1 --only files --size 4KiB",
            "penstock bench metadata /data --ranks 4 --threads 2 --shift 2",
        ],
    ),
    "network": Later(
        "penstock.cli.bench.network:network_command",
        short_help="Measure the network between two machines.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench network --local",
            "penstock bench network --listen eth1 --token-file token.txt",
            "penstock bench network 10.1.2.3 --token-file token.txt --streams 4 --link 100Gb",
        ],
    ),
}

LAYOUT = {
    "list": Later(
        "penstock.cli.record.layout:list_command",
        short_help="List the layouts that come with Penstock.",
        examples=["penstock layout list"],
    ),
    "check": Later(
        "penstock.cli.record.layout:check_command",
        short_help="Check a layout file and report errors by line.",
        examples=["penstock layout check beamline.xml", "penstock layout check nxtomo --json"],
    ),
    "show": Later(
        "penstock.cli.record.layout:show_command",
        short_help="Show the tree that a layout makes.",
        examples=[
            "penstock layout show nxmx",
            "penstock layout show beamline.xml --yaml",
            "penstock layout show 'nxtomo?rotation_angle=theta'",
        ],
    ),
}

RUNS = {
    "list": Later(
        "penstock.cli.campaign.runs:list_command",
        short_help="List documents, the oldest first.",
        examples=[
            "penstock runs list",
            "penstock runs list --workload frames --target /data --since 30d --validity valid",
            "penstock runs list --kind campaign --json",
            "penstock runs list --validity incomplete",
        ],
    ),
    "show": Later(
        "penstock.cli.campaign.runs:show_command",
        short_help="Show the index entry of one document.",
        examples=["penstock runs show 12", "penstock runs show run.json --json"],
    ),
    "add": Later(
        "penstock.cli.campaign.runs:add_command",
        short_help="Add documents, including ones that moved or changed.",
        examples=["penstock runs add results/", "penstock runs add run.json verdict.json"],
    ),
    "forget": Later(
        "penstock.cli.campaign.runs:forget_command",
        short_help="Remove documents from the index; the files stay.",
        examples=["penstock runs forget 12 13", "penstock runs forget --missing"],
    ),
}

COMMANDS: dict[str, Later | LaterGroup] = {
    "record": Later(
        "penstock.cli.record.record:record_command",
        short_help="Record detector series into NeXus HDF5 files.",
        panel=_RECORD,
        examples=[
            "penstock record --folder data",
            "penstock record beamline.yaml --dry-run",
            "penstock record --zmq tcp://10.1.2.3:31001 --folder /data --series 1",
            "penstock record --listen 10.1.2.3:9900 --token-file token.txt --folder /data",
        ],
    ),
    "pva": Later(
        "penstock.cli.record.pva:pva_command",
        short_help="Send frames of an EPICS areaDetector to a recorder.",
        panel=_RECORD,
        examples=[
            "penstock pva 13SIM1:Pva1:Image --to tcp://127.0.0.1:9900",
            "penstock pva 13SIM1:Pva1:Image --frames 1000 --start detector.yaml",
            "penstock pva 13SIM1:Pva1:Image --name-attribute Scan --name '{attribute}'",
        ],
    ),
    "simulate": Later(
        "penstock.cli.record.simulate:simulate_command",
        short_help="Simulate a detector, or replay recorded images as one.",
        panel=_RECORD,
        examples=[
            "penstock simulate pilatus-6m --frames 250",
            "penstock simulate eiger2-16m --rate max --encoding bslz4 --to tcp://127.0.0.1:9900",
            "penstock simulate custom --rows 512 --columns 512 --type uint32 --frames 1000 --rate 100",
            "penstock simulate pilatus-6m --replay images/ --rate 25",
            "penstock simulate pilatus-6m --frames 100 --to 'files:out?format=cbf'",
        ],
    ),
    "collect": Later(
        "penstock.cli.record.collect:collect_command",
        short_help="Collect values of motors and sensors into a journal.",
        panel=_RECORD,
        examples=[
            "penstock collect --folder data",
            "penstock collect --folder data --listen 10.1.2.3:9930 --token-file token.txt",
            "penstock collect --folder data --pva RING:Current --pva BL1:Stage:X",
        ],
    ),
    "demo": Later(
        "penstock.cli.demo:demo_command",
        short_help="Record a simulated detector and check every pixel.",
        panel=_RECORD,
        examples=[
            "penstock demo",
            "penstock demo --quick",
            "PENSTOCK_DATA=images/ penstock demo",
        ],
    ),
    "info": Later(
        "penstock.cli.files.info:info_command",
        short_help="Show a file's frames, codec, accounting, times and tree.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock info series.h5",
            "penstock info series.h5 --json",
        ],
    ),
    "check": Later(
        "penstock.cli.files.check:check_command",
        short_help="Check every chunk, every frame and the structure of a file.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_CHECKS,
        examples=[
            "penstock check series.h5",
            "penstock check series.h5 --against recorded",
            "penstock check series.h5 --against images/",
        ],
    ),
    "recover": Later(
        "penstock.cli.files.recover:recover_command",
        short_help="Complete a file whose recorder was killed.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock recover series.h5 --dry-run",
            "penstock recover series.h5",
        ],
    ),
    "join": Later(
        "penstock.cli.files.join:join_command",
        short_help="Link the files of several series into one file.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock join night.h5 scan_1.h5 scan_2.h5",
            "penstock join night.h5 scan_3.h5 --add",
        ],
    ),
    "attach": Later(
        "penstock.cli.record.attach:attach_command",
        short_help="Match the values of a journal to the frames of a series.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock attach series.h5 values-20260102T030405.pnval",
            "penstock attach series.h5 *.pnval --interpolation linear --max-age 2 --dry-run",
        ],
    ),
    "export": Later(
        "penstock.cli.files.export:export_command",
        short_help="Write a master file for XDS plug-ins or EIGER readers.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock export series.h5 --for xds",
            "penstock export series.h5 --for xds --copy",
            "penstock export series.h5 --for eiger --output elsewhere/series_master.h5",
            "penstock export series.h5 --for xds --dry-run",
        ],
    ),
    "verdict": Later(
        "penstock.cli.bench.verdict:verdict_command",
        short_help="Measure whether a storage sustains a detector.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_VERDICTS,
        examples=[
            "penstock verdict pilatus-6m /data",
            "penstock verdict pilatus-6m /data --quick --yes",
            "penstock verdict pilatus-6m /data --soak 600 --output verdict.json --report verdict.html",
            "penstock verdict eiger2-4m /data --ratio 8 --seconds 60 --dry-run",
        ],
    ),
    "bench": LaterGroup("Measure a storage or a network with one workload.", BENCH, _MEASURE),
    "campaign": Later(
        "penstock.cli.campaign.campaign:campaign_command",
        required="--target [NAME=]PATH --output FILE",
        short_help="Measure many cases repeatedly, on one or more storages.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock campaign --list",
            "penstock campaign pilatus-6m-rates --target /data --dry-run",
            "penstock campaign campaign.yaml --target ssd=/a --target disk=/b --output result.json --yes",
            "penstock campaign campaign.yaml --target /data --output result.json --resume",
        ],
    ),
    "compare": Later(
        "penstock.cli.bench.compare:compare_command",
        short_help="Compare two sets of measurements, or follow a trend.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_COMPARISONS,
        examples=[
            "penstock compare before.json after.json --threshold 5%",
            "penstock compare runs/ssd runs/nfs --json",
            "penstock compare campaign.json --base-case 'rate=10 target=ssd' --case 'rate=10 target=nfs'",
            "penstock compare --trend nightly/",
        ],
    ),
    "report": Later(
        "penstock.cli.campaign.report:report_command",
        short_help="Write a page with tables and plots of measurements.",
        panel=_MEASURE,
        examples=[
            "penstock report verdict.json --output verdict.html",
            "penstock report run.json campaign.json --output report.html --markdown report.md --csv it.csv",
        ],
    ),
    "runs": LaterGroup("Manage the run index, a list of documents of measurements.", RUNS, _MEASURE),
    "describe": Later(
        "penstock.cli.plan.describe:describe_command",
        short_help="Show the data sheet of a storage and of this machine.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_SHEETS,
        examples=[
            "penstock describe /data",
            "penstock describe /data --markdown data-sheet.md",
            "penstock describe /data --measure --devices --dry-run",
        ],
    ),
    "plan": Later(
        "penstock.cli.plan.plan:plan_command",
        short_help="Compute the storage and servers that detectors need.",
        panel=_PLAN,
        exit_codes=EXIT_CODES_OF_PLANS,
        examples=[
            "penstock plan 2xeiger2-16m pilatus-6m --ratio 8 --duty 0.3 --retention 90",
            "penstock plan eiger2-16m@100 --measure --block nvme-server-example",
            "penstock plan --write 1TB/s --capacity 100PB --block test-brick-gen2 --headroom 0 --fill 1",
        ],
    ),
    "advise": Later(
        "penstock.cli.plan.advise:advise_command",
        short_help="Recommend chunks, codec and alignment for your readers.",
        panel=_PLAN,
        examples=[
            "penstock advise eiger2-16m --folder /data --read frames",
            "penstock advise eiger2-4m --read 'frames*3' --read roi:128x128",
            "penstock advise custom --rows 2048 --columns 2048 --read rows --images images/",
        ],
    ),
    "detectors": Later(
        "penstock.cli.plan.detectors:detectors_command",
        short_help="List the detectors that can be simulated.",
        panel=_PLAN,
        examples=[
            "penstock detectors",
            "penstock detectors pilatus-6m",
            "penstock detectors --json",
        ],
    ),
    "layout": LaterGroup("List, check and show layouts: the tree inside a file.", LAYOUT, _PLAN),
    "filters": Later(
        "penstock.cli.record.filters:filters_command",
        short_help="List the HDF5 filter plug-ins that the recorder can use.",
        panel=_PLAN,
        examples=[
            "penstock filters",
            "penstock filters --json",
        ],
    ),
    "help": Later(
        "penstock.cli.help:help_command",
        short_help="Show the help of a command.",
        panel=_PLAN,
        examples=["penstock help", "penstock help bench frames"],
    ),
}

application = typer.Typer(
    name="penstock",
    help="Record detectors into NeXus HDF5 files, and measure which rates a storage sustains.",
    epilog=EXIT_CODES + " `penstock help COMMAND` shows all options of a command.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    pretty_exceptions_enable=False,
    context_settings=context_settings(),
    cls=lazy_group(COMMANDS),
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@application.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of the `penstock` command."""
    application(prog_name="penstock")
