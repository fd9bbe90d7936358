"""What a detector sends, made with none of Penstock's code: Stream V2 messages over ZeroMQ."""

from collections.abc import Sequence
from typing import Any

import cbor2
import numpy
import zmq

SHAPE = (6, 64, 96)
TYPED_ARRAY = {"uint8": 64, "uint16": 69, "uint32": 70, "int16": 77, "int32": 78, "float32": 85}
ENERGY_EV = 12398.419843320026  # of 1 angstrom
IDENTITY: dict[str, object] = {"series_id": 1, "series_unique_id": "s"}


def frames_of(kind: str) -> numpy.ndarray:
    random = numpy.random.default_rng(7)
    frames = random.poisson(4, SHAPE)
    frames[:, :, 40:44] = -1 if kind.startswith("int") else numpy.iinfo(kind).max
    return frames.astype(kind)


def multi_dimensional(array: numpy.ndarray) -> cbor2.CBORTag:
    return cbor2.CBORTag(
        40, [list(array.shape), cbor2.CBORTag(TYPED_ARRAY[array.dtype.name], array.tobytes())]
    )


def least_message(kind: str, frames: int) -> dict[str, object]:
    """A start message with what no series can do without."""
    return {
        "type": "start",
        **IDENTITY,
        "channels": ["threshold_1"],
        "image_dtype": kind,
        "image_size_x": SHAPE[2],
        "image_size_y": SHAPE[1],
        "number_of_images": frames,
    }


def start_message(kind: str, frames: int) -> dict[str, object]:
    return {
        **least_message(kind, frames),
        "arm_date": cbor2.CBORTag(0, "2026-11-20T10:00:00Z"),
        "count_time": 0.009,
        "frame_time": 0.01,
        "incident_energy": ENERGY_EV,
        "sensor_material": "Si",
        "sensor_thickness": 4.5e-4,
        "pixel_size_x": 1.72e-4,
        "pixel_size_y": 1.72e-4,
        "beam_center_x": 48.5,
        "beam_center_y": 30.25,
        "saturation_value": 1000,
        "detector_translation": [0.0, 0.0, 0.25],
        "detector_description": "A detector",
        "goniometer": {"omega": {"increment": 0.1, "start": 10.0}},
        "pixel_mask": {"threshold_1": multi_dimensional(numpy.zeros(SHAPE[1:], "uint32"))},
    }


def full_message(kind: str, frames: int) -> dict[str, object]:
    """Every field that Stream V2 has, as detectors fill them."""
    still = {"increment": 0.0, "start": 0.0}
    return {
        **start_message(kind, frames),
        "detector_serial_number": "E-32-0000",
        # Detectors tell where their first pixel is, with z against the beam.
        "detector_translation": [48.5 * 1.72e-4, 30.25 * 1.72e-4, -0.25],
        "incident_wavelength": 1.0,
        "goniometer": {
            "chi": still,
            "kappa": still,
            "omega": {"increment": 0.1, "start": 10.0},
            "phi": still,
            "two_theta": {"increment": 0.0, "start": 20.0},
        },
        "countrate_correction_enabled": True,
        "countrate_correction_lookup_table": cbor2.CBORTag(70, numpy.arange(8, dtype="uint32").tobytes()),
        "flatfield": {"threshold_1": multi_dimensional(numpy.ones(SHAPE[1:], "float32"))},
        "flatfield_enabled": True,
        "pixel_mask_enabled": False,
        "virtual_pixel_interpolation_enabled": True,
        "threshold_energy": {"threshold_1": 6350.0, "threshold_2": 12700.0},
        "user_data": {"proposal": "P1", "μ": [1, 2]},
    }


def send(
    endpoint: str,
    frames: numpy.ndarray,
    leave_out: tuple[int, ...] = (),
    start: dict[str, object] | None = None,
    user_data: Sequence[object] | None = None,
    ends: bool = True,
) -> None:
    messages = [start or start_message(frames.dtype.name, len(frames))]
    channels: Any = messages[0]["channels"]
    for number, frame in enumerate(frames):
        if number in leave_out:
            continue
        data = {channel: multi_dimensional(frame) for channel in channels}
        image: dict[str, object] = {"type": "image", **IDENTITY, "image_id": number, "data": data}
        messages.append(image if user_data is None else {**image, "user_data": user_data[number]})
    if ends:
        messages.append({"type": "end", **IDENTITY})
    # Bounded, so that a recorder that does not exist fails the test and does not hang it.
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.setsockopt(zmq.SNDTIMEO, 60_000)
        socket.setsockopt(zmq.LINGER, 10_000)
        socket.bind(endpoint)
        for message in messages:
            socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))
