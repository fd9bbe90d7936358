"""Makes the .cbor files of this folder with cbor2, an encoder that Penstock has no part in.

Run it from anywhere; it rewrites the files beside itself, but for `encoded_*.cbor`: those are made by
Penstock's own encoder (tests/native/stream/golden_test.cpp). Valid messages are named for what they
show, bad ones begin with `bad_` and are named for what is wrong with them.
"""

import struct
from pathlib import Path

import cbor2
from cbor2 import CBORTag

HERE = Path(__file__).resolve().parent
SELF_DESCRIBED = 55799

# Numbers 0 to 11 as 3 rows of 4, in the format of each typed array.
TYPED_ARRAYS = {
    "u8": (64, "<12B"),
    "u16": (69, "<12H"),
    "u32": (70, "<12I"),
    "u64": (71, "<12Q"),
    "i8": (72, "<12b"),
    "i16": (77, "<12h"),
    "i32": (78, "<12i"),
    "i64": (79, "<12q"),
    "f32": (85, "<12f"),
    "f64": (86, "<12d"),
    "clamped_u8": (68, "<12B"),
    "u16_big": (65, ">12H"),
    "u32_big": (66, ">12I"),
    "u64_big": (67, ">12Q"),
    "i16_big": (73, ">12h"),
    "i32_big": (74, ">12i"),
    "i64_big": (75, ">12q"),
    "f16_big": (80, ">12e"),
    "f32_big": (81, ">12f"),
    "f64_big": (82, ">12d"),
    "f16": (84, "<12e"),
}


def matrix(tag: int, data: object, shape: list[int] | None = None) -> CBORTag:
    return CBORTag(40, [[3, 4] if shape is None else shape, CBORTag(tag, data)])


def u16(shape: list[int] | None = None) -> CBORTag:
    return matrix(69, struct.pack("<12H", *range(12)), shape)


def image(**changes: object) -> dict[str, object]:
    message: dict[str, object] = {
        "type": "image",
        "series_id": 7,
        "series_unique_id": "01ABC",
        "image_id": 5,
        "data": {"threshold_1": u16()},
    }
    return message | changes


def start(**changes: object) -> dict[str, object]:
    message: dict[str, object] = {
        "type": "start",
        "series_id": 7,
        "series_unique_id": "01ABC",
        "channels": ["threshold_1"],
        "image_dtype": "uint16",
        "image_size_x": 4,
        "image_size_y": 3,
        "number_of_images": 10,
    }
    return message | changes


def without(message: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in message.items() if name != key}


def full_start() -> dict[str, object]:
    axis = {"increment": 0.5, "start": 10.25}
    return start(
        arm_date=CBORTag(0, "2026-11-20T10:00:00.5+01:00"),
        beam_center_x=1.5,
        beam_center_y=2.5,
        channels=["threshold_1", "threshold_2"],
        count_time=0.0099,
        countrate_correction_enabled=True,
        countrate_correction_lookup_table=CBORTag(70, struct.pack("<3I", 1, 2, 4)),
        detector_description="A detector",
        detector_serial_number="E-01-0001",
        detector_translation=[0.0, -0.25, 0.125],
        flatfield={"threshold_1": matrix(85, struct.pack("<12f", *[1.0] * 12))},
        flatfield_enabled=False,
        frame_time=0.01,
        goniometer={"omega": axis, "chi": {"increment": 0.0, "start": -1.5}},
        incident_energy=12400.0,
        incident_wavelength=1.0,
        pixel_mask={"threshold_1": matrix(70, CBORTag(56500, ["bslz4", 4, bytes(20)]))},
        pixel_mask_enabled=True,
        pixel_size_x=75e-6,
        pixel_size_y=75e-6,
        saturation_value=65534,
        sensor_material="Si",
        sensor_thickness=450e-6,
        threshold_energy={"threshold_1": 6200.0, "threshold_2": 18000.0},
        user_data={"sample": "lysozyme", "list": [1, 2.5, None, True]},
        virtual_pixel_interpolation_enabled=True,
        a_field_of_tomorrow={"deep": [1, {"er": b"\x01\x02"}]},
    )


