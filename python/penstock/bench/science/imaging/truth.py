"""What is known of each frame, and the comparison with it."""

import zlib
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy
from numpy.typing import NDArray

from penstock.bench.science.imaging.analysis import Result
from penstock.bench.science.imaging.image_file import open_images
from penstock.bench.science.imaging.simulated import Pixels
from penstock.model.errors import PenstockError

GROUP = "/entry/truth"
# One pixel of a bin of 10 000 that differs by one count changes a profile by more.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-6
_NAMED_MAX = 10


def checksum_of(pixels: Pixels) -> int:
    return zlib.crc32(numpy.ascontiguousarray(pixels).data)


@dataclass
class Truth:
    """Of the first frames of a file. Profiles are missing if pyFAI was when it was made."""

    totals: list[int]
    spots: list[int]
    checksums: list[int]
    """CRC-32 of the pixels"""
    profiles: "NDArray[numpy.float32] | None"

    def store(self, file: h5py.File) -> None:
        group = file.require_group(GROUP)
        group["total"] = numpy.array(self.totals, dtype=numpy.int64)
        group["spots"] = numpy.array(self.spots, dtype=numpy.int64)
        group["checksum"] = numpy.array(self.checksums, dtype=numpy.int64)
        if self.profiles is not None:
            group["profile"] = self.profiles

    @classmethod
    def load(cls, path: str) -> "Truth":
        with open_images(path) as file:
            group = file.get(GROUP)
            if group is None:
                raise PenstockError(f"{path} has no {GROUP}", "use --images FILE for files of others")
            profiles = group["profile"][()] if "profile" in group else None
            totals, spots, checksums = (group[name][()].tolist() for name in ("total", "spots", "checksum"))
            return cls(totals, spots, checksums, profiles)

    @classmethod
    def of(cls, results: list[Result], checksums: list[int]) -> "Truth":
        """Of results that have all but the profile at least."""
        profiles = [each.profile for each in results if each.profile is not None]
        return cls(
            [each.total or 0 for each in results],
            [each.spots or 0 for each in results],
            checksums,
            numpy.array(profiles, dtype=numpy.float32) if len(profiles) == len(results) else None,
        )


@dataclass
class Comparison:
    """Of the results of one job with the truth."""

    truth: Truth
    compared: int = 0
    looked_at: int = 0
    """frames whose pixels were compared"""
    wrong: dict[int, str] = field(default_factory=dict)
    """number of the frame, and what is wrong with it"""

    def take(self, number: int, result: Result) -> None:
        self.compared += 1
        problem = self._problem(number, result)
        if problem:
            self.wrong.setdefault(number, problem)

    def look_at(self, number: int, pixels: Pixels) -> None:
        """Pixels that changed places leave sum, spots and often profile as they were."""
        self.looked_at += 1
        if checksum_of(pixels) != self.truth.checksums[number]:
            self.wrong.setdefault(number, "it has other pixels")

    def _problem(self, number: int, result: Result) -> str:
        truth = self.truth
        if result.total is not None and result.total != truth.totals[number]:
            return f"its sum is {result.total} instead of {truth.totals[number]}"
        if result.spots is not None and result.spots != truth.spots[number]:
            return f"it has {result.spots} spots instead of {truth.spots[number]}"
        if result.profile is not None and truth.profiles is not None:
            known = truth.profiles[number]
            off = ~numpy.isclose(result.profile, known, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)
            if off.any():
                at = int(numpy.argmax(off))
                return f"bin {at} of its profile is {result.profile[at]:g} instead of {known[at]:g}"
        return ""

    def summary(self) -> dict[str, Any]:
        named = sorted(self.wrong.items())[:_NAMED_MAX]
        return {
            "compared": self.compared,
            "looked_at": self.looked_at,
            "wrong": len(self.wrong),
            "named": named,
        }
