"""The messages that Penstock encodes, read by cbor2; and the corpus against the script that makes it."""

import datetime
import runpy
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cbor2
import pytest

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "stream"


def sample_pixels(number: int, size: int) -> bytes:
    return bytes((number * 31 + i * 7 + (i >> 8)) & 0xFF for i in range(size))


def plain(value: Any) -> Any:
    """What cbor2 made immutable within a tag, as ordinary lists and dictionaries."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return cbor2.CBORTag(value.tag, plain(value.value)) if isinstance(value, cbor2.CBORTag) else value


def decode(name: str) -> dict[str, Any]:
    data = (CORPUS / f"encoded_{name}.cbor").read_bytes()
    assert data.startswith(b"\xd9\xd9\xf7"), "detectors' parsers want the shortest form of the tag"
    message = plain(cbor2.loads(data))
    if isinstance(message, cbor2.CBORTag):
        message = message.value
    assert isinstance(message, dict)
    assert next(iter(message)) == "type"
    return message


def array(value: object) -> tuple[list[int], int, Any]:
    """Shape, typed array tag and content of a multi-dimensional array."""
    assert isinstance(value, cbor2.CBORTag)
    assert value.tag == 40
    shape, typed = value.value
    assert isinstance(typed, cbor2.CBORTag)
    return list(shape), typed.tag, typed.value


def test_start() -> None:
    start = decode("start")
    assert start["type"] == "start"
    assert (start["series_id"], start["series_unique_id"]) == (7, "golden")
    assert start["arm_date"] == datetime.datetime(2026, 11, 20, 10, tzinfo=datetime.UTC)
    assert (start["number_of_images"], start["image_size_x"], start["image_size_y"]) == (100, 4, 3)
    assert start["image_dtype"] == "uint16"
    assert start["channels"] == ["threshold_1", "threshold_2"]
    assert (start["beam_center_x"], start["beam_center_y"]) == (1.5, 2.25)
    assert start["detector_description"] == "A détecteur"
    assert start["detector_translation"] == [0.0, -0.25, 0.125]
    assert start["flatfield_enabled"] is True
    assert start["goniometer"] == {"omega": {"increment": 0.5, "start": 10.25}}
    assert start["threshold_energy"] == {"threshold_1": 6200.0}
    assert start["user_data"] == {"sample": "lysozyme", "list": [1, 2.5, None, True]}
    assert start["tomorrow"] == {"deep": [1]}
    assert "beam_center" not in start
    assert array(start["flatfield"]["threshold_1"]) == ([3, 4], 85, struct.pack("<12f", *[0.0] * 12))
    shape, tag, compressed = array(start["pixel_mask"]["threshold_1"])
    assert (shape, tag, compressed.tag) == ([3, 4], 70, 56500)
    assert compressed.value == ["bslz4", 4, sample_pixels(1, 20)]


def test_image() -> None:
    image = decode("image")
    assert image["type"] == "image"
    assert (image["series_id"], image["series_unique_id"], image["image_id"]) == (7, "golden", 70000)
    assert image["start_time"] == [333_333_333, 1_000_000_000]
    assert image["stop_time"] == [343_233_333, 1_000_000_000]
    assert image["real_time"] == [9_900_000, 1_000_000_000]
    assert image["user_data"] == {"gain": -4, "dose": 1.5, "note": "µ"}
    assert array(image["data"]["threshold_1"]) == ([3, 4], 69, sample_pixels(1, 24))
    _, tag, compressed = array(image["data"]["threshold_2"])
    assert (tag, compressed.tag, compressed.value) == (69, 56500, ["bslz4", 2, sample_pixels(2, 30)])


def test_image_with_its_pixels_apart() -> None:
    data = decode("image_detached")["data"]
    assert array(data["threshold_1"]) == ([3, 4], 69, [0, 24])
    assert array(data["threshold_2"])[2].value == ["bslz4", 2, [24, 30]]


def test_end() -> None:
    assert decode("end") == {"type": "end", "series_id": 7, "series_unique_id": "golden"}


@pytest.mark.parametrize(("script", "suffix"), [("make_vectors.py", "cbor"), ("make_v1_vectors.py", "v1")])
def test_the_corpus_is_what_its_script_makes(tmp_path: Path, script: str, suffix: str) -> None:
    copy = tmp_path / script
    copy.write_text((CORPUS / script).read_text())
    runpy.run_path(str(copy), run_name="__main__")
    made = {path.name: path.read_bytes() for path in tmp_path.glob(f"*.{suffix}")}
    kept = {
        path.name: path.read_bytes()
        for path in CORPUS.glob(f"*.{suffix}")
        if not path.name.startswith("encoded_")
    }
    assert made == kept
