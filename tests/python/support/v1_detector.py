"""What a detector sends in the format `legacy`, made with none of Penstock's code: parts over ZeroMQ."""

import json
from typing import Any

import bitshuffle
import lz4_block
import numpy

CONFIG: dict[str, object] = {
    "beam_center_x": 48.5,
    "beam_center_y": 30.25,
    "bit_depth_image": 16,
    "count_time": 0.009,
    "description": "A detector",
    "detector_distance": 0.25,
    "detector_number": "E-32-0000",
    "frame_time": 0.01,
    "nimages": 3,
    "ntrigger": 2,
    "omega_increment": 0.1,
    "omega_start": 10.0,
    "photon_energy": 12398.4,
    "sensor_material": "Si",
    "sensor_thickness": 4.5e-4,
    "software_version": "1.8.0",
    "wavelength": 1.0,
    "x_pixel_size": 1.72e-4,
    "x_pixels_in_detector": 96,
    "y_pixel_size": 1.72e-4,
    "y_pixels_in_detector": 64,
}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def table(kind: str, array: numpy.ndarray) -> list[bytes]:
    described = {"htype": kind, "shape": list(array.shape[::-1]), "type": array.dtype.name}
    return [text(described), array.tobytes()]


def header(series: int, detail: str, shape: tuple[int, int], appendix: bytes | None = None) -> list[bytes]:
    parts = [text({"htype": "dheader-1.0", "series": series, "header_detail": detail})]
    if detail != "none":
        parts.append(text(CONFIG))
    if detail == "all":
        parts += table("dflatfield-1.0", numpy.full(shape, 0.5, "<f4"))
        parts += table("dpixelmask-1.0", numpy.arange(shape[0] * shape[1], dtype="<u4").reshape(shape))
        parts += table("dcountrate_table-1.0", numpy.arange(6, dtype="<f4").reshape(3, 2))
    return parts if appendix is None else [*parts, appendix]


def encoded(pixels: numpy.ndarray, encoding: str) -> bytes:
    if encoding == "<":
        return pixels.tobytes()
    if encoding == ">":
        return pixels.byteswap().tobytes()
    if encoding == "lz4<":
        return lz4_block.compress(pixels.tobytes())
    big = pixels.byteswap() if encoding.endswith(">") else pixels
    header_of_filter = pixels.nbytes.to_bytes(8, "big") + (8192).to_bytes(4, "big")
    return header_of_filter + bytes(bitshuffle.compress_lz4(big, 8192 // pixels.itemsize))


def image(
    series: int, frame: int, pixels: numpy.ndarray, encoding: str = "<", appendix: bytes | None = None
) -> list[bytes]:
    blob = encoded(pixels, encoding)
    data: dict[str, Any] = {
        "htype": "dimage_d-1.0",
        "shape": list(pixels.shape[::-1]),
        "type": pixels.dtype.name,
        "encoding": encoding,
        "size": len(blob),
    }
    times = {
        "htype": "dconfig-1.0",
        "start_time": frame * 10**7,
        "stop_time": frame * 10**7 + 9 * 10**6,
        "real_time": 9 * 10**6,
    }
    parts = [
        text({"htype": "dimage-1.0", "series": series, "frame": frame, "hash": "0" * 32}),
        text(data),
        blob,
        text(times),
    ]
    return parts if appendix is None else [*parts, appendix]


def end(series: int) -> list[bytes]:
    return [text({"htype": "dseries_end-1.0", "series": series})]
