"""Arguments that the commands of `penstock lab` share."""

from typing import Annotated

import typer

from penstock.lab.place import places
from penstock.lab.systems.all import SYSTEMS
from penstock.model import panels

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        help=f"One of {', '.join(SYSTEMS)}.",
        autocompletion=lambda: list(SYSTEMS),
        show_default=False,
    ),
]
LabName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the laboratory; `penstock lab list` shows them.",
        autocompletion=lambda: [place.name for place in places()],
        show_default=False,
    ),
]
ServerNumber = Annotated[
    int, typer.Argument(metavar="SERVER", help="Number of the server, from 1.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)]
