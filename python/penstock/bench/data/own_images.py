"""The user's own images, for frames that are these: a few, read as `penstock simulate --replay` does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import numpy.typing

if TYPE_CHECKING:  # it loads readers of images
    from penstock.files.images.replay import Replay

# Maximum total size of different ones; at least one.
IMAGES_MAX, BYTES_MAX = 16, 256 << 20
_IMAGE_BYTES_MAX = 4 << 30

Pixels = numpy.typing.NDArray[numpy.generic]


@contextmanager
def _replayed(source: Path, images_max: int) -> "Iterator[Replay]":
    from penstock.files.images.replay import replay_file  # noqa: PLC0415

    with replay_file([source], _IMAGE_BYTES_MAX, images_max, lambda _number, _of: None) as images:
        yield images


def shape_of_images(source: Path) -> tuple[int, int, str]:
    """Rows, columns and type of the first one. A UsageError or PenstockError where there is none."""
    with _replayed(source, 1) as first:
        return first.rows, first.columns, first.type


def read_images(source: Path) -> list[Pixels]:
    """In the order of their names, and of one shape and type. Errors as of shape_of_images()."""
    with _replayed(source, 1) as first:
        count = max(1, min(IMAGES_MAX, BYTES_MAX // first.frame_bytes))
    with _replayed(source, count) as images:
        return list(numpy.load(images.path, allow_pickle=False))
