"""NTNDArrays as frames, and uniqueIds as numbers: what is odd is named, and nothing is closed up."""

import importlib.util
import random
from typing import Any

import numpy as np
import pytest
from p4p import Type, Value
from p4p.nt import NTNDArray
from pva_server import compressed, image, value_of
from typer.testing import CliRunner

from penstock.cli import application
from penstock.client import Compressed
from penstock.model.errors import UsageError
from penstock.model.overrides import pva_settings
from penstock.pva.errors import BadFrameError
from penstock.pva.frames import Frame, read_frame
from penstock.pva.numbers import FrameNumbers
from penstock.pva.order import Order, Place, Seen

NT = NTNDArray()
LIMIT = 1 << 20


def value(unique_id: int = 7, **command: Any) -> Any:
    return value_of(NT, unique_id, command)


def frame(unique_id: int = 7, **command: Any) -> Frame:
    return read(value(unique_id, **command))


def read(update: Any) -> Frame:
    return read_frame(update, LIMIT, FrameNumbers(pytest.fail).next(update))


def test_what_a_frame_tells() -> None:
    found = frame(attributes={"a/b\n": True, ".x": 1, "": 5, "Long": "y" * 70000, "Nothing": None})
    assert (found.unique_id, found.dtype.name, found.shape, found.codec) == (7, "uint16", (30, 40), "")
    assert isinstance(found.image, np.ndarray)
    assert np.array_equal(found.image, image(7))
    assert not found.image.flags.owndata  # it lies where p4p received it
    metadata = found.metadata
    assert metadata.pop("Vector").tolist() == [7, 8, 9]
    assert metadata == {
        "NDArrayUniqueId": 7,
        # ADCore counts from 1990 in its files.
        "NDArrayTimeStamp": 1_700_000_007.5 - 631_152_000,
        "NDArrayEpicsTSSec": 1_700_000_007 - 631_152_000,
        "NDArrayEpicsTSnSec": 250_000_000,
        "Number": 7,
        "Temperature": 27.5,
        "Lamp": "lamp 7",
        "ColorMode": 0,
        "a_b_": True,
        "_x": 1,
    }
    assert [text.partition(":")[0] for text in found.left_out] == ["''", "'Long'"]
    assert found.geometry()[1] == {"size": 30, "offset": 1, "fullSize": 60, "binning": 2, "reverse": True}


@pytest.mark.parametrize(("mode", "shape", "axis"), [(2, (4, 5, 3), 2), (3, (4, 3, 5), 1), (4, (3, 4, 5), 0)])
def test_colours_become_planes(mode: int, shape: tuple[int, ...], axis: int) -> None:
    found = frame(shape=shape, attributes={"ColorMode": mode})
    assert found.shape == (3, 4, 5)
    assert np.array_equal(found.image, np.moveaxis(image(7, shape=shape), axis, 0))  # type: ignore[arg-type]


def test_a_line_is_a_frame_of_one_row() -> None:
    assert frame(shape=(40,)).shape == (1, 40)
    assert frame(shape=(40,)).image.shape == (1, 40)  # type: ignore[union-attr]


def test_a_header_that_is_there_is_not_put_in_front_again() -> None:
    bare = frame(codec="bslz4").image
    assert isinstance(bare, Compressed)
    whole = np.frombuffer(bare.data, np.uint8)
    spoil = {"value": ("ubyteValue", whole), "compressedSize": whole.size}
    assert bytes(frame(codec="bslz4", spoil=spoil).image.data) == bytes(bare.data)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2, "int16"), (6, "uint16"), (3, "uint16"), (5, "uint32"), (8, "float32"), (10, "float64")],
)
def test_both_ways_to_number_types(number: int, dtype: str) -> None:
    """pvData's, and areaDetector's own (3, 5 and 8 here): the size of an element tells which."""
    pixels = image(1, dtype)
    spoil = {"codec": {"name": "zlib", "parameters": number}, "uncompressedSize": pixels.nbytes}
    data = np.frombuffer(compressed("zlib", pixels), np.uint8)
    found = frame(codec="zlib", spoil=spoil | {"value": ("ubyteValue", data), "compressedSize": data.size})
    assert found.dtype == dtype
    assert np.array_equal(found.image, pixels)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", [1, 4])
def test_a_zlib_stream_without_its_checksum_is_damaged(cut: int) -> None:
    data = np.frombuffer(compressed("zlib", image(7))[:-cut], np.uint8)
    spoil = {
        "value": ("ubyteValue", data),
        "codec": {"name": "zlib", "parameters": 6},
        "compressedSize": data.size,
    }
    with pytest.raises(BadFrameError, match="its end, with the checksum"):
        _ = frame(codec="zlib", spoil=spoil).image


