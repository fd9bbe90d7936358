"""`penstock join`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, inspects
from penstock.model import panels
from penstock.model.text import counted


@inspects
def join_command(
    together: Annotated[Path, typer.Argument(help="File to create.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of complete series, in order.")],
    add: Annotated[
        bool,
        typer.Option(
            "--add",
            help="Add to a file that `penstock join` created. [default: create a new file]",
            rich_help_panel=panels.FILES,
        ),
    ] = False,
) -> None:
    """Link the files of several series into one NeXus file, with one entry per series: entry_1, entry_2, ….

    The entries are external links with relative paths; the new file has no pixels. If you move the files,
    move all of them.
    """
    from penstock.files.join import JointFile

    joint = JointFile.open(together, add=add)
    repeated = joint.add(files)
    there = f"; {counted(repeated, 'file is', 'files are')} an entry already" if repeated else ""
    err().print(f"{together}: {counted(len(joint.targets), 'entry', 'entries')}{there}", markup=False)
