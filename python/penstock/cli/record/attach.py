"""`penstock attach`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import fail, inspects, out, print_json, warn
from penstock.files.values.attach import How, attach, summary, unfitting_words
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import one_short_line


@inspects
def attach_command(
    series: Annotated[Path, typer.Argument(help="The file of a series that has ended.")],
    journals: Annotated[list[Path], typer.Argument(help="Journals of `penstock collect`.")],
    output: Annotated[
        Path | None, typer.Option(help="The file to make. [default: SERIES.values.h5 beside the series]")
    ] = None,
    interpolation: Annotated[
        str, typer.Option(metavar="previous|nearest|linear", help="Which value by time a frame gets.")
    ] = "previous",
    time: Annotated[
        str | None,
        typer.Option(
            metavar="exposure|received",
            help="The frames' times. [default: start of the exposure, where it was told]",
        ),
    ] = None,
    offset: Annotated[
        float, typer.Option(metavar="SECONDS", help="Added to the values' times, for clocks that differ.")
    ] = 0.0,
    max_age: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Values farther away are none.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file of this command that is there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be joined, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Join values to the frames of a series, by frame number or by time: a new file, a row for each frame.

    The new file has links to the recorded one, which stays as it is. Keep them together.
    """
    try:
        how = How.model_validate(
            {"by": interpolation, "time": time, "offset_s": offset, "max_age_s": max_age}
        )
    except ValueError as error:
        raise UsageError(
            f"--interpolation {interpolation}, --time {time}, --offset {offset:g}, --max-age {max_age}: one of them is wrong",
            "--interpolation previous, nearest or linear; --time exposure or received",
        ) from error
    done = attach(series, journals, output, how, dry_run=dry_run, overwrite=overwrite)
    if json:
        print_json(done)
    else:
        for line in summary(done):
            out().print(line, markup=False, soft_wrap=True)
    if not dry_run:
        warn(f"{done.output}: {len(done.channels)} channels")
    if mixed := [each for each in done.channels if each.unfitting]:
        others = f" ({len(mixed)} channels have such)" if len(mixed) > 1 else ""
        fail(
            PenstockError(
                f"channel {one_short_line(mixed[0].name)}: {unfitting_words(mixed[0])}{others}",
                "give each source a name of its own for the channel, and send one kind of value under a name",
            )
        )
