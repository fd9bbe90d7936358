"""Makes the .v1 files of this folder: messages of Stream V1, as docs/reference/stream-v1.md describes them.

Run it from anywhere; it rewrites the files beside itself. A file has the message's parts one after another,
each with its length in front (32 bits, little-endian). Bad messages begin with `bad_` and are named for what
is wrong.
"""

import json
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
PIXELS = struct.pack("<12H", *range(12))
Parts = list[bytes]


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def header(detail: str = "none", **changes: object) -> bytes:
    return text({"htype": "dheader-1.0", "series": 3, "header_detail": detail} | changes)


CONFIG: dict[str, object] = {
    "beam_center_x": 1.5,
    "beam_center_y": 2.5,
    "bit_depth_image": 16,
    "bit_depth_readout": 12,
    "chi_increment": 0.0,
    "chi_start": -1.5,
    "count_time": 0.0099,
    "countrate_correction_applied": True,
    "countrate_correction_count_cutoff": 60000,
    "data_collection_date": "2026-11-20T10:00:00.5",
    "description": "A detector",
    "detector_distance": 0.125,
    "detector_number": "E-01-0001",
    "element": "Cu",
    "flatfield_correction_applied": 1,
    "frame_time": 0.01,
    "nimages": 5,
    "ntrigger": 2,
    "omega_increment": 0.5,
    "omega_start": 10.25,
    "photon_energy": 12400.0,
    "pixel_mask_applied": 0,
    "roi_mode": "disabled",
    "sensor_material": "Si",
    "sensor_thickness": 450e-6,
    "software_version": "1.8.0",
    "threshold_energy": 6200.0,
    "trigger_mode": "ints",
    "wavelength": 1.0,
    "x_pixel_size": 75e-6,
    "x_pixels_in_detector": 4,
    "y_pixel_size": 75e-6,
    "y_pixels_in_detector": 3,
}


def table(kind: str, element: str, shape: list[int]) -> bytes:
    return text({"htype": kind, "shape": shape, "type": element})


TABLES: Parts = [
    table("dflatfield-1.0", "float32", [4, 3]),
    struct.pack("<12f", *[1.0] * 12),
    table("dpixelmask-1.0", "uint32", [4, 3]),
    struct.pack("<12I", *range(12)),
    table("dcountrate_table-1.0", "float32", [2, 3]),
    struct.pack("<6f", *range(6)),
]


def image(blob: bytes = PIXELS, appendix: bytes | None = None, **changes: object) -> Parts:
    data = {"htype": "dimage_d-1.0", "shape": [4, 3], "type": "uint16", "encoding": "<", "size": len(blob)}
    times = {"htype": "dconfig-1.0", "start_time": 1000, "stop_time": 9_901_000, "real_time": 9_900_000}
    parts = [
        text({"htype": "dimage-1.0", "series": 3, "frame": 5, "hash": "0" * 32}),
        text(data | changes),
        blob,
        text(times),
    ]
    return parts if appendix is None else [*parts, appendix]


def good() -> dict[str, Parts]:
    framed = struct.pack(">QI", 24, 8192) + b"0123456789ab"
    lenient = [part.replace(b"dflatfield", b"flatfield") for part in TABLES]
    return {
        "header_none": [header()],
        "header_none_appendix": [header(), b'{"sample": "lysozyme"}'],
        "header_basic": [header("basic"), text(CONFIG)],
        "header_all": [header("all"), text(CONFIG), *TABLES],
        "header_all_appendix": [header("all"), text(CONFIG), *TABLES, b"just text"],
        "header_all_lenient": [header("all"), text(CONFIG), *lenient],
        "header_odd_values": [header("basic"), text(CONFIG | {"beam_center_x": "middle", "nimages": -1})],
        "header_odd_mask": [header("all"), text(CONFIG), *TABLES[:2], TABLES[2], b"\0\0"],
        "image": image(),
        "image_u32": image(struct.pack("<12I", *range(12)), type="uint32"),
        "image_big_endian": image(struct.pack(">12H", *range(12)), encoding=">"),
        "image_lz4": image(b"\xf0\x09" + PIXELS, encoding="lz4<"),
        "image_bslz4": image(framed, encoding="bs16-lz4<"),
        "image_appendix": image(appendix=b'{"gain": 2, "dose": 1.5, "note": "n", "l": [1, 2], "no": null}'),
        "image_appendix_text": image(appendix=b"caf\xe9"),
        "end": [text({"htype": "dseries_end-1.0", "series": 3})],
    }


def bad() -> dict[str, Parts]:
    deep = b'{"htype":' + b"[" * 10_000
    return {
        "bad_htype": [text({"htype": "dnothing-1.0", "series": 3})],
        "bad_no_htype": [b"{}"],
        "bad_json": [b"{"],
        "bad_json_deep": [deep],
        "bad_json_number": [b'{"htype": "dheader-1.0", "series": 1e999}'],
        "bad_header_without_series": [text({"htype": "dheader-1.0"})],
        "bad_header_series_text": [header(series="3")],
        "bad_header_detail": [header("most")],
        "bad_header_without_config": [header("basic")],
        "bad_header_config_list": [header("basic"), b"[1]"],
        "bad_header_cut": [header("all"), text(CONFIG), *TABLES[:3]],
        "bad_header_parts": [header(), b"a", b"b"],
        "bad_image_cut": image()[:2],
        "bad_image_parts": [*image(), b"a", b"b"],
        "bad_image_shape": image(shape=[5, 3]),
        "bad_image_shape_of_2_to_63": image(shape=[2**63, 2]),
        "bad_image_shape_negative": image(shape=[-4, -3]),
        "bad_image_type": image(type="uint12"),
        "bad_image_size": image(size=23),
        "bad_image_encoding": image(encoding="trpx<"),
        "bad_image_encoding_bits": image(encoding="bs32-lz4<"),
        "bad_image_lz4_of_raw_size": image(encoding="lz4<"),
        "bad_image_empty": image(b"", encoding="lz4<"),
        "bad_image_frame_negative": [text({"htype": "dimage-1.0", "series": 3, "frame": -1}), *image()[1:]],
        "bad_image_time_text": [
            *image()[:3],
            text({"htype": "dconfig-1.0", "start_time": "now"}),
        ],
        "bad_end_without_series": [text({"htype": "dseries_end-1.0"})],
    }


def main() -> None:
    for old in HERE.glob("*.v1"):
        old.unlink()
    for name, parts in (good() | bad()).items():
        (HERE / f"{name}.v1").write_bytes(b"".join(struct.pack("<I", len(part)) + part for part in parts))


if __name__ == "__main__":
    main()
