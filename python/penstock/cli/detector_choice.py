"""Selects the detector of a command: by its name, or by its shape and type."""

from typing import Annotated

import typer

from penstock.model import panels
from penstock.model.catalogue import CUSTOM, Detector, custom_detector, find_detector, read_catalogue
from penstock.model.errors import UsageError
from penstock.programs.locate import detectors_folder

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


def choose_detector(
    command: str, name: str, rows: int | None, columns: int | None, kind: str | None
) -> Detector:
    """Returns the detector. Raises UsageError for unknown names, and for a shape of a known detector."""
    if name == CUSTOM:
        return custom_detector(rows, columns, kind)
    if (rows, columns, kind) != (None, None, None):
        raise UsageError(
            "--rows, --columns and --type require the detector `custom`",
            f"write `penstock {command} custom --rows …`",
        )
    return find_detector(read_catalogue(detectors_folder()), name)
