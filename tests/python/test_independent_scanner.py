"""A second reader of segments, written from docs/reference/format.md alone.

It shares no code with Penstock, so a mistake that the store and its own decoder have in common shows
here. h5py is the judge of what the index says.
"""

import json
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy
import pytest
from conftest import Record

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PAGE = 4096
MAGIC = bytes.fromhex("8950454e5345470a")
DESCRIPTION, CHUNKS = 1, 2


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
    if not fits or not whole_pages or (kind == CHUNKS and body_bytes != 40 * record_count):
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
        segments.append(segment)
        address += segment.segment_bytes
    return segments


def list_chunks(segments: list[Segment]) -> list[Chunk]:
    assert segments[0].kind == DESCRIPTION, "the first segment describes the others"
    paths = [dataset["path"] for dataset in json.loads(segments[0].body.decode("ascii"))["datasets"]]
    chunks = []
    for segment in segments:
        if segment.kind != CHUNKS:
            continue
        for number in range(segment.record_count):
            index, _, offset, size, crc, mask, dataset, flags = struct.unpack_from(
                "<QqIIIIHH", segment.body, 40 * number
            )
            assert flags == 0
            assert offset % 8 == 0
            assert segment.header_bytes <= offset
            assert offset + size <= segment.segment_bytes
            chunks.append(Chunk(paths[dataset], index, segment.address + offset, size, crc, mask))
    return chunks


def record_series(record: Record, run: Run, folder: Path, codec: str, frames: int) -> Path:
    recorder = record(folder, "--codec", codec)
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


@pytest.mark.parametrize("codec", ["none", "bslz4", "deflate"])
def test_segments_and_index_say_the_same(record: Record, run: Run, tmp_path: Path, codec: str) -> None:
    frames = 25
    file = record_series(record, run, tmp_path, codec, frames)
    content = file.read_bytes()
    segments = walk(content)
    assert len({segment.sequence for segment in segments}) == len(segments)
    chunks = list_chunks(segments)
    assert sorted(chunk.index for chunk in chunks) == list(range(frames))
    with h5py.File(file) as opened:
        assert opened.attrs["penstock_format"] == 1
        assert opened.attrs["penstock_file_id"] == segments[0].file_id.hex()
        for chunk in chunks:
            data = opened[chunk.dataset]
            place = (chunk.index, 0, 0)
            stored = content[chunk.address : chunk.address + chunk.size]
            assert crc32c(stored) == chunk.crc, f"frame {chunk.index}"
            mask, direct = data.id.read_direct_chunk(place)
            assert (mask, direct) == (chunk.filter_mask, stored), f"frame {chunk.index}"
            info = data.id.get_chunk_info_by_coord(place)
            assert (info.byte_offset, info.size) == (chunk.address, chunk.size)


def test_a_damaged_header_hides_its_own_segment_only(record: Record, run: Run, tmp_path: Path) -> None:
    content = bytearray(record_series(record, run, tmp_path, "none", 12).read_bytes())
    segments = walk(bytes(content))
    last = segments[-1]
    random = numpy.random.default_rng(3)
    content[last.address + int(random.integers(8, 124))] ^= 1 << int(random.integers(8))
    assert walk(bytes(content)) == segments[:-1]
