"""Frames that come compressed and bring attributes along, beside the same frames without attributes."""

from __future__ import annotations

from functools import partial
from typing import Any

import h5py
from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.machine import settle
from measure.process import BenchmarkError, run_json, service
from measure.results import Result, Sample, absolute, beside_best

ATTRIBUTES = 50
RATE_HZ = 4000.0
SECONDS = 10
FRAMES_UNPACED = 40_000
RATIO_AT_LEAST = 8.0
RATE_KEPT_AT_LEAST = 0.95
# Each case on both sides, and a quarter of what is read again.
FILE_BYTES = 6 * GIB


def _plan(context: Context) -> dict[str, Any]:
    return {
        "folder": str(context.tmpfs),
        "file_name": "{series_unique_id}.h5",
        "overwrite": True,
        "sources": [{"kind": "tcp", "host": "127.0.0.1", "port": 0}],
        "codec": {"encoding": "bslz4"},
        "threads": 1,
        "pool_bytes": GIB // 2,
        "log_level": "error",
    }


def _record(context: Context, attributes: int, frames: int, rate_hz: float) -> Sample:
    """The sender on one core, the recorder on the other."""
    settle()
    sender_core, recorder_core = context.cores[0], context.cores[-1]
    path = context.tmpfs / "attributes.h5"
    command = [context.program("penstock-recorder"), "--plan", "-"]
    with service(command, _plan(context), cores=[recorder_core]) as recorder:
        address = recorder.wait_for("listening")["sources"][0].removeprefix("tcp://")
        sender = [context.program("attribute_sender"), address, str(frames), str(attributes), f"{rate_hz:g}"]
        document, finished = run_json(sender, cores=[sender_core])
        recorder_cpu_s = recorder.finish(stop=True)
    try:
        _look(path, attributes, frames)
    finally:
        path.unlink()
    if document["acknowledged"] != frames or document["ratio"] < RATIO_AT_LEAST:
        raise BenchmarkError(f"{document} of {frames} frames, compressed {RATIO_AT_LEAST:g} times")
    return {
        "frames_per_s": frames / document["seconds"],
        "late_max_ms": document["late_max_ms"],
        "ratio": document["ratio"],
        "recorder_us_a_frame": recorder_cpu_s / frames * 1e6,
        "sender_us_a_frame": finished.cpu_seconds / frames * 1e6,
    }


def _look(path: Any, attributes: int, frames: int) -> None:
    """No frame and no value is missing."""
    with h5py.File(path) as file:
        states = file["/entry/penstock/frame_state"][...]
        if (states != 1).any() or len(states) != frames:
            raise BenchmarkError(f"{int((states == 1).sum())} of {frames} frames are in the file")
        names = sorted(file["/entry/metadata"]) if attributes else []
        if len(names) != attributes:
            raise BenchmarkError(f"{len(names)} of {attributes} attributes are in the file")
        for name in names:
            number = int(name.removeprefix("attribute_"))
            last = file["/entry/metadata"][name][frames - 1]
            wanted = (frames - 1) * 0.001 + number if number % 2 == 0 else (frames - 1) * (number + 1)
            if last != wanted:
                raise BenchmarkError(f"{name} of the last frame is {last} and not {wanted}")


def beside_none(context: Context) -> list[Result]:
    """Twice: at 4000 frames/s, and unpaced, where each microsecond shows."""
    if len(context.cores) < 2:
        raise BenchmarkError("a sender and a recorder need a core each; there is one")
    context.need(context.tmpfs, FILE_BYTES)
    results = []
    paced = max(1, context.bytes_of(SECONDS)) * int(RATE_HZ)
    unpaced = context.bytes_of(FRAMES_UNPACED)
    for name, frames, rate_hz in (("paced", paced, RATE_HZ), ("unpaced", unpaced, 0.0)):
        subjects: dict[str, Subject] = {
            "with": partial(_record, context, ATTRIBUTES, frames, rate_hz),
            "without": partial(_record, context, 0, frames, rate_hz),
        }
        samples = interleaved(f"attributes {name}", subjects, context.repetitions)
        results.append(_kept(name, rate_hz, samples))
        if rate_hz:
            results.append(_sustained(samples["with"]))
    return results


def _middle(samples: list[Sample], key: str) -> float:
    return sorted(sample[key] for sample in samples)[len(samples) // 2]


def _kept(name: str, rate_hz: float, samples: dict[str, list[Sample]]) -> Result:
    pace = f"{rate_hz:g} per second offered" if rate_hz else "unpaced"
    costs = {
        case: (_middle(found, "recorder_us_a_frame"), _middle(found, "sender_us_a_frame"))
        for case, found in samples.items()
    }
    return beside_best(
        f"attributes/{name}",
        f"frames of 512 × 1024 pixels, compressed by the sender, each with {ATTRIBUTES} attributes, {pace}",
        samples["with"],
        {"the same without attributes": samples["without"]},
        at_least=RATE_KEPT_AT_LEAST,
        metric="frames_per_s",
        scale=1.0,
        unit="frames/s",
        remarks=(
            f"compressed {_middle(samples['with'], 'ratio'):.1f} times; processor time of a frame: recorder"
            f" {costs['with'][0]:.0f} µs and {costs['without'][0]:.0f} µs without, sender"
            f" {costs['with'][1]:.0f} µs and {costs['without'][1]:.0f} µs without",
        ),
    )


def _sustained(samples: list[Sample]) -> Result:
    """The time ends when the file is closed: a hundredth is for that."""
    return absolute(
        "attributes/sustained",
        f"frames a second with {ATTRIBUTES} attributes, of {RATE_HZ:g} offered, until the file is closed;"
        " none lost",
        [sample["frames_per_s"] for sample in samples],
        unit="frames/s",
        at_least=RATE_HZ * 0.99,
        remarks=(f"the latest frame was {_middle(samples, 'late_max_ms'):.0f} ms late",),
    )