def images() -> dict[str, object]:
    vectors: dict[str, object] = {
        f"image_{name}": image(data={"threshold_1": matrix(tag, struct.pack(form, *range(12)))})
        for name, (tag, form) in TYPED_ARRAYS.items()
    }
    blob = struct.pack(">QI", 24, 8192) + b"0123456789ab"
    vectors |= {
        f"image_{name}": image(data={"threshold_1": matrix(69, CBORTag(56500, [name, modifier, blob]))})
        for name, modifier in (("bslz4", 2), ("bszstd", 2), ("lz4", 0))
    }
    columns = struct.pack("<12H", *(4 * row + column for column in range(4) for row in range(3)))
    vectors["image_column_major"] = image(data={"threshold_1": CBORTag(1040, [[3, 4], CBORTag(69, columns)])})
    vectors["image_bslz4_big"] = image(data={"threshold_1": matrix(65, CBORTag(56500, ["bslz4", 2, blob]))})
    vectors["image_two_channels"] = image(data={"threshold_1": u16(), "threshold_2": u16()})
    vectors["image_times"] = image(
        real_time=[99, 10000],
        series_date=CBORTag(0, "2026-11-20T10:00:00Z"),
        start_time=[1, 3],
        stop_time=[2**62, 2**33],
    )
    vectors["image_metadata"] = image(
        user_data={"i": -3, "u": 2**64 - 1, "f": 1.5, "t": "text", "b": True, "n": None, "l": [1, 2]},
        gain=4,
    )
    typed = struct.pack(">3H", 1, 2, 3)
    vectors["image_metadata_arrays"] = image(
        user_data={
            "position": CBORTag(86, struct.pack("<3d", 1, 2, 3)),
            "counts": CBORTag(40, [[3, 1], CBORTag(65, typed)]),
            "packed": CBORTag(69, CBORTag(56500, ["bslz4", 2, struct.pack(">QI", 6, 8192) + typed])),
            "large": CBORTag(64, bytes(4097)),
            "wrong": CBORTag(40, [[2, 2], CBORTag(65, typed)]),
        }
        | {f"more_{i}": CBORTag(64, bytes(4096)) for i in range(4)},
    )
    vectors["image_user_data_text"] = image(user_data="just text")
    vectors["image_unknown_fields"] = image(tomorrow={"a": [1, 2, {"b": 1.5}]}, more=b"\x00\xff")
    return vectors


def bad() -> dict[str, object]:
    pixels = struct.pack("<12H", *range(12))
    bad_data = {
        "float128": matrix(87, bytes(12 * 16)),
        "float128_big": matrix(83, bytes(12 * 16)),
        "typed_array_76": matrix(76, pixels),
        "half_floats_size": matrix(84, pixels + pixels),
        "half_floats_modifier": matrix(84, CBORTag(56500, ["bslz4", 4, pixels])),
        "column_major_shape": CBORTag(1040, [[3, 5], CBORTag(69, pixels)]),
        "shape_larger_than_bytes": u16([3, 5]),
        "shape_smaller_than_bytes": u16([3, 3]),
        "shape_of_2_to_63": u16([2**63, 2]),
        "shape_that_wraps_to_24_bytes": u16([2**63 + 6, 2]),
        "shape_with_0": u16([0, 4]),
        "shape_empty": u16([]),
        "shape_negative": u16([-3, -4]),
        "algorithm": matrix(69, CBORTag(56500, ["trpx", 2, pixels])),
        "modifier": matrix(69, CBORTag(56500, ["bslz4", 4, pixels])),
        "compressed_incomplete": matrix(69, CBORTag(56500, ["bslz4", 2])),
        "array_is_text": "pixels",
        "array_without_elements": CBORTag(40, [[3, 4]]),
        "array_with_three_items": CBORTag(40, [[3, 4], CBORTag(69, pixels), 1]),
        "range_of_pixels": matrix(69, [0, 24]),
    }
    vectors: dict[str, object] = {
        f"bad_{name}": image(data={"threshold_1": data}) for name, data in bad_data.items()
    }
    for key in ("series_unique_id", "image_id", "data"):
        vectors[f"bad_image_without_{key}"] = without(image(), key)
    vectors["bad_start_without_series_unique_id"] = without(start(), "series_unique_id")
    mask = matrix(70, struct.pack("<4I", 0, 0, 0, 0), [2, 2])
    vectors |= {
        "bad_no_channel": image(data={}),
        "bad_image_id_text": image(image_id="5"),
        "bad_image_id_negative": image(image_id=-1),
        "bad_unique_id_empty": image(series_unique_id=""),
        "bad_unique_id_long": image(series_unique_id="x" * 300),
        "bad_time_denominator_0": image(start_time=[1, 0]),
        "bad_time_300_years": image(start_time=[300 * 366 * 86400, 1]),
        "bad_time_three_numbers": image(start_time=[1, 2, 3]),
        "bad_type_unknown": {"type": "calibration", "series_id": 7},
        "bad_type_missing": {"series_id": 7, "series_unique_id": "01ABC"},
        "bad_empty_map": {},
        "bad_end_without_unique_id": {"type": "end", "series_id": 7},
        "bad_dtype": start(image_dtype="uint12"),
        "bad_image_size_0": start(image_size_x=0),
        "bad_image_size_2_to_63": start(image_size_x=2**63),
        "bad_channels_empty": start(channels=[]),
        "bad_channels_twice": start(channels=["a", "a"]),
        "bad_mask_shape": start(pixel_mask={"threshold_1": mask}),
        "bad_translation": start(detector_translation=[1.0, 2.0]),
        "bad_beam_center_text": start(beam_center_x="middle"),
    }
    return vectors


