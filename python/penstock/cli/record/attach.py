"""`penstock attach`"""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from penstock.cli.common import fail, inspects, out, print_json, warn
from penstock.files.values.attach import How, attach, summary, unfitting_words
from penstock.model import panels
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import counted, one_short_line


@inspects
def attach_command(
    series: Annotated[Path, typer.Argument(help="File of a complete series.")],
    journals: Annotated[
        list[Path], typer.Argument(metavar="JOURNAL", help="Journals that `penstock collect` wrote.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to create. [default: SERIES.values.h5 next to the series]",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    interpolation: Annotated[
        str,
        typer.Option(
            metavar="previous|nearest|linear",
            help="How a frame gets its value by time: the previous one, the nearest one, or linearly"
            " interpolated.",
            rich_help_panel=panels.VALUES,
        ),
    ] = "previous",
    time: Annotated[
        str | None,
        typer.Option(
            metavar="exposure|received",
            help="Time of a frame: start of the exposure, or reception. [default: exposure, if the detector"
            " sent it]",
            rich_help_panel=panels.VALUES,
        ),
    ] = None,
    offset: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Offset in seconds that is added to the times of values, to correct clocks.",
            rich_help_panel=panels.VALUES,
        ),
    ] = 0.0,
    max_age: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Maximum distance in seconds between a frame and its value; beyond it the frame has no"
            " value. [default: no limit]",
            rich_help_panel=panels.VALUES,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an output file that this command wrote before.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be attached, and exit.", rich_help_panel=panels.RUN),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Match values to the frames of a series by frame number or time, and write a file with a row per frame.

    The new file links to the recorded file, which is not changed. Keep both in the same folder.
    """
    how = _how({"by": interpolation, "time": time, "offset_s": offset, "max_age_s": max_age})
    done = attach(series, journals, output, how, dry_run=dry_run, overwrite=overwrite)
    if json:
        print_json(done)
    else:
        for line in summary(done):
            out().print(line, markup=False, soft_wrap=True)
    if not dry_run:
        warn(f"{done.output}: {counted(len(done.channels), 'channel')}")
    if mixed := [each for each in done.channels if each.unfitting]:
        others = f" ({counted(len(mixed), 'channel')} are affected)" if len(mixed) > 1 else ""
        fail(
            PenstockError(
                f"channel {one_short_line(mixed[0].name)}: {unfitting_words(mixed[0])}{others}",
                "use a different channel name for each source, and send only one type of value per channel",
            )
        )


_OPTIONS = {
    "by": ("--interpolation", "give previous, nearest or linear"),
    "time": ("--time", "give exposure or received"),
    "offset_s": ("--offset", "give a number of seconds from -1e9 to 1e9"),
    "max_age_s": ("--max-age", "give a number of seconds from 0 to 1e9"),
}


def _how(values: dict[str, str | float | None]) -> How:
    try:
        return How.model_validate(values)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        option, remedy = _OPTIONS[field]
        raise UsageError(f"{option} {values[field]} is not allowed", remedy) from error
