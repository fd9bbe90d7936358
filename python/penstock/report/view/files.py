"""Writes pictures and movies into new files, which get their names when they are complete."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.files.naming import give_name
from penstock.files.unfinished import unfinished
from penstock.files.view.picture import Choice, Look, Numbers, Picture, Span, limits_of, movie_pictures
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of, unwritten_remedy
from penstock.report.view.movie import Movie, movie_in, png_bytes
from penstock.report.view.painter import NO_VALUE, Painter, title_of


def write_picture(picture: Picture, look: Look, output: Path) -> tuple[float, float]:
    """Writes a PNG file; returns the limits of its colours.

    UsageError: `output` exists. PenstockError: it cannot be written.
    """
    limits = look.limits_for(limits_of(picture.values, look.scale))
    image = Painter(picture, look, limits).paint(picture, title_of(picture.numbers))
    with _new_file(output) as file:
        file.write(png_bytes(image))
    return limits


def write_movie(
    path: Path,
    choice: Choice,
    span: Span,
    look: Look,
    frames_per_s: float,
    output: Path,
    on_frame: Callable[[int, int], object],
) -> list[Numbers]:
    """Writes an animated GIF (suffix .gif) or PNG; returns the numbers of each frame in it.

    `on_frame` gets the number of frames written, and their total. Errors as of write_picture() and
    frame_picture().
    """
    shown: list[Numbers] = []
    painter: Painter | None = None
    movie: Movie | None = None
    with _new_file(output) as file:

        def add(picture: Picture, count: int, limits: tuple[float, float]) -> None:
            nonlocal painter, movie
            if painter is None or movie is None:
                painter = Painter(picture, look, look.limits_for(limits))
                movie = movie_in(file, output, count, look.colormap, [NO_VALUE], frames_per_s)
            movie.add(painter.paint(picture, title_of(picture.numbers)))
            shown.append(picture.numbers)
            on_frame(len(shown), count)

        movie_pictures(path, choice, span, look.scale, add)
        if movie is not None:
            movie.finish()
    return shown


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name if the block succeeds, and is removed otherwise."""
    try:
        with unfinished([path]) as names:
            with names[path].open("xb") as file:
                yield file
            give_name(names[path], path)
    except FileExistsError as error:
        raise UsageError(
            f"--output {path} exists already and is not overwritten", "name a new file with --output"
        ) from error
    except OSError as error:
        raise PenstockError(
            f"{path} cannot be written: {reason_of(error)}",
            unwritten_remedy(error, "name another file with --output"),
        ) from error
