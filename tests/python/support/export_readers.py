"""How readers find the frames of a master: the real ones; and the plug-ins durin and neggia, by what they do.

The plug-ins cannot be installed here. What they look for, read in their sources, is sought here in the same
places and order, and chunks come through the HDF5 that durin is built with.
"""

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitshuffle
import fabio
import h5py
import hdf5plugin  # noqa: F401
import nexus_series as sent
import numpy
import nxmx
import pytest

parse_nxmx: Any = nxmx.NXmx
DETECTOR = "/entry/instrument/detector"
DEBIAN_HDF5 = Path(__file__).with_name("debian_hdf5.py")


def as_neggia_reads(path: Path) -> Iterator[numpy.ndarray]:
    """By fixed paths; each frame by its number over the length of data_000001."""
    with h5py.File(path) as file:
        for name in ("x_pixel_size", "y_pixel_size"):
            assert file[f"{DETECTOR}/{name}"].dtype.kind == "f"
        specific = file[f"{DETECTOR}/detectorSpecific"]
        mask = specific["pixel_mask"]
        assert (mask.dtype, mask.chunks, mask.ndim) == ("uint32", None, 2), "nothing else is read"
        assert numpy.array_equal(mask, sent.mask())
        count = int(specific["nimages"][()]) * int(specific["ntrigger"][()])
        assert specific["nimages"].dtype.kind == "u"
        first = file["/entry/data/data_000001"]
        assert first.shape[1:] == mask.shape
        for number in range(count):
            place, row = divmod(number, first.shape[0])
            data = file[f"/entry/data/data_{place + 1:06d}"]
            properties = data.id.get_create_plist()
            assert (data.chunks, properties.get_nfilters()) == ((1, *mask.shape), 1)
            code, _, values, _ = properties.get_filter(0)
            assert (code, len(values), values[2], values[4]) == (32008, 5, data.dtype.itemsize, 2)
            yield data[row]


def as_durin_reads(path: Path) -> Iterator[numpy.ndarray]:
    """By classes: the last NXdata and NXdetector; data_000001, … of the detector before those of NXdata."""
    found: dict[str, h5py.Group] = {}
    with h5py.File(path) as file:

        def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Group) and "NX_class" in item.attrs:
                kind = h5py.h5a.open(item.id, b"NX_class").get_type()
                assert kind.is_variable_str()
                assert kind.get_cset() == h5py.h5t.CSET_ASCII, "no conversion path from others"
                found[item.attrs["NX_class"]] = item

        file.visititems(visit)
        detector, data = found["NXdetector"], found["NXdata"]
        assert "data" not in detector, "it would be read before the links are"
        assert "data_000001" not in detector
        assert detector["x_pixel_size"].attrs["units"] == "m"
        number = 1
        while f"data_{number:06d}" in data:
            yield from data[f"data_{number:06d}"][...]
            number += 1


def layout_message(path: Path, dataset: str) -> tuple[int, int]:
    """Version and class of a dataset's layout, from the bytes: 3 has the B-tree that all know."""
    with h5py.File(path) as file:
        address = h5py.h5o.get_info(file[dataset].id).addr
    content = path.read_bytes()
    assert content[address] == 1, "an object header as HDF5 1.8 has it"
    count, size = struct.unpack_from("<HxxxxI", content, address + 2)
    blocks, at = [(address + 16, size)], 0
    while blocks:
        at, size = blocks.pop()
        end = at + size
        while at < end and count > 0:
            kind, length = struct.unpack_from("<HH", content, at)
            if kind == 0x10:
                blocks.append(struct.unpack_from("<QQ", content, at + 8))
            if kind == 0x08:
                return content[at + 8], content[at + 9]
            at, count = at + 8 + length, count - 1
    raise AssertionError("no layout message")


def by_hdf5_1_10(path: Path, dataset: str, frames: int) -> list[numpy.ndarray]:
    """Decoded here, as durin decodes with its own copy of bitshuffle: after 12 bytes of sizes."""
    command = [sys.executable, str(DEBIAN_HDF5), str(path), dataset, *map(str, range(frames))]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found, rest = [], done.stdout
    while rest:
        size = int.from_bytes(rest[:8], "little")
        stored, rest = numpy.frombuffer(rest[8 : 8 + size], "uint8"), rest[8 + size :]
        raw, block = struct.unpack(">QI", stored[:12].tobytes())
        assert raw == 2 * sent.ROWS * sent.COLUMNS
        shape, kind = (sent.ROWS, sent.COLUMNS), numpy.dtype("uint16")
        found.append(bitshuffle.decompress_lz4(stored[12:].copy(), shape, kind, block // 2))
    return found


def check_readers(master: Path) -> None:
    """The field's readers find all frames, once, and the values of the start message."""
    wanted = sent.frames_of(0)
    for reads in (as_durin_reads, as_neggia_reads):
        assert numpy.array_equal(numpy.stack(list(reads(master))), wanted), reads.__name__
    with fabio.open(str(master)) as images:
        assert images.nframes == sent.FRAMES
        assert all(numpy.array_equal(images.get_frame(n).data, frame) for n, frame in enumerate(wanted))
    with h5py.File(master) as file:
        entry: Any = parse_nxmx(file).entries[0]
        beam, detector = entry.instruments[0].beams[0], entry.instruments[0].detectors[0]
        assert beam.incident_wavelength.to("nm").magnitude == pytest.approx(sent.WAVELENGTH_ANGSTROM / 10)
        assert detector.frame_time.to("us").magnitude == pytest.approx(2300)
        assert detector.count_time.to("us").magnitude == pytest.approx(1700)
        assert numpy.array_equal(detector.pixel_mask, sent.mask())
        chain = nxmx.get_dependency_chain(detector.modules[0].fast_pixel_direction)
        origin = nxmx.get_cumulative_transformation(chain[1:])[0] @ [0, 0, 0, 1]
        place = [sent.CENTER_X * sent.PIXEL_X_M, sent.CENTER_Y * sent.PIXEL_Y_M, sent.DISTANCE_M]
        assert origin[:3] == pytest.approx([1e3 * metres for metres in place])
        axes = nxmx.get_rotation_axes(nxmx.get_dependency_chain(entry.samples[0].depends_on))
        assert list(axes.names) == ["omega"]
        assert (file[f"{DETECTOR}/x_pixel_size"][()], file[f"{DETECTOR}/y_pixel_size"][()]) == (
            sent.PIXEL_X_M,
            sent.PIXEL_Y_M,
        )
