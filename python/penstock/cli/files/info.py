"""`penstock info`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json
from penstock.files.aside import require_file
from penstock.model import panels
from penstock.model.errors import ExitCode


@inspects
def info_command(
    file: Annotated[Path, typer.Argument(readable=False, help="HDF5 file; it may still be recorded.")],
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show the complete tree, with attributes, links and values. [default: what fits a screen]",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False,
    tree: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Show only the tree at and below this path (--tree / the complete tree), with attributes,"
            " links and values.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """Show the frames, codec, frame accounting, times and tree of a file, without reading pixels."""
    require_file(file)
    from penstock.files.inspect import add_recoverable, inspect_file, tree_below

    if tree is not None:
        lines = tree_below(file, tree)
        if json:
            print_json(lines)
        else:
            out().print("\n".join(lines), markup=False, soft_wrap=True)
        return
    info = inspect_file(file, everything=all_)
    if info.unfinished:
        from penstock.programs.check import count_recoverable

        add_recoverable(info, count_recoverable(file))
    if json:
        print_json(info)
    else:
        from penstock.report.tables import info_page

        out().print(info_page(info), crop=False)
    if info.is_damaged:
        raise typer.Exit(int(ExitCode.FAILED))
