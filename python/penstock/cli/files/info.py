"""`penstock info`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json
from penstock.files.inspect import add_recoverable, inspect_file
from penstock.programs.check import count_recoverable
from penstock.report.tables import info_page


@inspects
def info_command(
    file: Annotated[Path, typer.Argument(help="Any HDF5 file; also one that is being written.")],
    json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
) -> None:
    """What is in a file: frames, codec, ledger, times, tree. Reads no pixels."""
    info = inspect_file(file)
    if info.unfinished:
        add_recoverable(info, count_recoverable(file))
    if json:
        print_json(info)
    else:
        out().print(info_page(info))
