"""Options that say what a frame is."""

from typing import Annotated

import typer

from penstock.bench.data.frame_choice import FrameFormat

FormatOption = Annotated[
    FrameFormat, typer.Option("--format", help="Plain bytes, or files that image readers open.")
]
Rename = Annotated[bool, typer.Option("--rename", help="Call files NAME.partial until they are complete.")]