def test_compressed_bytes_in_the_field_of_the_pixels() -> None:
    """As the converter for PVXS has them: the field's type is that of the pixels, and the end is garbage."""
    data = compressed("zlib", image(7))
    room = np.zeros(1200, np.uint16)
    room.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    spoil = {"value": ("ushortValue", room), "codec": {"name": "zlib", "parameters": 3}}
    assert np.array_equal(frame(codec="zlib", spoil=spoil).image, image(7))  # type: ignore[arg-type]


def dimension(*sizes: int) -> list[dict[str, int]]:
    return [{"size": size} for size in sizes]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"spoil": {"uniqueId": -5}}, "uniqueId is -5: frames count from 0"),
    ({"spoil": {"dimension": dimension(40, 31)}}, r"dimension is \[40, 31\]: 1240 elements, and the value"),
    ({"spoil": {"dimension": dimension(2**31 - 1, 2**31 - 1, 2**31 - 1)}}, "maximum is 1048576"),
    ({"spoil": {"dimension": dimension(40, -30)}}, r"dimension\[1\].size is -30"),
    ({"spoil": {"dimension": dimension(0, 30)}}, r"dimension\[0\].size is 0"),
    ({"spoil": {"dimension": []}}, "dimension is '0 entries'"),
    ({"spoil": {"dimension": dimension(10, 10, 3, 4)}}, "1 to 3 dimensions"),
    ({"spoil": {"value": None}}, "value is None"),
    ({"spoil": {"codec": {"name": "zip", "parameters": 6}}}, "codec.name is 'zip': known are bslz4"),
    ({"codec": "bslz4", "spoil": {"compressedSize": 0}}, "compressedSize is 0"),
    ({"codec": "bslz4", "spoil": {"compressedSize": 10**9}}, "compressedSize is 1000000000: the value has"),
    ({"codec": "bslz4", "spoil": {"uncompressedSize": 99}}, "uncompressedSize is 99: the dimensions"),
    ({"codec": "bslz4", "spoil": {"codec.parameters": 77}}, "codec.parameters is 77"),
    ({"codec": "bslz4", "spoil": {"codec.parameters": "uint16"}}, "codec.parameters is 'uint16'"),
    ({"codec": "lz4", "spoil": {"value": ("ubyteValue", np.zeros(2400, np.uint8)), "compressedSize": 2400}},
     "compressedSize is 2400"),
    ({"codec": "zlib", "spoil": {"value": ("ubyteValue", np.zeros(500, np.uint8)), "compressedSize": 500}},
     "not a zlib stream"),
    ({"codec": "zlib", "spoil": {"dimension": dimension(40, 29), "uncompressedSize": 2320}}, "more bytes"),
    ({"codec": "blosc", "spoil": {"dimension": dimension(40, 29), "uncompressedSize": 2320}}, "a blosc"),
    ({"codec": "blosc", "spoil": {"compressedSize": 15}}, "compressedSize is 15"),
    ({"codec": "jpeg", "dtype": "uint8", "spoil": {"dimension": dimension(30, 40)}}, r"a JPEG of \(30, 40\)"),
    ({"codec": "jpeg", "dtype": "uint8", "spoil": {"compressedSize": 20}}, "not a JPEG"),
    ({"codec": "jpeg", "dtype": "uint8", "spoil": {"codec.parameters": 6, "uncompressedSize": 2400}}, "JPEG"),
    ({"codec": "bslz4", "shape": (4, 5, 3), "attributes": {"ColorMode": 2}}, "ColorMode is 2: compressed"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "why"), BAD, ids=[why for _, why in BAD])
def test_a_bad_frame_names_field_and_value(command: dict[str, Any], why: str) -> None:
    with pytest.raises(BadFrameError, match=why) as caught:
        frame(**command)
    assert caught.value.unique_id == (None if "uniqueId" in why else 7)


def group_array(number: int) -> Any:
    """As a PVXS group has it: no uniqueId, dimensions with a size alone, pixels in a field of any type."""
    dimensions = ("aS", "dimension_t", [("size", "i")])
    kind = Type([("value", "v"), ("dimension", dimensions)], id="epics:nt/NTNDArray:1.0")
    return Value(kind, {"value": image(number).reshape(-1), "dimension": dimension(40, 30)})


