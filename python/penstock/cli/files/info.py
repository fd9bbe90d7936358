"""`penstock info`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json
from penstock.files.inspect import add_recoverable, inspect_file
from penstock.model import panels
from penstock.programs.check import count_recoverable
from penstock.report.tables import info_page


@inspects
def info_command(
    file: Annotated[Path, typer.Argument(readable=False, help="HDF5 file; it may still be recorded.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """Show the frames, codec, frame accounting, times and tree of a file, without reading pixels."""
    info = inspect_file(file)
    if info.unfinished:
        add_recoverable(info, count_recoverable(file))
    if json:
        print_json(info)
    else:
        out().print(info_page(info), crop=False)
