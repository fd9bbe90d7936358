"""A second reader of segments, written from docs/reference/format.md alone.

It shares no code with Penstock, so a mistake that the store and its own decoder have in common shows
here. h5py is the judge of what the index says.
"""

import json
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PAGE, SECTOR = 4096, 512
MAGIC = bytes.fromhex("8950454e5345470a")
DESCRIPTION, CHUNKS, JOURNAL, VALUES, SEAL = 1, 2, 3, 4, 5


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Segment:
    address: int
    kind: int
    header_bytes: int
    file_id: bytes
    sequence: int
    segment_bytes: int
    record_count: int
    body: bytes


@dataclass(frozen=True)
class Chunk:
    dataset: str
    index: int
    place: tuple[int, ...]
    frames: tuple[int, ...]
    address: int
    size: int
    crc: int
    filter_mask: int


def read_segment(content: bytes, address: int) -> Segment | None:
    """The segment whose header stands at `address`, if a valid one does."""
    header = content[address : address + 128]
    if len(header) < 128 or header[:8] != MAGIC:
        return None
    version, kind, header_bytes, file_id, sequence, segment_bytes, record_count = struct.unpack_from(
        "<HHI16sQQI", header, 8
    )
    body_bytes, body_crc, stated_address = struct.unpack_from("<IIQ", header, 64)
    (header_crc,) = struct.unpack_from("<I", header, 124)
    if header_crc != crc32c(header[:124]) or version != 1 or stated_address != address:
        return None
    fits = 128 + body_bytes <= header_bytes <= segment_bytes
    whole_pages = header_bytes % PAGE == 0 and segment_bytes % PAGE == 0
    record_bytes = {DESCRIPTION: 0, CHUNKS: 40, VALUES: 24, SEAL: 24}.get(kind, 0)
    if not fits or not whole_pages or (record_bytes > 0 and body_bytes != record_bytes * record_count):
        return None
    body = content[address + 128 : address + 128 + body_bytes]
    if crc32c(body) != body_crc:
        return None
    return Segment(address, kind, header_bytes, file_id, sequence, segment_bytes, record_count, body)


def walk(content: bytes) -> list[Segment]:
    segments: list[Segment] = []
    address = 0
    while address < len(content):
        segment = read_segment(content, address)
        if segment is None or (segments and segment.file_id != segments[0].file_id):
            address += PAGE
            continue
        if segment.kind != JOURNAL:
            segments.append(segment)
        address += segment.segment_bytes
    return segments


def zero_sectors_of(content: bytes, address: int, size: int) -> int:
    """Sectors behind the last one that was found to have a byte of the chunk other than zero."""
    first: int = address // SECTOR
    last: int = (address + size - 1) // SECTOR
    for behind in chain(range(129), range(256, 65535, 128)):
        sector = last - behind
        if sector <= first:
            return last - first
        if any(content[max(sector * SECTOR, address) : min((sector + 1) * SECTOR, address + size)]):
            return behind
    return 65535


def list_chunks(content: bytes, segments: list[Segment]) -> list[Chunk]:
    assert segments[0].kind == DESCRIPTION, "the first segment describes the others"
    datasets = json.loads(segments[0].body.decode("ascii"))["datasets"]
    chunks = []
    for segment in segments:
        if segment.kind != CHUNKS:
            continue
        for number in range(segment.record_count):
            index, _, offset, size, crc, mask, number_of_dataset, zero_sectors, frame = struct.unpack_from(
                "<QqIIIIHHI", segment.body, 40 * number
            )
            dataset = datasets[number_of_dataset]
            assert offset % 8 == 0
            assert segment.header_bytes <= offset
            assert offset + size <= segment.segment_bytes
            address = segment.address + offset
            assert zero_sectors == zero_sectors_of(content, address, size)
            place = place_of(dataset, index)
            frames = frames_of(dataset, place, frame)
            chunks.append(Chunk(dataset["path"], index, place, frames, address, size, crc, mask))
    return chunks


