"""Decompression of chunks outside HDF5, by libraries whose calls let other threads run."""

import ctypes
import struct
import zlib
from abc import ABC, abstractmethod
from typing import Any

import hdf5plugin
import numpy
from numpy.typing import NDArray

from penstock.bench.science.imaging.files import OWN_LIBRARY
from penstock.model.errors import PenstockError
from penstock.programs.locate import find_library

_HEADER_BYTES, _BLOCK_AT = 12, 8  # of a bitshuffle chunk: raw bytes, and bytes of a block; big-endian
_LENGTH, _GROUP = struct.Struct(">I"), 8
_CORRUPT = PenstockError("the chunk is corrupt", "penstock check FILE")
Raw = NDArray[numpy.uint8]


class Decoder(ABC):
    """Of chunks with one encoding. Several threads may use it."""

    name = ""

    @abstractmethod
    def decode(self, chunk: Raw, into: NDArray[Any]) -> None:
        """Fills `into`. Raises PenstockError if the chunk is not that of such a frame."""


class PenstockDecoder(Decoder):
    """Penstock's own, which has kernels for several instruction sets."""

    name = "penstock"

    def __init__(self, encoding: str) -> None:
        path = find_library(OWN_LIBRARY)
        if path is None:
            raise PenstockError(f"{OWN_LIBRARY} is not built", "make build, or use --decoder hdf5plugin")
        self._encoding = encoding.encode()
        self._decode = ctypes.CDLL(str(path)).penstock_decode_chunk
        self._decode.restype = ctypes.c_int
        self._decode.argtypes = [
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
            ctypes.c_void_p,
            ctypes.c_size_t,
        ]

    def decode(self, chunk: Raw, into: NDArray[Any]) -> None:
        if self._decode(
            self._encoding, chunk.ctypes.data, chunk.size, into.itemsize, into.ctypes.data, into.nbytes
        ):
            raise _CORRUPT


class PluginDecoder(Decoder):
    """The bitshuffle library in hdf5plugin's filter."""

    name = "hdf5plugin"

    def __init__(self) -> None:
        path = hdf5plugin.get_config().registered_filters.get("bshuf")
        if path is None:
            raise PenstockError("hdf5plugin has no bitshuffle filter", "pip install --upgrade hdf5plugin")
        self._decode = ctypes.CDLL(str(path)).bshuf_decompress_lz4
        self._decode.restype = ctypes.c_int64
        self._decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_size_t] * 3]

    def decode(self, chunk: Raw, into: NDArray[Any]) -> None:
        """That library does not know where the chunk ends: lengths of blocks are compared with it before."""
        header = chunk[:_HEADER_BYTES].tobytes()
        if len(header) < _HEADER_BYTES or int.from_bytes(header[:_BLOCK_AT], "big") != into.nbytes:
            raise _CORRUPT
        block = int.from_bytes(header[_BLOCK_AT:], "big") // into.itemsize
        if not _ends_with_its_blocks(chunk, into, block):
            raise _CORRUPT
        begin = chunk.ctypes.data + _HEADER_BYTES
        used = self._decode(begin, into.ctypes.data, into.size, into.itemsize, block)
        if used != chunk.size - _HEADER_BYTES:
            raise _CORRUPT


def _ends_with_its_blocks(chunk: Raw, into: NDArray[Any], block: int) -> bool:
    """`block`: elements of one. Each begins with its length; elements that fill no group of 8 are the end."""
    if block < _GROUP or block % _GROUP:
        return False
    whole, rest = divmod(into.size, block)
    at, data = _HEADER_BYTES, chunk.data
    try:
        for _ in range(whole + (rest >= _GROUP)):
            at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
    except struct.error:  # it is not in the chunk
        return False
    return bool(at + into.size % _GROUP * into.itemsize == chunk.size)


class ZlibDecoder(Decoder):
    """Python's own."""

    name = "zlib"

    def decode(self, chunk: Raw, into: NDArray[Any]) -> None:
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(
                chunk.data, into.nbytes + 1
            )  # a hostile one has a thousand times as much
        except zlib.error as error:
            raise _CORRUPT from error
        if len(data) != into.nbytes or not stream.eof:
            raise _CORRUPT
        into.reshape(-1).view(numpy.uint8)[:] = numpy.frombuffer(data, numpy.uint8)


def decoder_for(encoding: str, name: str) -> Decoder | None:
    """None where nothing is encoded. `name`: auto, penstock or hdf5plugin; see ImagingParameters."""
    if encoding == "none":
        return None
    if name == "penstock" or (name == "auto" and find_library(OWN_LIBRARY) is not None):
        return PenstockDecoder(encoding)
    return ZlibDecoder() if encoding == "deflate" else PluginDecoder()
