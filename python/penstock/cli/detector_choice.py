"""Selects the detector of a command: by its name, its file, or its shape and type."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import completion
from penstock.model import panels
from penstock.model.catalogue import (
    CUSTOM,
    PAGE,
    Detector,
    custom_detector,
    detector_named,
    is_file_name,
    read_detector,
)
from penstock.model.errors import UsageError
from penstock.model.units import human_hz
from penstock.programs.locate import detectors_folder

DetectorName = Annotated[
    str,
    typer.Argument(
        help="Detector: a name from `penstock detectors`, or `custom` with --rows, --columns, --type.",
        autocompletion=completion.detectors,
    ),
]
CustomRows = Annotated[
    int | None,
    typer.Option("--rows", help="Rows of a custom detector in pixels.", rich_help_panel=panels.DETECTOR),
]
CustomColumns = Annotated[
    int | None,
    typer.Option(
        "--columns", help="Columns of a custom detector in pixels.", rich_help_panel=panels.DETECTOR
    ),
]
CustomType = Annotated[
    str | None,
    typer.Option(
        "--type",
        help="Pixel type of a custom detector: uint8, uint16, uint32, int16 or int32. [default: uint16]",
        rich_help_panel=panels.DETECTOR,
    ),
]

CustomFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="YAML file of a custom detector, instead of --rows, --columns and --type. Its path may also take"
        " the place of DETECTOR.",
        rich_help_panel=panels.DETECTOR,
    ),
]


# Commands whose second argument is a folder.
_WITH_TARGET = ("verdict", "rehearse")


def choose_detector(
    command: str,
    name: str,
    rows: int | None = None,
    columns: int | None = None,
    kind: str | None = None,
    file: Path | None = None,
) -> Detector:
    """Returns the detector of the catalogue, of a YAML file, or of a shape.

    Raises UsageError for an unknown name, a file with a missing or wrong field, and a shape or file of a
    detector other than `custom`.
    """
    shaped = (rows, columns, kind) != (None, None, None)
    if name != CUSTOM and shaped:
        raise UsageError(
            "--rows, --columns and --type require the detector `custom`",
            f"write `penstock {command} custom --rows …`",
        )
    if name != CUSTOM and file is not None:
        raise UsageError(
            f"--file requires the detector `custom`, not {name}",
            f"write `penstock {command} custom --file {file}` or `penstock {command} {file}`",
        )
    if file is not None and shaped:
        raise UsageError(
            "--file excludes --rows, --columns and --type", f"state them in {file}, as in {PAGE}"
        )
    if file is not None:
        return read_detector(file)
    if name == CUSTOM:
        return custom_detector(rows, columns, kind)
    if is_file_name(name):
        return read_detector(Path(name))
    try:
        return detector_named(detectors_folder(), name)
    except UsageError as error:
        if command not in _WITH_TARGET or not Path(name).is_dir():
            raise
        raise UsageError(
            f'"{name}" is a folder; the detector is the first argument',
            f"write `penstock {command} DETECTOR {name}`",
        ) from error


def rate_option(most_hz: float) -> Any:
    """Returns --rate of a command that measures at the detector's rate."""
    return typer.Option(
        min=1e-3,
        max=most_hz,
        metavar="HZ",
        help="Frame rate in Hz. [default: the detector's own]",
        rich_help_panel=panels.WORKLOAD,
    )


def rate_of(detector: Detector, rate_hz: float | None) -> float:
    """Returns the rate to measure at. Raises UsageError if none was given, and the detector has none."""
    chosen_hz = detector.rate_hz if rate_hz is None else rate_hz
    if chosen_hz <= 0:
        raise UsageError(f"the rate of {detector.name} is unknown", "give it with --rate")
    return chosen_hz


def title_at(detector: Detector, rate_hz: float) -> str:
    """Returns what a measurement calls the detector: with the rate, if that is not the catalogue's."""
    if detector.name == CUSTOM:
        return f"custom detector of {detector.rows} x {detector.columns} {detector.type}"
    if rate_hz == detector.rate_hz:
        return detector.name
    most = f"; its maximum is {human_hz(detector.rate_hz)}" if detector.rate_hz > 0 else ""
    return f"{detector.name} at {human_hz(rate_hz)}{most}"
