"""The detector that a command is about: of the catalogue, or described by options."""

from typing import Annotated

import typer

from penstock.model.catalogue import CUSTOM, Detector, custom_detector, find_detector, read_catalogue
from penstock.model.errors import UsageError
from penstock.programs.locate import detectors_folder

CustomRows = Annotated[int | None, typer.Option("--rows", help="Rows of a custom detector.")]
CustomColumns = Annotated[int | None, typer.Option("--columns", help="Columns of a custom detector.")]
CustomType = Annotated[
    str | None,
    typer.Option(
        "--type", help="Of a custom detector: uint8, uint16, uint32, int16, int32. [default: uint16]"
    ),
]


def choose_detector(
    command: str, name: str, rows: int | None, columns: int | None, kind: str | None
) -> Detector:
    """A UsageError for a name that nobody knows, and for a size of a detector that has its own."""
    if name == CUSTOM:
        return custom_detector(rows, columns, kind)
    if (rows, columns, kind) != (None, None, None):
        raise UsageError(
            "--rows, --columns and --type are for a custom detector", f"penstock {command} custom --rows …"
        )
    return find_detector(read_catalogue(detectors_folder()), name)
