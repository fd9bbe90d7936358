"""Whether a machine suffices for a detector: link, processors for the codec, memory and free space."""

import math
from collections.abc import Iterator

from penstock.bench.doctor.machine import available_memory, available_processors
from penstock.bench.doctor.pool import Pool
from penstock.bench.judge.checks import OTHERS_SHARE
from penstock.model.catalogue import Detector
from penstock.model.plan.checkup import Finding, ok, problem, unknown, warning
from penstock.model.plan.datasheet import DataSheet
from penstock.model.plan.sizing import CodecMeasurement
from penstock.model.plans import GIB, Encoding
from penstock.model.text import counted
from penstock.model.units import (
    human_bytes,
    human_number,
    human_percent,
    human_rate,
    human_seconds,
)

# One processor receives and one writes, next to those that compress.
_OTHER_PROCESSORS = 2
_LINK_SHARE = 0.95  # what is left for frames after the headers of packets
_BUFFER_S = 1.0
# With less, the storage is full before anybody can react, or before the shift of a beam time ends.
_SPACE_S, _SHIFT_S = 600.0, 8 * 3600.0


def detector_findings(
    sheet: DataSheet,
    detector: Detector,
    encoding: str,
    codec: CodecMeasurement | None,
    why: str = "",
    pool: Pool | None = None,
) -> list[Finding]:
    """`codec`: the speed of `encoding` (or filter) on this machine; None: not measured, because of `why`."""
    raw = detector.bytes_per_s
    if not raw:
        return [unknown("detector", f"the catalogue has no frame rate of the {detector.name}")]
    # The recorder compresses what arrives uncompressed only.
    sent_ratio = detector.sent_ratio if encoding == "none" else None
    rate = raw / (sent_ratio or 1)
    stored = rate / (1.0 if codec is None else codec.ratio)
    return [
        ok("detector", f"{detector.name}: {human_rate(raw)} uncompressed{_as_sent(detector, sent_ratio)}"),
        *_link(sheet, detector, rate),
        *_codec(sheet, detector, encoding, codec, why),
        *_buffer(sheet, rate, pool or Pool()),
        *_space(sheet, detector, stored, raw / stored),
    ]


def codec_of(detector: Detector) -> Encoding:
    """Returns the codec of a recorder of this detector: none if it sends compressed frames."""
    return "bslz4" if detector.sends == "none" else "none"


def _as_sent(detector: Detector, ratio: float | None) -> str:
    if ratio is None:
        return ""
    return (
        f"; it sends {detector.sends}, {human_rate(detector.bytes_per_s / ratio)} with the catalogue's"
        f" typical ratio of {ratio:g}"
    )


def _link(sheet: DataSheet, detector: Detector, rate: float) -> Iterator[Finding]:
    compresses = rate < detector.bytes_per_s
    speeds = [
        group.number("speed") or 0.0 for group in sheet.of_kind("interface") if group.value("state") == "up"
    ]
    fastest = max(speeds, default=0.0) * 1e6 / 8 * _LINK_SHARE
    if not fastest:
        yield unknown("link for the detector", "no interface reports its speed")
    elif fastest < rate:
        yield problem(
            "link for the detector",
            f"the fastest interface carries {human_rate(fastest)}",
            f"the {detector.name} sends {human_rate(rate)}{'' if compresses else ' if it does not compress'}",
            f"{'' if compresses else 'let the detector compress, or '}use a link of at least"
            f" {math.ceil(rate * 8 / _LINK_SHARE / 1e9)} Gb/s",
        )
    else:
        yield ok("link for the detector", f"the fastest interface carries {human_rate(fastest)}")


def _codec(
    sheet: DataSheet, detector: Detector, encoding: str, codec: CodecMeasurement | None, why: str
) -> Iterator[Finding]:
    check, there = f"processors for {encoding}", available_processors(sheet)
    if encoding != "none" and codec is None:
        yield unknown(check, why)
        return
    threads = 0 if codec is None else math.ceil(detector.bytes_per_s / codec.bytes_per_s)
    speed = "" if codec is None else f" at {human_rate(codec.bytes_per_s)} each, {_measured_on(codec)}"
    needed = threads + _OTHER_PROCESSORS
    if encoding == "none" and detector.sends != "none":
        speed = f" because the detector sends {detector.sends}, which is stored unchanged"
    found = f"{counted(threads, 'compression thread')}{speed}, and {_OTHER_PROCESSORS} to receive and write"
    if there is None:
        yield unknown(check, f"needed: {found}")
    elif needed > there:
        yield problem(
            check,
            f"{needed} processors are needed, {there:g} are available",
            f"{found}; frames that the detector sends compressed need no compression threads",
            f"record on a machine with {needed} processors, let the detector compress, or record with"
            " --codec none",
        )
    else:
        yield ok(check, f"{found}: penstock record --threads {max(1, threads)}")


def _measured_on(codec: CodecMeasurement) -> str:
    """Other programs make the codec slower than it is."""
    others = codec.others_share
    meanwhile = f" while other programs used {human_percent(others, 2)} of the processors"
    return f"measured on {codec.images}{meanwhile if others > OTHERS_SHARE else ''}"


def _buffer(sheet: DataSheet, rate: float, pool: Pool) -> Iterator[Finding]:
    seconds, there = pool.bytes / rate, available_memory(sheet)
    found = f"{pool.words} holds {human_seconds(seconds)} of the detector's data"
    if seconds >= _BUFFER_S:
        yield ok("buffer", found)
        return
    wanted = math.ceil(2 * _BUFFER_S * rate / GIB) * GIB
    more = (
        f"; this machine has {human_bytes(there)}: add memory"
        if there is not None and there < 2 * wanted
        else ""
    )
    yield problem(
        "buffer",
        found,
        "a stall of the storage that lasts longer holds the detector back, or loses frames",
        f"{pool.remedy(wanted)}{more}",
    )


def _space(sheet: DataSheet, detector: Detector, stored: float, ratio: float) -> Iterator[Finding]:
    group = sheet.group("file system")
    free = group.number("free") if group is not None else None
    if free is None:
        yield unknown("space for the detector", "the file system does not report free space")
        return
    seconds = free / stored
    compressed = f" compressed {human_number(ratio, 2)} times" if ratio > 1 else " uncompressed"
    found = f"{human_bytes(free)} hold {human_seconds(seconds)} of the {detector.name}{compressed}"
    if seconds >= _SHIFT_S:
        yield ok("space for the detector", found)
    elif seconds >= _SPACE_S:
        yield warning(
            "space for the detector",
            found,
            "a shift may last longer, and the recorder holds frames back while the storage is full",
            f"free some space, or move files away meanwhile: 8 hours take {human_bytes(stored * _SHIFT_S)}",
        )
    else:
        yield problem(
            "space for the detector",
            found,
            "the recorder holds frames back while the storage is full",
            f"free some space: 10 minutes take {human_bytes(stored * _SPACE_S)}",
        )