def raw() -> dict[str, bytes]:
    """Messages that cbor2 would not write."""
    whole = cbor2.dumps(CBORTag(SELF_DESCRIBED, image()))
    deep = b"\x81" * 10_000 + b"\x00"
    head = b"\xd9\xd9\xf7"
    typed = head + b"\xa5dtypeeimage"
    return {
        # {"type": "end", "series_id": 7, "series_unique_id": (_ "01", "ABC")}, all of indefinite length
        "end_indefinite": head + b"\xbfdtypecendiseries_id\x07pseries_unique_id\x7fb01cABC\xff\xff",
        # incident_energy as half, incident_wavelength as single, frame_time as integer
        "start_float_widths": head
        + b"\xab"
        + cbor2.dumps(start())[1:]
        + b"oincident_energy\xf9\x3e\x00"
        + b"sincident_wavelength\xfa\x3f\x80\x00\x00"
        + b"jframe_time\x02",
        "image_without_tag": cbor2.dumps(image()),
        "image_type_last": cbor2.dumps(without(image(), "type") | {"type": "image"}),
        "start_type_last": cbor2.dumps(without(start(), "type") | {"type": "start"}),
        "end_without_tag": cbor2.dumps({"series_unique_id": "01ABC", "type": "end"}),
        # of firmware before the autumn of 2023, as it was captured
        "start_2022": cbor2.dumps(without(full_start(), "image_dtype")),
        "bad_type_twice": b"\xa3dtypecendpseries_unique_ida1dtypecend",
        "bad_no_map": cbor2.dumps([image()]),
        "bad_other_tag": cbor2.dumps(CBORTag(1234, image())),
        "bad_empty": b"",
        "bad_truncated_in_pixels": whole[:-1],
        "bad_truncated_in_head": whole[:20],
        "bad_trailing_bytes": whole + b"\x00",
        "bad_key_twice": typed + b"iseries_id\x01iseries_id\x01himage_id\x00ddata\xa0",
        # of user_data, each field of the message once
        "bad_metadata_twice": head
        + bytes([0xA0 + len(image()) + 1])
        + cbor2.dumps(image())[1:]
        + b"iuser_data\xa3aa\x01ab\x02aa\x03",
        "bad_metadata_null_twice": head
        + bytes([0xA0 + len(image()) + 1])
        + cbor2.dumps(image())[1:]
        + b"iuser_data\xa2aa\xf6aa\x03",
        "bad_bytes_of_2_to_63": typed + b"ddata\xa1aa\xd8\x28\x82\x82\x01\x01\xd8\x45\x5b\x80" + bytes(7),
        "bad_map_of_2_to_63": head + b"\xbb\x80" + bytes(7) + b"dtypeeimage",
        "bad_nested_deep": typed + b"iseries_id\x01iuser_data" + deep,
        "bad_text_not_utf8": typed + b"pseries_unique_id\x62\xc3\x28",
        "bad_reserved_item": typed + b"iseries_id\x1c",
        "bad_key_not_text": head + b"\xa2dtypeeimage\x01\x02",
        "bad_pixels_in_pieces": typed + b"ddata\xa1aa\xd8\x28\x82\x82\x01\x01\xd8\x45\x5f\x42\x00\x00\xff",
    }


def main() -> None:
    messages = {
        "start_least": start(),
        "start_name_only": {"type": "start", "series_unique_id": "01ABC"},
        "start_without_series_id": without(start(), "series_id"),
        "start_without_image_dtype": without(start(), "image_dtype"),
        "start_without_image_size_x": without(start(), "image_size_x"),
        "start_without_channels": without(
            start(pixel_mask={"threshold_1": matrix(70, struct.pack("<12I", *range(12)))}), "channels"
        ),
        "image_without_series_id": without(image(), "series_id"),
        "start_full": full_start(),
        "start_arrays": start(
            pixel_mask={"threshold_1": matrix(66, struct.pack(">12I", *range(12)))},
            flatfield={"threshold_1": CBORTag(1040, [[3, 4], CBORTag(84, struct.pack("<12e", *range(12)))])},
            countrate_correction_lookup_table=CBORTag(66, struct.pack(">3I", 1, 2, 4)),
            user_data={"dark": CBORTag(69, struct.pack("<2H", 1, 2)), "sample": "lysozyme"},
            tomorrow={"table": matrix(70, CBORTag(56500, ["bslz4", 4, bytes(20)])), "n": 4, "l": [1, 2.5]},
            tomorrows_bytes=CBORTag(56500, ["lz4", 0, bytes(20)]),
        ),
        "start_nulls": start(beam_center_x=None, flatfield={"threshold_1": None}, goniometer=None),
        "end": {"type": "end", "series_id": 7, "series_unique_id": "01ABC"},
    }
    messages |= images() | bad()
    for old in HERE.glob("*.cbor"):
        if not old.name.startswith("encoded_"):
            old.unlink()
    for name, message in messages.items():
        (HERE / f"{name}.cbor").write_bytes(cbor2.dumps(CBORTag(SELF_DESCRIBED, message)))
    for name, data in raw().items():
        (HERE / f"{name}.cbor").write_bytes(data)


if __name__ == "__main__":
    main()
