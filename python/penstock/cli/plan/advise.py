"""`penstock advise`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import out, print_json, reports_errors
from penstock.cli.detector_choice import (
    CustomColumns,
    CustomFile,
    CustomRows,
    CustomType,
    DetectorName,
    choose_detector,
)
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.storage import storage_facts
from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.model.plan.access import PATTERNS, Geometry, Pattern
from penstock.model.plan.advice import Ratios, advise
from penstock.model.plans import GIB
from penstock.model.text import counted
from penstock.report.advice import advice_view

_IMAGES_MAX = 8


@reports_errors
@shows_progress
def advise_command(
    detector: DetectorName,
    read: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help=f"Access pattern of the readers: {PATTERNS}. Repeatable. [default: frames]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            help="Folder for the files; alignment follows its file system.", rich_help_panel=panels.FILES
        ),
    ] = Path(),
    frames: Annotated[
        int,
        typer.Option(
            min=1, max=2**32 - 2, help="Number of frames of a series.", rich_help_panel=panels.WORKLOAD
        ),
    ] = 1000,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="HZ",
            help="Frame rate in Hz. [default: the detector's maximum]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Compression ratio, if you know it, such as 8. [default: not known]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Image file or folder of images to measure compression ratios with. Repeatable.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None,
    file: CustomFile = None,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """Recommend chunks, codec and alignment for your access patterns, with reasons.

    Reads only the images of --images, and writes nothing.
    """
    if ratio is not None and images:
        raise UsageError("--ratio and --images exclude each other", "give one of them")
    chosen = choose_detector("advise", detector, rows, columns, type_, file)
    geometry = Geometry(
        frames=frames,
        rows=chosen.rows,
        columns=chosen.columns,
        element_bytes=chosen.frame_bytes // (chosen.rows * chosen.columns),
    )
    patterns = [Pattern.parse(text) for text in read or ["frames"]]
    ratios = _measured(images) if images else Ratios()
    if ratio is not None:
        ratios = Ratios(by_codec={"bslz4": ratio})
    if not folder.is_dir():
        raise UsageError(f"--folder {folder} does not exist", "create it, or name an existing folder")
    facts = storage_facts(folder.absolute())
    advice = advise(geometry, patterns, facts, ratios, chosen.rate_hz if rate is None else rate)
    if json:
        print_json(advice)
    else:
        out().print(advice_view(advice))


def _measured(paths: list[Path]) -> Ratios:
    with progress() as view:
        reading = "reading images"
        # They load fabio and HDF5.
        from penstock.files.images.compressibility import measure_ratios
        from penstock.files.images.replay import replay_file

        with replay_file(
            paths, GIB, _IMAGES_MAX, lambda n, of: view.update(reading, n, of, f"{n} of {of}")
        ) as images:
            view.finish(
                reading,
                f"{counted(images.frames, 'image')} of {images.rows} x {images.columns} {images.type}",
            )
            return measure_ratios(images.path)
