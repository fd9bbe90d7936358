"""`penstock simulate`"""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import err, print_json, print_json_line, reports_errors, size_option
from penstock.cli.detector_choice import CustomColumns, CustomRows, CustomType, choose_detector
from penstock.model.catalogue import CUSTOM, Detector, replayed_custom, replayed_detector
from penstock.model.configuration import read_token
from penstock.model.errors import UsageError
from penstock.model.events import Event
from penstock.model.faults import faults_plan
from penstock.model.plans import DetectorPlan, FilesTarget
from penstock.programs.simulate import (
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
    simulation_from,
    with_endpoints,
)
from penstock.report.progress import ProgressView, show
from penstock.report.tables import simulation_table

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.replay import Replay


@reports_errors
def simulate_command(
    detector: Annotated[str, typer.Argument(help="A name from `penstock detectors`, or `custom`.")],
    frames: Annotated[int, typer.Option(min=1, help="How many to send.")] = 100,
    rate: Annotated[
        str, typer.Option(metavar="HZ|max", help="Frames a second. [default: the detector's own]")
    ] = "",
    to: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="tcp://HOST:PORT, or tcp://HOST:PORT,HOST:PORT for the ranks of a recorder, in"
            " turns; zmq://HOST:PORT (binds, as a detector does; with --elements one each, zmq://HOST:PORT,HOST:PORT"
            " or that port and those behind it); or files:FOLDER, one file a"
            " frame, followed by ?format=cbf, tiff or hdf5, and by &rename=false to write each file in place"
            " instead of renaming it when it is complete.",
        ),
    ] = "tcp://127.0.0.1:9900",
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same frames.")] = 1,
    distinct_frames: Annotated[
        int, typer.Option(min=1, help="Different images; they come round again.")
    ] = 16,
    ratio: Annotated[float | None, typer.Option(min=1.0, help="Target bslz4 compression ratio.")] = None,
    encoding: Annotated[
        str,
        typer.Option(
            help="As the detector sends: none, bslz4, bszstd or lz4; zstd only to files, as Stream V2"
            " has no name for it."
        ),
    ] = "none",
    elements: Annotated[
        str,
        typer.Option(
            metavar="ROWSxCOLUMNS",
            help="Cut each frame into so many equal elements, each with a stream of its own, as a"
            " detector of several modules sends them: over TCP to the receivers in turns, over ZeroMQ each at"
            " its own endpoint.",
        ),
    ] = "",
    element_gap: Annotated[
        str,
        typer.Option(
            metavar="ROWS,COLUMNS", help="Pixels between the elements, where none are; without it they touch."
        ),
    ] = "",
    tell_elements: Annotated[
        bool,
        typer.Option(
            "--tell-elements/--no-tell-elements",
            help="Say in start messages which element a stream is of. Without, as of detectors that cannot,"
            " the recorder's configuration has to (over ZeroMQ only).",
        ),
    ] = True,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=RATE|KIND@FRAMES",
            help="Let something go wrong on the way; repeatable, the first that fits a frame counts. drop;"
            " late:N (N frames, or 50ms); reorder:N (N frames change places); duplicate; corrupt (pixels that"
            " cannot be decoded); flip (a bit of the pixels); shape (a row too few); cut (the message). As"
            " drop=1%, late:8=0.01, duplicate@17,40-45, and of one element: drop/1=2%.",
        ),
    ] = None,
    fault_seed: Annotated[int, typer.Option(min=0, help="The same seed lets the same frames go wrong.")] = 1,
    fault_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write down what was done to which frame, as JSON lines (a new file)."
        ),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            help="Send these images (file or folder: CBF, CBF.bz2, TIFF, EDF, HDF5, npy; FILE::/PATH for"
            " one dataset of an HDF5 file); repeatable. A custom detector takes rows, columns and type"
            " from them."
        ),
    ] = None,
    replay_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Read no more images than fit.")
    ] = "2GiB",
    stamp: Annotated[
        bool, typer.Option(help="Write the frame number into the first pixels of simulated frames.")
    ] = True,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the recorder's token; otherwise PENSTOCK_TOKEN.")
    ] = None,
    connect_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Seconds to wait for a receiver.")
    ] = 10.0,
    reconnect_timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Wait so long for a recorder that was lost, and send it what it has not acknowledged."
            " [default: as --connect-timeout]",
        ),
    ] = None,
    series_id: Annotated[int, typer.Option(min=0, help="Number of the series.")] = 1,
    series_name: Annotated[
        str, typer.Option(help="series_unique_id. [default: made from detector and time]")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and end.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Events as JSON lines (with --dry-run: the plan).")
    ] = False,
) -> None:
    """Simulate a detector, or replay real images as one."""
    of_images = bool(replay) and detector == CUSTOM and (rows, columns, type_) == (None, None, None)
    chosen = replayed_custom() if of_images else choose_detector("simulate", detector, rows, columns, type_)
    target = parse_target(to, read_token(token_file, os.environ))
    faults = faults_plan(fault or [], fault_seed, None if fault_log is None else str(fault_log.absolute()))
    simulation = simulation_from(
        frames=frames,
        rate_hz=parse_rate(rate, chosen),
        seed=seed,
        distinct_frames=distinct_frames,
        ratio=ratio,
        stamp=stamp,
        encoding=encoding,
        series_id=series_id,
        connect_timeout_s=connect_timeout,
        reconnect_timeout_s=reconnect_timeout,
        series_unique_id=series_name,
        faults=faults,
    )
    check_encoding(simulation.encoding, target)
    memory = size_option(replay_memory, "--replay-memory")
    with ProgressView(err()) as view, contextlib.ExitStack() as stack:
        images: Replay | None = None
        if replay:
            from penstock.files.replay import replay_file  # noqa: PLC0415  (it loads HDF5)

            reading = "reading images"
            images = stack.enter_context(
                replay_file(replay, memory, frames, lambda n, of: view.update(reading, n, of, f"{n} of {of}"))
            )
            view.finish(reading, f"{images.frames} images of {images.rows} x {images.columns} {images.type}")
        simulation.elements = parse_elements(elements, _sent_as(chosen, images), target)
        target = with_endpoints(target, simulation.elements)
        simulation.element_gap = parse_element_gap(element_gap, simulation.elements)
        simulation.elements_told = tell_elements
        check_telling(tell_elements, target, simulation.elements, simulation.element_gap)
        check_faults(faults, simulation.elements, target)
        plan = detector_plan(chosen, simulation, target, images)
        if images is not None and not of_images and _differs(images, chosen):
            view.say(_note_on(images, chosen))
        if note := encoding_note(simulation.encoding, target):
            view.say(note)
        if not dry_run and isinstance(plan.to, FilesTarget):
            _make_folder(Path(plan.to.folder))
        if dry_run:
            _show_plan(plan, ", ".join(map(str, replay or [])), view, json)
        else:
            _simulate(plan, view, json)


def _sent_as(detector: Detector, images: "Replay | None") -> Detector:
    return (
        detector if images is None else replayed_detector(detector, images.rows, images.columns, images.type)
    )


def _differs(images: "Replay", detector: Detector) -> bool:
    return (images.rows, images.columns, images.type) != (detector.rows, detector.columns, detector.type)


def _note_on(images: "Replay", detector: Detector) -> str:
    mine = f"{images.rows} x {images.columns} {images.type}"
    its = f"{detector.rows} x {detector.columns} {detector.type}"
    return f"note: the images are {mine}, {detector.name} has {its}: they are sent as they are"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be made: {error.strerror}", "choose another, or make it first"
        ) from error


def _show_plan(plan: DetectorPlan, replayed: str, view: ProgressView, json: bool) -> None:
    if json:
        print_json(plan.without_tokens())
    else:
        view.console.print(simulation_table(plan, replayed))


def _simulate(plan: DetectorPlan, view: ProgressView, json: bool) -> None:
    def on_event(event: Event) -> None:
        if json:
            print_json_line(event)
        else:
            show(view, event)

    simulate(plan, on_event, view.say)
