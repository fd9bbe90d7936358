"""`penstock join`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, inspects
from penstock.files.join import JointFile


@inspects
def join_command(
    together: Annotated[Path, typer.Argument(help="The file to make.")],
    files: Annotated[list[Path], typer.Argument(help="Files of series that have ended, in order.")],
    add: Annotated[
        bool, typer.Option("--add", help="To a file that was made so before; else it must not be there.")
    ] = False,
) -> None:
    """Show several series' files as one: a NeXus file with an entry for each, entry_1, entry_2, ….

    The entries are links, with paths relative to the new file: it holds no pixels, and the files stay where
    they are. Move them together.
    """
    joint = JointFile.open(together, add=add)
    joint.add(files)
    err().print(f"{together}: {len(joint.targets)} entries", markup=False)