def stretches(segment: Segment) -> list[tuple[int, int, int]]:
    """Address, length and checksum of each."""
    return [struct.unpack_from("<QQI", segment.body, 24 * i) for i in range(segment.record_count)]


def place_of(dataset: dict[str, Any], index: int) -> tuple[int, ...]:
    """The chunk's first element, as the page on the format counts chunks."""
    behind = [*dataset.get("scan", [0])[1:], *dataset["frame_shape"]]
    chunk = dataset.get("chunk", [1, *dataset["frame_shape"]])
    place: list[int] = []
    for extent, of_chunk in zip(reversed(behind), reversed(chunk[1:]), strict=True):
        index, part = divmod(index, -(-extent // of_chunk))
        place.insert(0, part * of_chunk)
    return (index * chunk[0], *place)


def frames_of(dataset: dict[str, Any], place: tuple[int, ...], frame: int) -> tuple[int, ...]:
    """The frames that the chunk holds; `frame` is the last field of its record."""
    if "scan" in dataset:
        return (frame,)
    several = dataset.get("chunk", [1])[0]
    if several == 1:
        assert frame == 0
        return (place[0],)
    assert 0 < frame < 2**several
    return tuple(place[0] + bit for bit in range(several) if frame >> bit & 1)


def record_series(record: Record, run: Run, folder: Path, codec: str, frames: int, *options: str) -> Path:
    recorder = record(folder, "--codec", codec, *options)
    shape = ("custom", "--rows", "48", "--columns", "64", "--type", "uint16")
    options = ("--rate", "max", "--frames", str(frames), "--series-name", "scanned")
    sent = run("simulate", *shape, *options, "--to", f"tcp://{recorder.address}")
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    code, log = recorder.stop()
    assert code == 0, log
    return folder / "scanned.h5"


def test_checksum_of_the_standard_text() -> None:
    assert crc32c(b"123456789") == 0xE3069283


SCAN = "scan: {axes: [{name: y, points: 5}, {name: x, points: 5}], order: snake}"


@pytest.mark.parametrize(
    ("codec", "chunk", "several", "scan"),
    [
        ("none", "frame", 1, ""),
        ("bslz4", "20x24", 1, ""),
        ("deflate", "frame", 1, SCAN),
        ("bslz4", "48x24", 1, SCAN),
        ("none", "frame", 4, ""),
        ("zstd", "20x24", 7, ""),
    ],
)
def test_segments_and_index_say_the_same(
    record: Record, run: Run, tmp_path: Path, codec: str, chunk: str, several: int, scan: str
) -> None:
    frames = 25
    (tmp_path / "scan.yaml").write_text(scan or "{}", encoding="utf-8")
    options = ("--chunk", chunk, "--chunk-frames", str(several), "--", str(tmp_path / "scan.yaml"))
    file = record_series(record, run, tmp_path, codec, frames, *options)
    content = file.read_bytes()
    segments = walk(content)
    sequences = [segment.sequence for segment in segments if segment.kind == CHUNKS]
    assert len(set(sequences)) == len(sequences)
    assert 0 not in sequences
    chunks = list_chunks(content, segments)
    a_frame = {"frame": 1, "20x24": 9, "48x24": 3}[chunk]
    assert sorted(each.index for each in chunks) == list(range(-(-frames // several) * a_frame))
    assert sorted(frame for each in chunks for frame in each.frames) == sorted(list(range(frames)) * a_frame)
    with h5py.File(file) as opened:
        assert opened.attrs["penstock_format"] == 1
        assert opened.attrs["penstock_file_id"] == segments[0].file_id.hex()
        for each in chunks:
            data = opened[each.dataset]
            stored = content[each.address : each.address + each.size]
            assert crc32c(stored) == each.crc, f"chunk {each.index}"
            mask, direct = data.id.read_direct_chunk(each.place)
            assert (mask, direct) == (each.filter_mask, stored), f"chunk {each.index}"
            info = data.id.get_chunk_info_by_coord(each.place)
            assert (info.byte_offset, info.size) == (each.address, each.size)
            if each.place[-2:] == (0, 0):
                for frame in each.frames:
                    at = (frame,) if several > 1 else each.place[:-2]
                    stamp = numpy.ascontiguousarray(data[at][0, :4]).view("uint64")[0]
                    assert stamp == frame


def test_records_count_the_sectors_of_zeros_behind_a_frame(record: Record, run: Run, tmp_path: Path) -> None:
    images = numpy.random.default_rng(1).integers(1, 60000, (5, 256, 512), "uint16")
    for image, zero_rows in zip(images, (0, 1, 60, 200, 256), strict=True):
        image[256 - zero_rows :] = 0
    images[3, 100, 7] = 1  # in a sector that is not looked at
    numpy.save(tmp_path / "images.npy", images)
    recorder = record(tmp_path, "--codec", "none")
    replay = ("--replay", str(tmp_path / "images.npy"), "--no-stamp", "--frames", "5", "--rate", "max")
    sent = run("simulate", "custom", *replay, "--series-name", "zeros", "--to", f"tcp://{recorder.address}")
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    code, log = recorder.stop()
    assert code == 0, log
    content = (tmp_path / "zeros.h5").read_bytes()
    chunks = list_chunks(content, walk(content))
    stored = [
        content[chunk.address : chunk.address + chunk.size] for chunk in sorted(chunks, key=lambda c: c.index)
    ]
    assert stored == [image.tobytes() for image in images]
    counts = [zero_sectors_of(content, chunk.address, chunk.size) for chunk in chunks]
    assert sum(count > 129 for count in counts) == 2, "some are not read to their end"


def test_the_description_has_the_tree_and_the_seal_guards_it(
    record: Record, run: Run, tmp_path: Path
) -> None:
    file = record_series(record, run, tmp_path, "none", 12)
    content = file.read_bytes()
    segments = walk(content)
    first, again = (segment for segment in segments if segment.kind == DESCRIPTION)
    assert first.body == again.body
    description = json.loads(first.body.decode("ascii"))
    tree = description["tree"]
    with h5py.File(file) as opened:
        for group in tree["groups"]:
            for name, value in group.get("attributes", {}).items():
                assert opened[group["path"]].attrs[name] == value or not isinstance(value, str)
        for node in tree["values"]:
            value, data = node["value"], opened[node["path"]]
            if isinstance(value, str):
                assert data.asstr()[()] == value, node["path"]
            elif isinstance(value, bool):
                assert bool(data[()]) == value, node["path"]
            elif "hex" in value:
                assert data[()].tobytes() == bytes.fromhex(value["hex"]), node["path"]
            elif "address" in value and "shape" in value:
                assert data.id.get_offset() == value["address"], node["path"]
                stored = content[value["address"] : value["address"] + value["bytes"]]
                assert data[()].tobytes() == stored
                assert crc32c(stored) == value["crc32c"]
        for link in tree["links"]:
            assert opened[link["path"]] == opened[link["target"]]
    assert description["sealed"]
    assert segments[-1].kind == SEAL
    assert segments[-1].address + segments[-1].segment_bytes == len(content)
    sealed = [segment for segment in segments if segment.kind in (VALUES, SEAL)]
    for address, size, crc in (stretch for segment in sealed for stretch in stretches(segment)):
        assert crc32c(content[address : address + size]) == crc, address


def test_a_damaged_header_hides_its_own_segment_only(record: Record, run: Run, tmp_path: Path) -> None:
    content = bytearray(record_series(record, run, tmp_path, "none", 12).read_bytes())
    segments = walk(bytes(content))
    last = segments[-1]
    random = numpy.random.default_rng(3)
    content[last.address + int(random.integers(8, 124))] ^= 1 << int(random.integers(8))
    assert walk(bytes(content)) == segments[:-1]
