"""Compression ratios of the catalogue: low, typical or high."""

from penstock.model.catalogue import Detector, Level
from penstock.model.plan.sizing import Compression
from penstock.model.plans import Encoding


def catalogue_compression(
    detector: Detector, encoding: Encoding, level: Level, speed_bytes_per_s: float | None
) -> Compression:
    """Returns the ratio that the catalogue states for the detector; 1 if it states none.

    The speed is the stated one; None is unknown.
    """
    if encoding == "none":
        return Compression()
    ratios = detector.compression
    speed_from = "stated" if speed_bytes_per_s is not None else ""
    if ratios is None:
        return Compression(
            encoding=encoding,
            ratio_from="unknown, assumed to be 1",
            is_ratio_unknown=True,
            speed_bytes_per_s=speed_bytes_per_s,
            speed_from=speed_from,
        )
    return Compression(
        encoding=encoding,
        ratio=ratios.at(level),
        ratio_from=f"{level} of the catalogue ({ratios.encoding}, {ratios.basis}; {ratios.source})",
        catalogue=ratios,
        simulated=ratios.basis == "simulated",
        speed_bytes_per_s=speed_bytes_per_s,
        speed_from=speed_from,
    )
