"""Frames to compress and to replay: real images where there are some, simulated ones always.

Simulated frames: Poisson background, Bragg spots, gaps between modules at the type's mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

REAL_FRAMES = 6
SIMULATED_FRAMES = 4
BACKGROUND_MEAN = 0.3
SPOTS = 300


@dataclass(frozen=True)
class FrameSet:
    name: str  # "real 16 bit"
    raw: Path  # frames one after another, without a header
    type: str  # as numpy names it
    rows: int
    columns: int

    @property
    def element_bytes(self) -> int:
        return int(np.dtype(self.type).itemsize)

    @property
    def elements(self) -> int:
        return self.rows * self.columns


def simulate(rows: int, columns: int, kind: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    frame = random.poisson(BACKGROUND_MEAN, (rows, columns)).astype(np.int64)
    offsets = np.arange(-2, 3)
    profile = np.exp(-(offsets[:, None] ** 2 + offsets[None, :] ** 2) / 2)
    for row, column, counts in zip(
        random.integers(2, rows - 2, SPOTS),
        random.integers(2, columns - 2, SPOTS),
        random.exponential(500, SPOTS),
        strict=True,
    ):
        frame[row - 2 : row + 3, column - 2 : column + 3] += random.poisson(profile * counts)
    module, gap = ((512, 1024), (38, 12)) if rows == 2048 else ((195, 487), (17, 7))
    mark = -1 if np.dtype(kind).kind == "i" else np.iinfo(kind).max
    for start in range(module[0], rows, module[0] + gap[0]):
        frame[start : start + gap[0]] = mark
    for start in range(module[1], columns, module[1] + gap[1]):
        frame[:, start : start + gap[1]] = mark
    return frame.astype(kind)


def load_real(folder: Path) -> np.ndarray | None:
    """The first images of the folder, 32 bit signed; None where it has none."""
    import fabio  # noqa: PLC0415 - slow to load, and only needed here

    names = sorted(
        path
        for path in folder.iterdir()
        if path.name.endswith((".cbf", ".cbf.bz2", ".cbf.gz", ".tif", ".tiff"))
    )[:REAL_FRAMES]
    if not names:
        return None
    return np.stack([np.asarray(fabio.open(str(name)).data, dtype=np.int32) for name in names])


def to_16_bit(frames: np.ndarray) -> np.ndarray:
    """As a 16-bit detector counts: marks become the largest value, counts stop below it."""
    return np.where(frames < 0, 65535, np.minimum(frames, 65534)).astype(np.uint16)


def _store(folder: Path, name: str, frames: np.ndarray) -> FrameSet:
    raw = folder / f"{name.replace(' ', '-')}.raw"
    frames.tofile(raw)
    return FrameSet(name, raw, frames.dtype.name, frames.shape[1], frames.shape[2])


def make_frame_sets(folder: Path, images: Path | None) -> list[FrameSet]:
    sets = [
        _store(
            folder,
            f"simulated {bits} bit",
            np.stack([simulate(rows, columns, kind, seed) for seed in range(SIMULATED_FRAMES)]),
        )
        for bits, kind, rows, columns in ((16, "uint16", 2048, 2048), (32, "int32", 2527, 2463))
    ]
    real = load_real(images) if images else None
    if real is not None:
        sets.append(_store(folder, "real 16 bit", to_16_bit(real)))
        sets.append(_store(folder, "real 32 bit", real))
    return sets
