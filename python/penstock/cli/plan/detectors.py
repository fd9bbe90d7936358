"""`penstock detectors`"""

from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.common import out, print_json, reports_errors
from penstock.cli.detector_choice import choose_detector
from penstock.model import panels
from penstock.model.catalogue import read_catalogue
from penstock.programs.locate import detectors_folder
from penstock.report.plan.detectors import detector_sheet, detector_table


@reports_errors
def detectors_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name or YAML file of a detector to show in full. [default: list all]",
            autocompletion=completion.detectors,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """List the detectors that can be simulated, or show one in full."""
    if name is not None:
        detector = choose_detector("detectors", name)
        if json:
            print_json(detector)
        else:
            out().print(detector_sheet(detector))
        return
    catalogue = read_catalogue(detectors_folder())
    if json:
        print_json({key: detector.model_dump(mode="json") for key, detector in catalogue.items()})
    else:
        out().print(detector_table(catalogue))
