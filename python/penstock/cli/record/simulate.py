"""`penstock simulate`"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import out, print_json, reports_errors, require_new, size_option
from penstock.cli.detector_choice import (
    CustomColumns,
    CustomFile,
    CustomRows,
    CustomType,
    DetectorName,
    choose_detector,
)
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.record.chain_choice import ReplayMemory
from penstock.cli.record.events import event_output
from penstock.cli.verbosity import progress, shows_progress
from penstock.model import panels
from penstock.model.catalogue import CUSTOM, Detector, replayed_custom, replayed_detector
from penstock.model.configuration import read_token
from penstock.model.errors import UsageError
from penstock.model.faults import faults_plan
from penstock.model.plans import DetectorPlan, FilesTarget
from penstock.model.problems import reason_of
from penstock.model.text import counted
from penstock.programs.simulate import (
    Simulation,
    check_encoding,
    check_faults,
    check_telling,
    detector_plan,
    encoding_note,
    parse_element_gap,
    parse_elements,
    parse_rate,
    parse_target,
    simulate,
    with_endpoints,
)
from penstock.report.progress import ProgressView
from penstock.report.tables import simulation_table

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.images.replay import Replay


@dataclass(frozen=True)
class _Options:
    """Options that are not fields of a simulation."""

    detector: DetectorName
    rate: Annotated[
        str,
        typer.Option(
            metavar="HZ|max",
            help="Frame rate in Hz, or max for unpaced. [default: the detector's own]",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = ""
    to: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="Receiver: tcp://HOST:PORT, or HOST:PORT; tcp://HOST:PORT,HOST:PORT for the"
            " ranks of a recorder, in turn; zmq://HOST:PORT, which binds as a detector does"
            " (with --elements one endpoint per element: zmq://HOST:PORT,HOST:PORT, or the"
            " given port and those after it); or files:FOLDER for one file per frame, with"
            " ?format=cbf, tiff or hdf5, and &rename=false to write files in place instead"
            " of renaming complete ones.",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = "tcp://127.0.0.1:9900"
    elements: Annotated[
        str,
        typer.Option(
            metavar="ROWSxCOLUMNS",
            help="Grid of equal elements into which each frame is split, each with a separate stream, as"
            " from a"
            " detector of several modules: over TCP to the receivers in turn, over ZeroMQ one endpoint each."
            " [default: 1x1]",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = ""
    element_gap: Annotated[
        str,
        typer.Option(
            metavar="ROWS,COLUMNS",
            help="Gap between elements in pixels, 0 to 65535. [default: 0,0]",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = ""
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=RATE|KIND@FRAMES",
            help="Fault to inject. Repeatable; the first rule that matches a frame applies. Kinds: drop;"
            " late:N"
            " (N frames later, or 50ms); reorder:N (shuffle N frames); duplicate; corrupt (pixels that cannot"
            " be decoded); flip (one bit of the pixels); shape (one row too few); cut (truncated message)."
            " Examples: drop=1%, late:8=0.01, duplicate@17,40-45; for one element drop/1=2%.",
            rich_help_panel=panels.FAULTS,
        ),
    ] = None
    fault_seed: Annotated[
        int,
        typer.Option(
            min=0, help="Seed of faults; equal seeds inject equal faults.", rich_help_panel=panels.FAULTS
        ),
    ] = 1
    fault_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="New file that lists each fault with its frame, as JSON lines.",
            rich_help_panel=panels.FAULTS,
        ),
    ] = None
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            help="Images to send instead of simulated ones: file or folder of CBF, CBF.bz2, TIFF, EDF, HDF5"
            " or"
            " npy; FILE::/PATH for one dataset of an HDF5 file. Repeatable. A custom detector takes rows,"
            " columns and type from them.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None
    replay_memory: ReplayMemory = "2GiB"
    file: CustomFile = None
    rows: CustomRows = None
    columns: CustomColumns = None
    type_: CustomType = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that the recorder requires; otherwise the variable PENSTOCK_TOKEN.",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, and exit.", rich_help_panel=panels.RUN)
    ] = False
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print events as JSON lines (with --dry-run: the job).",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False

    @property
    def sizes(self) -> tuple[int | None, int | None, str | None]:
        """Returns rows, columns and type of a custom detector."""
        return self.rows, self.columns, self.type_


def _run(simulation: Simulation, options: _Options) -> None:
    """Simulate a detector at its frame rate, or replay recorded images as one.

    It sends one channel. For several channels, such as energy thresholds, use the Python client.
    """
    detector, replay, json = options.detector, options.replay, options.json
    of_images = bool(replay) and detector == CUSTOM and (*options.sizes, options.file) == (None,) * 4
    chosen = (
        replayed_custom()
        if of_images
        else choose_detector("simulate", detector, *options.sizes, options.file)
    )
    target = parse_target(options.to, read_token(options.token_file, os.environ))
    require_new(options.fault_log, "--fault-log")
    fault_log = None if options.fault_log is None else str(options.fault_log.absolute())
    faults = faults_plan(options.fault or [], options.fault_seed, fault_log)
    simulation.rate_hz = parse_rate(options.rate, chosen)
    simulation.faults = faults
    check_encoding(simulation.encoding, target)
    memory = size_option(options.replay_memory, "--replay-memory")
    with progress() as view, contextlib.ExitStack() as stack:
        images: Replay | None = None
        if replay:
            from penstock.files.images.replay import replay_file  # it loads HDF5

            reading = "reading images"
            images = stack.enter_context(
                replay_file(
                    replay,
                    memory,
                    simulation.frames,
                    lambda n, of: view.update(reading, n, of, f"{n} of {of}"),
                )
            )
            view.finish(
                reading,
                f"{counted(images.frames, 'image')} of {images.rows} x {images.columns} {images.type}",
            )
        simulation.elements = parse_elements(options.elements, _sent_as(chosen, images), target)
        target = with_endpoints(target, simulation.elements)
        simulation.element_gap = parse_element_gap(options.element_gap, simulation.elements)
        check_telling(simulation.elements_told, target, simulation.elements, simulation.element_gap)
        check_faults(faults, simulation.frames, simulation.elements, target)
        plan = detector_plan(chosen, simulation, target, images)
        if images is not None and not of_images and _differs(images, chosen):
            view.info(_note_on(images, chosen))
        if note := encoding_note(simulation.encoding, target):
            view.info(note)
        if not options.dry_run and isinstance(plan.to, FilesTarget):
            _make_folder(Path(plan.to.folder))
        if options.dry_run:
            _show_plan(plan, ", ".join(map(str, replay or [])), json)
        else:
            _simulate(plan, view, json)


simulate_command = reports_errors(
    shows_progress(command_of(_run, ModelTable(Simulation), DataclassTable(_Options)))
)


def _sent_as(detector: Detector, images: "Replay | None") -> Detector:
    return (
        detector if images is None else replayed_detector(detector, images.rows, images.columns, images.type)
    )


def _differs(images: "Replay", detector: Detector) -> bool:
    return (images.rows, images.columns, images.type) != (detector.rows, detector.columns, detector.type)


def _note_on(images: "Replay", detector: Detector) -> str:
    mine = f"{images.rows} x {images.columns} {images.type}"
    its = f"{detector.rows} x {detector.columns} {detector.type}"
    return f"note: the images are {mine}, {detector.name} has {its}; the images are sent unchanged"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to files:{folder}: cannot create the folder: {reason_of(error)}",
            "choose another one, or create it",
        ) from error


def _show_plan(plan: DetectorPlan, replayed: str, json: bool) -> None:
    if json:
        print_json(plan.without_tokens())
    else:
        out().print(simulation_table(plan, replayed))


def _simulate(plan: DetectorPlan, view: ProgressView, json: bool) -> None:
    simulate(plan, event_output(view, json), view.say)