def test_arrays_without_unique_id_are_numbered_as_they_arrive() -> None:
    warnings: list[str] = []
    numbers = FrameNumbers(warnings.append)
    for number in range(3):
        update = group_array(number)
        found = read_frame(update, LIMIT, numbers.next(update))
        assert found.unique_id == number
        assert np.array_equal(found.image, image(number))  # type: ignore[arg-type]
    assert [text.partition(":")[0] for text in warnings] == ["uniqueId is not sent"]


def test_arrays_whose_unique_id_is_always_0_are_numbered_as_they_arrive() -> None:
    warnings: list[str] = []
    numbers = FrameNumbers(warnings.append)
    assert [numbers.next(value(0, later=later)) for later in (0, 1, 2, 2, 3)] == [0, 1, 2, 2, 3]
    assert [text.partition(":")[0] for text in warnings] == ["uniqueId is always 0"]
    assert [numbers.next(value(each)) for each in (57, 58, 0)] == [57, 58, 0], "it counts"


def test_a_blosc_buffer_of_garbage() -> None:
    data = bytearray(compressed("blosc", image(7)))
    data[24:] = random.Random(3).randbytes(len(data) - 24)
    with pytest.raises(BadFrameError, match="blosc cannot decompress it"):
        frame(codec="blosc", spoil={"value": ("ubyteValue", np.frombuffer(bytes(data), np.uint8))})


def given(order: Order[int], *unique_ids: int) -> list[int]:
    out = []
    for unique_id in unique_ids:
        order.take(unique_id, unique_id)
        out += order.ready()
    return out


def test_frames_out_of_order_are_put_in_order() -> None:
    """Several threads of a plug-in: shuffled, but never by more than is held."""
    choice = random.Random(5)
    order: Order[int] = Order(100, 16, 1000)
    ids = list(range(100, 400))
    shuffled = sorted(ids, key=lambda each: each + choice.uniform(0, 8))
    shuffled = [100] + [each for each in shuffled if each != 100]
    assert given(order, *shuffled) + order.ready(all_of_them=True) == ids
    assert order.missed == 0


def test_gaps_are_counted_and_late_ones_are_known() -> None:
    order: Order[int] = Order(1, 2, 1000)
    assert given(order, 1, 2, 4, 5) == [1, 2]
    assert order.take(4, 4) is Place.REPEATED
    assert given(order, 6) == [4, 5, 6]
    assert order.missed == 1
    assert order.take(3, 3) is Place.LATE
    assert order.take(6, 6) is Place.REPEATED
    assert order.take(2, 2) is Place.ELSEWHERE
    assert order.take(1007, 1007) is Place.TAKEN
    assert order.take(2000, 2000) is Place.ELSEWHERE
    assert order.ready(all_of_them=True) == [1007]
    assert order.missed == 1 + 1000


def test_stamps_tell_frames_apart_only_where_they_differ() -> None:
    seen = Seen()
    for unique_id in range(5000):
        seen.note(unique_id, unique_id * 10)
    assert (seen.is_again(4999, 49990), seen.is_again(4999, 1), seen.is_again(4999, None)) == (
        True,
        False,
        None,
    )
    assert seen.is_again(5000, 50000) is None
    assert seen.is_again(1, 10) is None, "forgotten: the memory is bounded"
    seen.note(4998, 49990)
    assert seen.is_again(4998, 49990) is None, "a clock that stands still says nothing"


def test_a_series_of_so_many_frames_is_complete_with_the_last() -> None:
    order: Order[int] = Order(10, 2, 1000, 5)
    given(order, 10, 11, 12)
    assert not order.is_complete
    assert given(order, 15) == []
    assert order.ready(all_of_them=True) == [15]
    assert (order.is_complete, order.missed) == (True, 2)


def test_settings_that_are_wrong_are_named() -> None:
    for given_settings, why in (
        ({"start": {"pixel_size": 1}}, 'unknown field "pixel_size"'),
        ({"start": {"count_time": "1 s"}}, "start.count_time is '1 s'"),
        ({"start": {"count_time": {"attribut": "X"}}}, "{attribute: NAME}"),
        ({"start": {"sensor_material": {"attribute": "X", "scale": 2}}}, "the scale 2"),
        ({"name": "{scan}"}, "placeholders are"),
        ({"frames": -1}, "frames: -1 .*minimum of 0"),
        ({"queue_frames": 1}, "queue_frames: 1 .*minimum of 2"),
    ):
        with pytest.raises(UsageError, match=why):
            pva_settings("X", given_settings)


def test_without_p4p_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "p4p" else find(name))
    shown = CliRunner().invoke(application, ["pva", "X", "--to", "tcp://127.0.0.1:1"])
    assert shown.exit_code == 1
    assert "pip install 'penstock[pva]'" in shown.output
