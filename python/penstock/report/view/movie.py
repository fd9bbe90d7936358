"""Animated GIF and PNG files, written picture by picture: memory does not depend on their number.

Pillow encodes each picture as a file of its own; the parts of these files become one.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import matplotlib
import numpy
from PIL import Image as Pillow

from penstock.model.errors import PenstockError
from penstock.report.view.painter import Image

_COLOURS_OF_MAP = 236
_GIF_TRAILER = b";"
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Movie(Protocol):
    """A file of `count` pictures."""

    def add(self, image: Image) -> None: ...

    def finish(self) -> None: ...


def png_bytes(image: Image) -> bytes:
    """Returns the picture as a PNG file."""
    file = io.BytesIO()
    Pillow.fromarray(image).save(file, "PNG")
    return file.getvalue()


class GifMovie:
    """Writes a GIF whose 256 colours are those of the colour map, of missing values and of text."""

    def __init__(self, file: BinaryIO, colormap: str, others: list[str], frames_per_s: float) -> None:
        self._file = file
        self._hundredths = max(2, round(100 / frames_per_s))
        self._palette = Pillow.new("P", (1, 1))
        self._palette.putpalette(_palette(colormap, others))
        self._begun = False

    def add(self, image: Image) -> None:
        """Writes the next picture."""
        alone = io.BytesIO()
        indexed = Pillow.fromarray(image).quantize(palette=self._palette, dither=Pillow.Dither.NONE)
        indexed.save(alone, "GIF", optimize=False, interlace=False)
        head, pixels = _parts_of_gif(alone.getvalue())
        if not self._begun:
            self._begun = True
            self._file.write(b"GIF89a" + head[6:])
            self._file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")  # repeated for ever
        self._file.write(b"\x21\xf9\x04\x00" + struct.pack("<H", self._hundredths) + b"\x00\x00" + pixels)

    def finish(self) -> None:
        """Writes the end."""
        self._file.write(_GIF_TRAILER)


class PngMovie:
    """Writes an animated PNG of `count` pictures."""

    def __init__(self, file: BinaryIO, count: int, frames_per_s: float) -> None:
        self._file, self._count = file, count
        self._milliseconds = max(1, round(1000 / frames_per_s))
        self._sequence = 0
        self._begun = False

    def add(self, image: Image) -> None:
        """Writes the next picture."""
        chunks = list(_chunks_of_png(png_bytes(image)))
        height, width = image.shape[:2]
        if not self._begun:
            self._file.write(_PNG_SIGNATURE)
            self._chunk(b"IHDR", next(data for kind, data in chunks if kind == b"IHDR"))
            self._chunk(b"acTL", struct.pack(">II", self._count, 0))
        control = struct.pack(">IIIIIHHBB", self._next(), width, height, 0, 0, self._milliseconds, 1000, 0, 0)
        self._chunk(b"fcTL", control)
        for kind, data in chunks:
            if kind != b"IDAT":
                continue
            if self._begun:
                self._chunk(b"fdAT", struct.pack(">I", self._next()) + data)
            else:
                self._chunk(b"IDAT", data)
        self._begun = True

    def finish(self) -> None:
        """Writes the end."""
        self._chunk(b"IEND", b"")

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence - 1

    def _chunk(self, kind: bytes, data: bytes) -> None:
        self._file.write(struct.pack(">I", len(data)) + kind + data)
        self._file.write(struct.pack(">I", zlib.crc32(kind + data)))


def movie_in(
    file: BinaryIO, path: Path, count: int, colormap: str, others: list[str], frames_per_s: float
) -> Movie:
    """Returns the movie for the suffix of `path`: .gif, or .png and .apng."""
    if path.suffix.lower() == ".gif":
        return GifMovie(file, colormap, others, frames_per_s)
    return PngMovie(file, count, frames_per_s)


def _palette(colormap: str, others: list[str]) -> list[int]:
    """The colours of the map, the others, and greys for text."""
    shades = matplotlib.colormaps[colormap](numpy.linspace(0, 1, _COLOURS_OF_MAP))[:, :3]
    more = [matplotlib.colors.to_rgb(each) for each in others]
    greys = [(shade,) * 3 for shade in numpy.linspace(0, 1, 256 - _COLOURS_OF_MAP - len(more))]
    palette: list[int] = (255 * numpy.vstack([shades, more, greys])).round().astype(int).ravel().tolist()
    return palette


def _parts_of_gif(data: bytes) -> tuple[bytes, bytes]:
    """Returns the header with the colours, and the image, of a GIF with one image."""
    at = 13 + 3 * (2 << (data[10] & 7))
    head = data[:at]
    while data[at : at + 1] == b"\x21":  # extensions: blocks of bytes, the last of which is empty
        at += 2
        while data[at]:
            at += 1 + data[at]
        at += 1
    if not data[10] & 0x80 or data[at : at + 1] != b"," or data[-1:] != _GIF_TRAILER:
        raise PenstockError(
            "this version of Pillow writes GIF files that are not understood", "use --output FILE.png"
        )
    return head, data[at:-1]


def _chunks_of_png(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_PNG_SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length
