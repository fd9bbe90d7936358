"""`penstock demo`"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.common import out, print_json, reports_errors
from penstock.cli.verbosity import progress, shows_progress
from penstock.demo import demo_options, run_demo, summary_page
from penstock.model import panels
from penstock.model.errors import PenstockError


@reports_errors
@shows_progress
def demo_command(
    folder: Annotated[
        Path,
        typer.Option(
            help="Folder for files and plots. It is replaced by each demonstration.",
            rich_help_panel=panels.FILES,
        ),
    ] = Path("demo-out"),
    detector: Annotated[
        str,
        typer.Option(
            help="Detector to simulate: a name from `penstock detectors`.",
            autocompletion=completion.detectors,
            rich_help_panel=panels.DETECTOR,
        ),
    ] = "pilatus-6m",
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="PENSTOCK_DATA",
            help="Folder of images to replay. [default: simulated frames]",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Record fewer frames. Also set by CI=true in the environment.",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    threads: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Number of threads that compress and check.",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = 2,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Record a detector at its own rate, then at maximum rate, and check both files pixel by pixel.

    Its own rate is that of `penstock detectors`, at most 500 Hz and 640 MB/s; the summary names the rate.
    Leaves the two files, summary.json, frame.png and throughput.png.
    """
    short = quick or os.environ.get("CI") == "true"
    with progress() as view:
        summary = run_demo(demo_options(folder, detector, data, threads, quick=short), view)
    if json:
        print_json(summary)
    else:
        out().print(summary_page(summary))
        out().print(f"plots: {folder / 'frame.png'}, {folder / 'throughput.png'}", markup=False)
    problems = summary.problems()
    if problems:
        raise PenstockError(
            "the demonstration failed:\n" + "\n".join(problems), f"see {folder / 'summary.json'}"
        )
    if not json:
        out().print(_next_step(summary.phases[0].recorded.file), markup=False, soft_wrap=True)


def _next_step(file: str) -> str:
    """A command to paste, also after `make demo`, which changes nobody's PATH."""
    folder = shlex.quote(str(Path(sys.executable).parent))
    path = "" if shutil.which("penstock") else f'export PATH={folder}:"$PATH"; '
    return f"next: {path}penstock view {shlex.quote(file)}"
