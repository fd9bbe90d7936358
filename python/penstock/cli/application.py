"""The command tree. A command's modules are loaded when it is called (lazy.py)."""

import sys
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.lazy import Later, LaterGroup, context_settings, lazy_group
from penstock.cli.streams import flush_streams, own_streams
from penstock.cli.words import (
    EXIT_CODES,
    EXIT_CODES_OF_CHECKS,
    EXIT_CODES_OF_COMPARISONS,
    EXIT_CODES_OF_DOCTOR,
    EXIT_CODES_OF_FILES,
    EXIT_CODES_OF_PLANS,
    EXIT_CODES_OF_RUNS,
    EXIT_CODES_OF_SHEETS,
    EXIT_CODES_OF_VERDICTS,
)
from penstock.model.errors import SYSTEM_ERRORS, ExitCode, PenstockError

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
    "analysis": Later(
        "penstock.cli.bench.analysis:analysis_command",
        short_help="Measure event analysis: jobs that read ROOT files.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench analysis /data",
            "penstock bench analysis /data --jobs 8 --pattern scan --read-ahead 4MiB",
            "penstock bench analysis root://server//store --jobs 4 --no-vector-reads --yes",
        ],
    ),
    "clean": Later(
        "penstock.cli.bench.clean:clean_command",
        short_help="Remove data sets, and directories that killed runs left behind.",
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
    "acquire-and-analyse": Later(
        "penstock.cli.bench.acquire:acquire_command",
        short_help="Find how many jobs may read while a detector is recorded.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench acquire-and-analyse /data eiger2-1m --rate 100",
            "penstock bench acquire-and-analyse /data eiger2-1m --rate 100 --read growing --jobs-max 4",
            "penstock bench acquire-and-analyse /data custom --rows 1024 --columns 1024 --rate 50 --dry-run",
        ],
    ),
    "seismic-sort": Later(
        "penstock.cli.bench.seismic_sort:seismic_sort_command",
        short_help="Measure an out-of-core sort of seismic traces.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench seismic-sort /data",
            "penstock bench seismic-sort /data --size 64GiB --memory 4GiB --repetitions 5",
            "penstock bench seismic-sort /data --scratch lab:fast",
        ],
    ),
    "uvbuffer": Later(
        "penstock.cli.bench.uvbuffer:uvbuffer_command",
        short_help="Measure the buffer of a radio telescope.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench uvbuffer /data",
            "penstock bench uvbuffer /data --channels 10240 --file-size 4MiB --writers 16 --readers 64",
            "penstock bench uvbuffer lab:moosefs --seconds 120 --repetitions 3",
        ],
    ),
    "imaging": Later(
        "penstock.cli.bench.imaging:imaging_command",
        short_help="Measure parallel processing of one HDF5 file.",
        exit_codes=EXIT_CODES_OF_RUNS,
        examples=[
            "penstock bench imaging /data --jobs 4",
            "penstock bench imaging /data --jobs 4 --read direct --process statistics --cached",
            "penstock bench imaging /data --images scan_042.h5 --jobs 8 --process integrate",
            "penstock bench imaging /data --shape 2162x2068 --type uint32 --layout deflate --dry-run",
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

LAB = {
    "up": Later(
        "penstock.cli.lab.lab:up_command",
        short_help="Bring up a storage system on this machine.",
        examples=[
            "penstock lab up moosefs",
            "penstock lab up moosefs --servers 3 --disks loop:8GiB --link 1Gb/s",
            "penstock lab up btrfs --servers 4 --option raid=raid6 --disks ram:1GiB",
            "penstock lab up ext4 --name scratch --disks dir:/data/a",
            "penstock lab up xrootd --disks ram:1GiB",
        ],
    ),
    "down": Later(
        "penstock.cli.lab.lab:down_command",
        short_help="Take a laboratory down, with its data.",
        examples=["penstock lab down moosefs", "penstock lab down --all"],
    ),
    "list": Later(
        "penstock.cli.lab.lab:list_command",
        short_help="List laboratories that are up.",
        examples=["penstock lab list", "penstock lab list --json"],
    ),
    "status": Later(
        "penstock.cli.lab.lab:status_command",
        short_help="Show servers and clients of a laboratory.",
        examples=["penstock lab status moosefs"],
    ),
    "run": Later(
        "penstock.cli.lab.lab:run_command",
        short_help="Bring a system up, run a command on it, take it down.",
        examples=[
            "penstock lab run moosefs -- sh -c 'penstock verdict pilatus-6m $PENSTOCK_LAB_MOUNT'",
            "penstock lab run xfs --disks ram:4GiB -- sh -c 'cp -r data $PENSTOCK_LAB_MOUNT'",
        ],
    ),
    "exec": Later(
        "penstock.cli.lab.lab:exec_command",
        short_help="Run a command with the network of a client.",
        examples=["penstock lab exec moosefs -- mfscli -H 10.78.0.100 -SCS"],
    ),
    "logs": Later(
        "penstock.cli.lab.lab:logs_command",
        short_help="Show the last lines of the daemons' logs.",
        examples=["penstock lab logs moosefs", "penstock lab logs moosefs server-2 --lines 100"],
    ),
    "fail": Later(
        "penstock.cli.lab.faults:fail_command",
        short_help="Kill a server, as a crash does.",
        examples=["penstock lab fail moosefs 2"],
    ),
    "heal": Later(
        "penstock.cli.lab.faults:heal_command",
        short_help="Start a killed server again, or end its limits.",
        examples=["penstock lab heal moosefs 2"],
    ),
    "slow": Later(
        "penstock.cli.lab.faults:slow_command",
        short_help="Slow a server's disk or link down, or stall it.",
        examples=["penstock lab slow moosefs 2 --disk 50MB/s", "penstock lab slow moosefs 2 --stall"],
    ),
    "degrade": Later(
        "penstock.cli.lab.faults:degrade_command",
        short_help="Record a series while a server fails.",
        examples=[
            "penstock lab degrade moosefs 2",
            "penstock lab degrade moosefs 2 --stall --at 5 --away 20 --seconds 40 --output degraded.json",
        ],
    ),
    "conform": Later(
        "penstock.cli.lab.conform:conform_command",
        short_help="Check what a file system promises.",
        examples=[
            "penstock lab conform moosefs",
            "penstock lab conform moosefs --only 'record locks' --only names",
        ],
    ),
    "doctor": Later(
        "penstock.cli.lab.lab:doctor_command",
        short_help="Show which systems can be brought up here.",
        examples=["penstock lab doctor", "penstock lab doctor moosefs --install"],
    ),
}

COMMANDS: dict[str, Later | LaterGroup] = {
    "init": Later(
        "penstock.cli.record.init:init_command",
        short_help="Write a new configuration for `penstock record`.",
        panel=_RECORD,
        examples=["penstock init", "penstock init beamline.yaml"],
    ),
    "doctor": Later(
        "penstock.cli.plan.doctor:doctor_command",
        short_help="Check what on this machine stands in a recorder's way.",
        panel=_RECORD,
        exit_codes=EXIT_CODES_OF_DOCTOR,
        examples=[
            "penstock doctor /data",
            "penstock doctor /data --detector eiger2-16m",
            "penstock doctor /data --detector pilatus-6m --codec bszstd --json",
        ],
    ),
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
            "penstock info series.h5 --tree /entry/instrument/detector",
        ],
    ),
    "view": Later(
        "penstock.cli.files.view:view_command",
        short_help="Write a picture of a frame, a sum of frames, or a movie.",
        panel=_READ,
        exit_codes=EXIT_CODES_OF_FILES,
        examples=[
            "penstock view series.h5",
            "penstock view series.h5 --frame 7 --region 0:512,1024:2048 --range 1:1000",
            "penstock view series.h5 --sum --frames 0:100 --output first-100.png",
            "penstock view series_master.h5 --movie --scale linear --colormap gray_r",
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
    "rehearse": Later(
        "penstock.cli.bench.rehearse:rehearse_command",
        short_help="Rehearse a recording: detector, network, recorder, storage.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_VERDICTS,
        examples=[
            "penstock rehearse pilatus-6m /data --config beamline.yaml",
            "penstock rehearse eiger2-4m /data --from dcu-host --listen 10.1.2.3:9900 --soak 600",
            "penstock rehearse pilatus-6m /data --replay images/ --output rehearsal.json",
            "penstock rehearse eiger2-16m /data --ranks 4 --dry-run",
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
        short_help="Compare two storages or measurements, or follow a trend.",
        panel=_MEASURE,
        exit_codes=EXIT_CODES_OF_COMPARISONS,
        examples=[
            "penstock compare /data1 /data2",
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
    "lab": LaterGroup("Bring up storage systems on this machine, to measure them.", LAB, _MEASURE),
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
            "penstock plan 2xeiger2-16m pilatus-6m --hours-per-day 8 --days-per-week 5 --retention 2y",
            "penstock plan --beamlines facility.yaml --tier fast=2w --tier tape --retention 10y",
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
    """Runs the command of this process. Reports errors outside a command too, as when help is printed."""
    with own_streams():
        try:
            try:
                application(prog_name="penstock")
            finally:
                flush_streams()
        except BrokenPipeError:
            sys.exit(int(ExitCode.FAILED))
        except (PenstockError, *SYSTEM_ERRORS) as error:
            # Loading them takes a while, and the list of commands does without.
            from penstock.cli.common import show_error
            from penstock.model.problems import in_words

            in_our_words = in_words(error)
            show_error(in_our_words)
            sys.exit(int(in_our_words.code))
