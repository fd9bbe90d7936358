"""`penstock filters`"""

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import out, print_json, reports_errors
from penstock.programs.filters import find_filters
from penstock.report.tables import filter_table


@reports_errors
def filters_command(
    plugin_folder: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Look here first; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
) -> None:
    """The HDF5 filter plug-ins that the recorder can use, for `codec: {filter: ...}`.

    They are looked for in the given folders, in that of the Python package hdf5plugin, and where HDF5 looks:
    in the folders of the variable HDF5_PLUGIN_PATH, or in its default one.
    """
    filters = sorted(find_filters(plugin_folder or []), key=lambda found: str(Path(found.path).parent))
    if json:
        print_json([{**found.model_dump(), "parameters": found.parameters} for found in filters])
    else:
        for folder, plugins in groupby(filters, lambda found: Path(found.path).parent):
            out().print(f"{folder}:", soft_wrap=True, markup=False)
            out().print(filter_table(plugins))
