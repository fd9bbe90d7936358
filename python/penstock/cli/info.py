"""`penstock info`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json
from penstock.files.inspect import inspect_file
from penstock.report.tables import info_page


@inspects
def info_command(
    file: Annotated[Path, typer.Argument(help="Any HDF5 file; also one that is being written.")],
    json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
) -> None:
    """What is in a file: frames, codec, ledger, times, tree. Reads no pixels."""
    info = inspect_file(file)
    if json:
        print_json(info)
    else:
        out().print(info_page(info))
