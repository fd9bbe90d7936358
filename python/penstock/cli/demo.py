"""`penstock demo`"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, out, print_json, reports_errors
from penstock.demo import demo_options, run_demo, summary_page
from penstock.model.errors import PenstockError
from penstock.report.progress import ProgressView


@reports_errors
def demo_command(
    folder: Annotated[
        Path, typer.Option(help="Where files and pictures go; it is replaced by each demonstration.")
    ] = Path("demo-out"),
    detector: Annotated[str, typer.Option(help="A name from `penstock detectors`.")] = "pilatus-6m",
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="PENSTOCK_DATA",
            help="Folder of images to replay; without images the detector is simulated.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer frames; also where CI=true is set.")] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads that compress and check.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="The summary as JSON, for machines.")] = False,
) -> None:
    """Record a detector at its own rate, then as fast as it goes; check both files pixel by pixel.

    Its own rate is the catalogue's, but at most 500 Hz and 640 MB/s; the summary says which was used.
    Leaves the files, summary.json, frame.png and throughput.png.
    """
    short = quick or os.environ.get("CI") == "true"
    with ProgressView(err()) as view:
        summary = run_demo(demo_options(folder, detector, data, threads, quick=short), view)
    if json:
        print_json(summary)
    else:
        out().print(summary_page(summary))
        out().print(f"pictures: {folder / 'frame.png'}, {folder / 'throughput.png'}", markup=False)
    problems = summary.problems()
    if problems:
        raise PenstockError(
            "the demonstration failed:\n" + "\n".join(problems), f"look into {folder / 'summary.json'}"
        )
