"""A series in which every value is another one, so that no two can be taken for each other unseen."""

import contextlib
from pathlib import Path
from typing import Any

import cbor2
import numpy
import numpy.typing
import zmq
from conftest import RecordCommand, end_with_family
from detector_stream import IDENTITY, multi_dimensional

FRAMES, ROWS, COLUMNS = 7, 48, 80
CHANNELS = ("threshold_1", "threshold_2")
PIXEL_X_M, PIXEL_Y_M = 75e-6, 172e-6
COUNT_TIME_S, FRAME_TIME_S = 0.0017, 0.0023
THICKNESS_M = 7.5e-4
ENERGY_EV, WAVELENGTH_ANGSTROM = 12658.0, 12398.419843320026 / 12658.0
CENTER_X, CENTER_Y = 31.25, 17.75
DISTANCE_M = 0.217
SATURATION = 4321
THRESHOLDS_EV = {"threshold_1": 6329.0, "threshold_2": 10126.0}
OMEGA_START, OMEGA_STEP = 33.5, 0.25
MASK_BITS = (1, 2, 4, 8, 16, 1 << 31)
ARM_DATE = "2026-11-20T10:11:12.5Z"
# Of an image, in ticks of 10 ns since the series' date: its start, its stop, and how long it counts.
CLOCK_HZ = 100_000_000
WHOLE = slice(None)
Pixels = numpy.typing.NDArray[Any]


def frames_of(channel: int) -> Pixels:
    """What a channel's frames hold: gaps with the highest value, hot pixels, another pattern in each."""
    frames = numpy.random.default_rng(channel).poisson(3 + channel, (FRAMES, ROWS, COLUMNS)).astype("uint16")
    frames[:, :, 38:42] = 65535
    frames[:, 5, 7] = 60000
    return frames


def mask() -> Pixels:
    values = numpy.zeros((ROWS, COLUMNS), "uint32")
    values[:, 38:42] = 1
    values.flat[: len(MASK_BITS)] = MASK_BITS
    return values


def flat_field() -> Pixels:
    return numpy.random.default_rng(9).normal(1, 0.1, (ROWS, COLUMNS)).astype("float32")


def exposure(number: int) -> dict[str, list[int]]:
    start = number * int(FRAME_TIME_S * CLOCK_HZ) + 77
    stop = start + int(COUNT_TIME_S * CLOCK_HZ)
    return {
        "start_time": [start, CLOCK_HZ],
        "stop_time": [stop, CLOCK_HZ],
        "real_time": [stop - start - 3, CLOCK_HZ],
    }


def start(columns: slice = WHOLE) -> dict[str, object]:
    """Of the whole detector, or of an element that has these columns."""
    return {
        "type": "start",
        **IDENTITY,
        "arm_date": cbor2.CBORTag(0, ARM_DATE),
        "channels": list(CHANNELS),
        "image_dtype": "uint16",
        "image_size_x": len(range(COLUMNS)[columns]),
        "image_size_y": ROWS,
        "number_of_images": FRAMES,
        "beam_center_x": CENTER_X,
        "beam_center_y": CENTER_Y,
        "count_time": COUNT_TIME_S,
        "frame_time": FRAME_TIME_S,
        "countrate_correction_enabled": True,
        "countrate_correction_lookup_table": cbor2.CBORTag(70, numpy.arange(5, dtype="uint32").tobytes()),
        "detector_description": "Made Up 4k",
        "detector_serial_number": "E-01-0042",
        # To the first pixel, with z against the beam.
        "detector_translation": [CENTER_X * PIXEL_X_M, CENTER_Y * PIXEL_Y_M, -DISTANCE_M],
        "flatfield": {channel: multi_dimensional(flat_field()[:, columns].copy()) for channel in CHANNELS},
        "flatfield_enabled": False,
        "goniometer": {
            "chi": {"increment": 0.0, "start": 12.0},
            "omega": {"increment": OMEGA_STEP, "start": OMEGA_START},
            "two_theta": {"increment": 0.0, "start": 0.0},
        },
        "incident_energy": ENERGY_EV,
        "incident_wavelength": WAVELENGTH_ANGSTROM,
        "pixel_mask": {channel: multi_dimensional(mask()[:, columns].copy()) for channel in CHANNELS},
        "pixel_mask_enabled": True,
        "pixel_size_x": PIXEL_X_M,
        "pixel_size_y": PIXEL_Y_M,
        "saturation_value": SATURATION,
        "sensor_material": "CdTe",
        "sensor_thickness": THICKNESS_M,
        "threshold_energy": THRESHOLDS_EV,
        "virtual_pixel_interpolation_enabled": False,
    }


def image(number: int, columns: slice = WHOLE) -> dict[str, object]:
    data = {
        channel: multi_dimensional(frames_of(place)[number][:, columns].copy())
        for place, channel in enumerate(CHANNELS)
    }
    return {
        "type": "image",
        **IDENTITY,
        "image_id": number,
        "series_date": cbor2.CBORTag(0, ARM_DATE),
        **exposure(number),
        "user_data": {"place": [number // 4, number % 4]},
        "data": data,
    }


def element(number: int, of: int) -> list[dict[str, object]]:
    """What one of several elements side by side sends."""
    columns = slice(number * COLUMNS // of, (number + 1) * COLUMNS // of)
    place = {"penstock": {"element": {"grid": [1, of], "number": number}}}
    images = [image(number, columns) for number in range(FRAMES)]
    return [{**start(columns), "user_data": place}, *images, {"type": "end", **IDENTITY}]


def record_series(
    folder: Path,
    *options: str,
    user_data: object = None,
    elements: int = 1,
    missing: int = 0,
    without: tuple[int, ...] = (),
) -> Path:
    """The series' file in `folder`: real detectors' messages over ZeroMQ, the real recorder.

    The last `missing` frames and those in `without` are not sent.
    """
    numbers = [number for number in range(FRAMES - missing) if number not in without]
    if elements > 1:
        streams = [element(number, elements) for number in range(elements)]
    else:
        told = start() if user_data is None else {**start(), "user_data": user_data}
        streams = [[told, *map(image, numbers), {"type": "end", **IDENTITY}]]
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        sockets = [stack.enter_context(context.socket(zmq.PUSH)) for _ in streams]
        endpoints: list[str] = []
        for socket in sockets:
            socket.setsockopt(zmq.SNDTIMEO, 20_000)
            socket.setsockopt(zmq.LINGER, 10_000)
            endpoints += ["--zmq", f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"]
        recorder = RecordCommand(
            ["--folder", str(folder), "--pool", "256MiB", *endpoints, "--series", "1", *options]
        )
        try:
            for socket, messages in zip(sockets, streams, strict=True):
                for message in messages:
                    socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))
            end = recorder.series_end()
            assert (end.problem, end.frames_received) == (None, len(numbers))
            recorder.process.wait(60)
        finally:
            end_with_family(recorder.process)
            recorder.process.communicate(timeout=30)
    return folder / "s.h5"
