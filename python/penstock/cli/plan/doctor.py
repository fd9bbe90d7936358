"""`penstock doctor`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import require_target
from penstock.bench.doctor.doctor import Recorder, examine
from penstock.cli import completion
from penstock.cli.common import answers, out, print_json
from penstock.cli.detector_choice import choose_detector
from penstock.cli.verbosity import info, shows_progress
from penstock.model import panels
from penstock.model.errors import ExitCode, UsageError
from penstock.model.overrides import RecordOptions, configuration_from
from penstock.model.plans import Encoding
from penstock.report.plan.checkup import checkup_view


@answers
@shows_progress
def doctor_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder in which you want to record. [default: the folder of --config, or the current one]"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration of `penstock record`, whose folder, codec and pool are checked.",
            rich_help_panel=panels.RUN,
        ),
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Check also whether the machine suffices for this detector: a name from `penstock detectors`"
            " or a YAML file.",
            rich_help_panel=panels.DETECTOR,
            autocompletion=completion.detectors,
        ),
    ] = None,
    codec: Annotated[
        Encoding | None,
        typer.Option(
            help="With --detector: encoding whose speed is measured, for 5 to 20 s in a temporary folder."
            " [default: that of --config, or bslz4; none for a detector that sends compressed frames]",
            rich_help_panel=panels.COMPRESSION,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """Check what on this machine stands in a recorder's way, and how to remedy it.

    Checks the folder, network, sockets, memory, processors, limits, clock, plug-ins and versions. Writes
    nothing into the folder.
    """
    if codec is not None and detector is None:
        raise UsageError("--codec requires --detector", "add --detector, or leave --codec out")
    if folder is not None and folder.suffix in (".yaml", ".yml") and folder.is_file():
        raise UsageError(
            f"{folder} is a file; a folder is checked", f"write `penstock doctor --config {folder}`"
        )
    recorder = Recorder(codec)
    if config is not None:
        configuration = configuration_from(config, RecordOptions())
        recorder = Recorder.of(config, configuration, codec)
        folder = folder or configuration.folder
    folder = folder or Path()
    require_target(folder, "to check")
    chosen = None if detector is None else choose_detector("doctor", detector)
    checkup = examine(folder, chosen, recorder, lambda text: info().print(text, markup=False), detector or "")
    if json:
        print_json(checkup)
    else:
        out().print(checkup_view(checkup))
    if not checkup.ready:
        raise typer.Exit(int(ExitCode.FAILED))
