"""`penstock filters`"""

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import out, print_json, reports_errors
from penstock.model import panels
from penstock.programs.filters import find_filters
from penstock.report.tables import filter_table


@reports_errors
def filters_command(
    plugin_folder: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Folder to search first. Repeatable.", rich_help_panel=panels.COMPRESSION
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """List the HDF5 filter plug-ins that the recorder can use with `codec: {filter: ...}`.

    Searches the given folders, the folder of the Python package hdf5plugin, and the folders that HDF5
    searches: those of the variable HDF5_PLUGIN_PATH, or its default folder.
    """
    filters = sorted(find_filters(plugin_folder or []), key=lambda found: str(Path(found.path).parent))
    if json:
        print_json([{**found.model_dump(), "parameters": found.parameters} for found in filters])
    else:
        for folder, plugins in groupby(filters, lambda found: Path(found.path).parent):
            out().print(f"{folder}:", soft_wrap=True, markup=False)
            out().print(filter_table(plugins))
