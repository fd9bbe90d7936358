"""Interleaved repetitions: each block runs every subject once, every other block backwards.

So no subject always follows the same other one, and slow drifts of the machine meet all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from measure.results import Sample

Subject = Callable[[], Sample]


def order(names: list[str], block: int) -> list[str]:
    """A B C, C B A, A B C …"""
    return names if block % 2 == 0 else names[::-1]


class Progress:
    """One line that is rewritten on a terminal; a line a block elsewhere."""

    def __init__(self, title: str, total: int, out: TextIO = sys.stderr) -> None:
        self._title, self._total, self._out = title, total, out
        self._rewrites = out.isatty()

    def show(self, done: int, words: str) -> None:
        text = f"{self._title}: {done}/{self._total} {words}"
        if self._rewrites:
            self._out.write(f"\r\x1b[2K{text[:118]}")
            self._out.flush()

    def end(self, words: str) -> None:
        start = "\r\x1b[2K" if self._rewrites else ""
        self._out.write(f"{start}{self._title}: {words}\n")
        self._out.flush()


def interleaved(
    title: str, subjects: Mapping[str, Subject], repetitions: int, *, warm_ups: int = 1
) -> dict[str, list[Sample]]:
    """Samples of each subject, entry n from block n. Blocks that warm up are not kept."""
    samples: dict[str, list[Sample]] = {name: [] for name in subjects}
    names = list(subjects)
    progress = Progress(title, (repetitions + warm_ups) * len(names))
    done = 0
    for block in range(repetitions + warm_ups):
        for name in order(names, block):
            progress.show(done, name)
            sample = subjects[name]()
            done += 1
            if block >= warm_ups:
                samples[name].append(sample)
    progress.end(f"{repetitions} repetitions of {len(names)} subjects")
    return samples
