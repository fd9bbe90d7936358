"""`penstock view`"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.common import inspects, out, print_json, require_new, warn
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.aside import require_file
from penstock.files.images.hdf5_images import split_name
from penstock.files.view.picture import Choice, Look, Numbers, Scale, Span, frame_picture, sum_picture
from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.model.text import counted, harmless
from penstock.model.units import human_number

_PICTURE_SIZE, _MOVIE_SIZE = 1200, 600
_MOVIE_SUFFIXES = (".gif", ".png", ".apng")
_SPAN = re.compile(r"(\d{0,18}):(\d{0,18})(?::(\d{1,18}))?")
_REGION = re.compile(r"(\d{1,18}):(\d{1,18}),(\d{1,18}):(\d{1,18})")


@inspects
@shows_progress
def view_command(
    file: Annotated[
        Path,
        typer.Argument(
            readable=False,
            help="HDF5 file, such as a recorded one, which may still grow, or the master file of an EIGER."
            " FILE::/PATH names a dataset.",
        ),
    ],
    frame: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Number of the frame, from 0; -1 is the last. [default: the first that is not missing]",
            rich_help_panel=panels.FRAMES,
        ),
    ] = None,
    sum_: Annotated[
        bool, typer.Option("--sum", help="Add up the frames.", rich_help_panel=panels.FRAMES)
    ] = False,
    movie: Annotated[
        bool,
        typer.Option(
            "--movie",
            help="Show the frames one after the other. Writes an animated GIF, or PNG if --output ends with"
            " .png.",
            rich_help_panel=panels.FRAMES,
        ),
    ] = False,
    frames: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:END[:STEP]",
            help="With --sum or --movie: frames from FIRST, without END, every STEP-th. [default: all; of"
            " a movie at most 100, evenly spaced]",
            rich_help_panel=panels.FRAMES,
        ),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Channel (threshold) of the detector. [default: the first]",
            rich_help_panel=panels.FRAMES,
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="ROW:ROW,COLUMN:COLUMN",
            help="Rows and columns to show, half-open: 0:512,1024:2048. [default: all]",
            rich_help_panel=panels.FRAMES,
        ),
    ] = None,
    no_mask: Annotated[
        bool,
        typer.Option(
            "--no-mask",
            help="Show pixels that the file's pixel mask excludes, too.",
            rich_help_panel=panels.FRAMES,
        ),
    ] = False,
    scale: Annotated[
        Scale, typer.Option(help="Scale of the colours.", rich_help_panel=panels.COLOURS)
    ] = "log",
    range_: Annotated[
        str | None,
        typer.Option(
            "--range",
            metavar="LOW:HIGH",
            help="Values of the first and the last colour; one of them may be left out. [default: percentiles"
            " 1 and 99.9; of positive values with --scale log]",
            rich_help_panel=panels.COLOURS,
        ),
    ] = None,
    colormap: Annotated[
        str,
        typer.Option(
            help="Colour map of matplotlib, such as viridis, gray or gray_r.",
            autocompletion=completion.colormaps,
            rich_help_panel=panels.COLOURS,
        ),
    ] = "inferno",
    size: Annotated[
        int | None,
        typer.Option(
            min=16,
            max=20_000,
            help="Number of pixels on the longer side, at most. In larger frames the highest value of a block"
            " of pixels is shown; pixels of smaller ones are repeated. [default: 1200, of a movie 600]",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Write only the pixels, not magnified: no axes, title and colour bar.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False,
    fps: Annotated[
        float,
        typer.Option(min=0.1, max=50, help="With --movie: frames per second.", rich_help_panel=panels.OUTPUT),
    ] = 5.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="New file. [default: NAME-frameN.png, NAME-sum.png or NAME-movie.gif in this folder]",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the numbers as JSON.", rich_help_panel=panels.OUTPUT),
    ] = False,
) -> None:
    """Write a picture of a frame, of the sum of frames, or a movie.

    Pixels without a value are grey: missing frames, gaps between modules, and pixels that the file's pixel
    mask excludes.
    """
    from penstock.report.view.painter import require_colormap  # it loads matplotlib

    require_file(split_name(file)[0])
    require_colormap(colormap)
    _require_one_kind(frame, sum_, movie, frames)
    _require_name(output, movie)
    rows, columns = _parsed_region(region)
    choice = Choice(channel, rows, columns, not no_mask, size or (_MOVIE_SIZE if movie else _PICTURE_SIZE))
    look = Look(colormap, scale, _parsed_range(range_, scale), plain)
    if movie:
        _show_movie(file, choice, _parsed_span(frames), look, fps, output, json)
    else:
        _show_picture(file, choice, frame, _parsed_span(frames) if sum_ else None, look, output, json)


def _show_movie(
    file: Path, choice: Choice, span: Span, look: Look, fps: float, output: Path | None, json: bool
) -> None:
    from penstock.report.view.files import write_movie  # it loads matplotlib

    output = output or _default(file, "movie.gif")
    with progress() as view:
        shown = write_movie(
            file, choice, span, look, fps, output, _frames_done(view.update, "painting frames")
        )
    missing = [each.frame for each in shown if each.frames == 0]
    if json:
        written = [each.frame for each in shown]
        print_json({"output": str(output), "frames": written, "frames_missing": missing})
        return
    note = f", {len(missing)} of them missing" if missing else ""
    first, last = shown[0].frame, shown[-1].frame
    _print(f"wrote {output}: {counted(len(shown), 'frame')} from {first} to {last}{note}")


def _show_picture(
    file: Path,
    choice: Choice,
    frame: int | None,
    added_up: Span | None,
    look: Look,
    output: Path | None,
    json: bool,
) -> None:
    from penstock.report.view.files import write_picture  # it loads matplotlib

    if added_up is not None:
        output = output or _default(file, "sum.png")
        with progress() as view:
            picture = sum_picture(file, choice, added_up, _frames_done(view.update, "adding up frames"))
    else:
        picture = frame_picture(file, choice, frame)
        output = output or _default(file, f"frame{picture.numbers.frame}.png")
    limits = write_picture(picture, look, output)
    if json:
        print_json({"output": str(output), "range": limits, **picture.numbers.model_dump(mode="json")})
        return
    for line in _lines(picture.numbers):
        _print(line)
    if picture.numbers.frames == 0:
        warn(f"warning: nothing to show: `penstock check {split_name(file)[0]}` lists missing frames")
    _print(f"wrote {output}")


def _print(line: str) -> None:
    out().print(harmless(line), markup=False, soft_wrap=True)


def _require_name(output: Path | None, movie: bool) -> None:
    suffixes = _MOVIE_SUFFIXES if movie else (".png",)
    if output is not None and output.suffix.lower() not in suffixes:
        raise UsageError(
            f"--output {output} does not end with {' or '.join(suffixes)}",
            f"name a new file, such as {output.stem}{suffixes[0]}",
        )
    require_new(output)


def _require_one_kind(frame: int | None, sum_: bool, movie: bool, frames: str | None) -> None:
    given = [
        name
        for name, is_given in (("--frame", frame is not None), ("--sum", sum_), ("--movie", movie))
        if is_given
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", "give one of them")
    if frames is not None and not (sum_ or movie):
        raise UsageError("--frames requires --sum or --movie", "show a single frame with --frame")


def _default(file: Path, what: str) -> Path:
    """In the current directory."""
    output = Path(f"{split_name(file)[0].stem}-{what}")
    require_new(output)
    return output


def _parsed_region(text: str | None) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    if text is None:
        return None, None
    found = _REGION.fullmatch(text.replace(" ", ""))
    if found is None:
        raise UsageError(
            f"--region {text} is not ROW:ROW,COLUMN:COLUMN", "give half-open ranges: 0:512,1024:2048"
        )
    first_row, end_row, first_column, end_column = map(int, found.groups())
    return (first_row, end_row), (first_column, end_column)


def _parsed_span(text: str | None) -> Span:
    found = _SPAN.fullmatch(text or ":")
    if found is None or found[3] == "0":
        raise UsageError(f"--frames {text} is not FIRST:END[:STEP]", "give a half-open range: 0:1000:10")
    first, end, step = (int(each) if each else None for each in found.groups())
    return Span(first or 0, end, step)


def _parsed_range(text: str | None, scale: Scale) -> tuple[float | None, float | None]:
    low_text, colon, high_text = (text or ":").partition(":")
    try:
        low, high = (float(each) if each else None for each in (low_text, high_text))
    except ValueError:
        colon = ""
    if not colon or not all(each is None or math.isfinite(each) for each in (low, high)):
        raise UsageError(f"--range {text} is not LOW:HIGH", "give one or two numbers: 1:1000, 1:, :1000")
    if low is not None and high is not None and not low < high:
        raise UsageError(f"--range {text}: {high_text} is not greater than {low_text}", "give LOW:HIGH")
    if scale == "log" and any(each is not None and each <= 0 for each in (low, high)):
        raise UsageError(
            f"--range {text}: a logarithmic scale requires values above 0",
            "leave LOW out, or use --scale linear",
        )
    return low, high


def _frames_done(update: Callable[..., object], key: str) -> Callable[[int, int], None]:
    """Returns a function that shows the progress; the view adds the time left."""

    def show(done: int, total: int) -> None:
        update(key, done, total, f"{done} of {total}")

    return show


def _lines(numbers: Numbers) -> list[str]:
    """What is in a picture, for people."""
    shown = [f"{numbers.dataset}" + (f", channel {numbers.channel}" if numbers.channel else "")]
    if numbers.frame is None:
        missing = f", {numbers.frames_missing} missing" if numbers.frames_missing else ""
        shown.append(f"sum of {counted(numbers.frames, 'frame')}{missing}")
    else:
        reason = f" ({numbers.reason})" if numbers.reason else ""
        missing = f" is missing{reason}" if numbers.frames_missing else ""
        shown.append(f"frame {numbers.frame} of {numbers.frames_in_file}{missing}")
    without = 100 * numbers.pixels_without_value / numbers.pixels
    lines = [f"{', '.join(shown)}; {human_number(without)} % of the pixels without a value"]
    if numbers.maximum is not None and numbers.maximum_at is not None:
        lines.append(
            f"minimum {numbers.minimum:g}, mean {numbers.mean:.4g}, maximum {numbers.maximum:g} at row"
            f" {numbers.maximum_at[0]}, column {numbers.maximum_at[1]}; total {numbers.total:.6g}"
        )
    if numbers.pixels_partial:
        lines.append(f"{counted(numbers.pixels_partial, 'pixel')} without a value in some of the frames")
    return lines
