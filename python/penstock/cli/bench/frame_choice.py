"""Options for the format of a frame."""

from typing import Annotated

import typer

from penstock.bench.data.frame_choice import FrameFormat
from penstock.model import panels

FormatOption = Annotated[
    FrameFormat,
    typer.Option(
        "--format",
        help="Format of a frame: raw bytes, or image files.",
        rich_help_panel=panels.WORKLOAD,
    ),
]
Rename = Annotated[
    bool,
    typer.Option(
        "--rename",
        help="Name files NAME.partial until they are complete.",
        rich_help_panel=panels.WORKLOAD,
    ),
]
