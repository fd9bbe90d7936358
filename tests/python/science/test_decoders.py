"""Libraries that decompress outside HDF5 give what HDF5 gives, and refuse corrupt chunks."""

import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import h5py
import hdf5plugin
import numpy
import pytest

from penstock.bench.science.imaging.decoders import (
    Decoder,
    PenstockDecoder,
    PluginDecoder,
    Raw,
    ZlibDecoder,
    decoder_for,
)
from penstock.bench.science.imaging.files import OWN_LIBRARY
from penstock.model.errors import PenstockError
from penstock.programs.locate import find_library


def decoder_of(name: str, encoding: str) -> Decoder:
    if name == "penstock":
        if find_library(OWN_LIBRARY) is None:
            pytest.skip(f"{OWN_LIBRARY} is not built")
        return PenstockDecoder(encoding)
    return PluginDecoder() if encoding == "bslz4" else ZlibDecoder()


def chunk_of(folder: Path, pixels: numpy.ndarray, encoding: str) -> Raw:
    options = dict(hdf5plugin.Bitshuffle()) if encoding == "bslz4" else {"compression": "gzip"}
    with h5py.File(folder / "file.h5", "w") as file:
        data = file.create_dataset("data", data=pixels[None], chunks=(1, *pixels.shape), **options)
        return numpy.frombuffer(data.id.read_direct_chunk((0, 0, 0))[1], numpy.uint8)


@pytest.mark.parametrize("encoding", ["bslz4", "deflate"])
@pytest.mark.parametrize("name", ["penstock", "other"])
@pytest.mark.parametrize("type_", ["uint8", "uint16", "int32", "uint64"])
@pytest.mark.parametrize("shape", [(100, 100), (67, 71), (3, 2)])
def test_pixels_are_those_of_hdf5(
    tmp_path: Path, encoding: str, name: str, type_: str, shape: tuple[int, int]
) -> None:
    pixels = numpy.random.default_rng(1).poisson(20, shape).astype(type_)
    into = numpy.full(shape, 77, type_)
    decoder_of(name, encoding).decode(chunk_of(tmp_path, pixels, encoding), into)
    assert (into == pixels).all()


@pytest.mark.parametrize("encoding", ["bslz4", "deflate"])
@pytest.mark.parametrize("name", ["penstock", "other"])
def test_a_corrupt_chunk_is_refused(tmp_path: Path, encoding: str, name: str) -> None:
    pixels = numpy.random.default_rng(1).poisson(20, (90, 90)).astype("uint16")
    chunk, decoder = chunk_of(tmp_path, pixels, encoding), decoder_of(name, encoding)
    into = numpy.empty((90, 90), "uint16")
    for wrong in (chunk[:-9], chunk[:5], numpy.roll(chunk, 1), numpy.zeros(50, numpy.uint8)):
        with pytest.raises(PenstockError, match="corrupt"):
            decoder.decode(numpy.ascontiguousarray(wrong), into)
    with pytest.raises(PenstockError, match="corrupt"):
        decoder.decode(chunk, numpy.empty((90, 91), "uint16"))


@pytest.mark.parametrize("shape", [(64, 64), (90, 90), (7, 9), (1, 3)])
@pytest.mark.parametrize("type_", ["uint8", "uint16", "uint32"])
def test_a_chunk_is_not_read_beyond_its_end(tmp_path: Path, shape: tuple[int, int], type_: str) -> None:
    """No library is asked for one whose blocks are longer than it: it would read what is behind it."""
    pixels = numpy.random.default_rng(1).integers(0, 200, shape).astype(type_)
    chunk, decoder, into = chunk_of(tmp_path, pixels, "bslz4"), PluginDecoder(), numpy.empty_like(pixels)
    decoder.decode(chunk, into)
    assert (into == pixels).all()

    def asked(*_: object) -> int:
        raise AssertionError("the library was asked")

    decoder._decode = asked  # type: ignore[assignment]
    for size in range(0, len(chunk), max(1, len(chunk) // 50)):
        with pytest.raises(PenstockError, match="corrupt"):
            decoder.decode(chunk[:size].copy(), into)


def test_a_bomb_takes_no_memory() -> None:
    """A chunk that has a thousand times as many pixels as it should."""
    bomb = numpy.frombuffer(zlib.compress(bytes(300 << 20), 1), numpy.uint8)
    tracemalloc.start()
    with pytest.raises(PenstockError, match="corrupt"):
        ZlibDecoder().decode(bomb, numpy.empty(1000, "uint16"))
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


_WITHOUT_AN_ENCODING = """
import ctypes, sys
decode = ctypes.CDLL(sys.argv[1]).penstock_decode_chunk
print(decode(None, bytes(20), ctypes.c_size_t(20), ctypes.c_size_t(2), None, ctypes.c_size_t(0)))
"""


def test_no_encoding_is_an_unknown_one() -> None:
    library = find_library(OWN_LIBRARY)
    if library is None:
        pytest.skip(f"{OWN_LIBRARY} is not built")
    command = [sys.executable, "-c", _WITHOUT_AN_ENCODING, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2\n")


def test_a_decoder_that_is_asked_for_is_taken() -> None:
    assert decoder_for("none", "auto") is None
    assert isinstance(decoder_for("bslz4", "hdf5plugin"), PluginDecoder)
    assert isinstance(decoder_for("deflate", "hdf5plugin"), ZlibDecoder)
    is_built = find_library(OWN_LIBRARY) is not None
    assert isinstance(decoder_for("bslz4", "auto"), PenstockDecoder if is_built else PluginDecoder)


def test_deflate_is_zlib() -> None:
    pixels = numpy.arange(100, dtype="uint16")
    into = numpy.empty_like(pixels)
    ZlibDecoder().decode(numpy.frombuffer(zlib.compress(pixels.tobytes()), numpy.uint8), into)
    assert (into == pixels).all()
