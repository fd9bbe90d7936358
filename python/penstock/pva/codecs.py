"""Compressed NTNDArrays: most go on with the header that HDF5's filter wants, the others are expanded.

ADCore's documentation describes the output of NDPluginCodec; the layouts of the filters' chunks are in
docs/reference/stream-v2.md.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
import zlib
from collections.abc import Callable

import h5py
import hdf5plugin
import numpy as np
from PIL import Image as Pictures

from penstock.client import Compressed
from penstock.client.pixels import Array, Image
from penstock.pva.errors import BadFrameError

# Of bitshuffle, in bytes, as ADCore calls it and as HDF5's filter stores it.
_BITSHUFFLE_BLOCK_BYTES = 8192
_BLOSC_HEADER_BYTES = 16
_LZ4_BYTES_MAX = 0x7E000000

Dtype = np.dtype[np.generic]
Payload = memoryview


def image_of(codec: str, payload: Payload, dtype: Dtype, shape: tuple[int, ...]) -> Image:
    """The frame's pixels as the recorder takes them. `payload` has the compressed bytes and nothing else."""
    if codec in _PASSED_ON:
        return _PASSED_ON[codec](payload, math.prod(shape) * dtype.itemsize)
    if codec in _EXPANDED:
        return _EXPANDED[codec](payload, dtype, shape)
    raise BadFrameError("codec.name", codec, f"known are {', '.join([*_PASSED_ON, *_EXPANDED])}")


def is_passed_on(codec: str) -> bool:
    """Its bytes are not touched."""
    return codec in _PASSED_ON


def _bslz4(payload: Payload, raw_bytes: int) -> Compressed:
    # A block is never of length 0, so that nothing else begins with the size as 8 bytes (below 4 GiB).
    if len(payload) >= 12 and struct.unpack_from(">Q", payload)[0] == raw_bytes:
        return Compressed(payload, "bslz4")
    head = struct.pack(">QI", raw_bytes, _BITSHUFFLE_BLOCK_BYTES)
    return Compressed(b"".join((head, payload)), "bslz4")


def _lz4(payload: Payload, raw_bytes: int) -> Compressed:
    """One block. The filter takes a block of its own size for one that is not compressed."""
    if raw_bytes > _LZ4_BYTES_MAX:
        raise BadFrameError("uncompressedSize", raw_bytes, f"LZ4 has at most {_LZ4_BYTES_MAX} bytes")
    if len(payload) == raw_bytes:
        raise BadFrameError(
            "compressedSize", raw_bytes, "HDF5 cannot store an LZ4 block that is as long as its contents"
        )
    head = struct.pack(">QII", raw_bytes, raw_bytes, len(payload))
    return Compressed(b"".join((head, payload)), "lz4")


def _lz4hdf5(payload: Payload, _raw_bytes: int) -> Compressed:
    return Compressed(payload, "lz4")


def _zlib(payload: Payload, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    raw_bytes = math.prod(shape) * dtype.itemsize
    expander = zlib.decompressobj()
    try:
        raw = expander.decompress(payload, raw_bytes + 1)
    except zlib.error as problem:
        raise BadFrameError("value", f"{len(payload)} bytes", f"not a zlib stream: {problem}") from problem
    if len(raw) == raw_bytes and not expander.eof:  # the checksum is behind the last byte
        with contextlib.suppress(zlib.error):
            expander.decompress(expander.unconsumed_tail, 1)
    if len(raw) == raw_bytes and (not expander.eof or expander.unused_data):
        what = "there are bytes after it" if expander.eof else "its end, with the checksum, is missing"
        raise BadFrameError("value", f"{len(payload)} bytes", f"a zlib stream: {what}")
    return _array(raw, dtype, shape)


def _blosc(payload: Payload, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    """Through HDF5's filter, which is the one library for it that Penstock has."""
    raw_bytes = math.prod(shape) * dtype.itemsize
    if len(payload) < _BLOSC_HEADER_BYTES:
        raise BadFrameError("compressedSize", len(payload), "a blosc buffer has a header of 16 bytes")
    claimed, _, size = struct.unpack_from("<III", payload, 4)
    if claimed != raw_bytes or size != len(payload):
        raise BadFrameError(
            "value",
            f"a blosc buffer of {size} bytes for {claimed}",
            f"it has {len(payload)} bytes, but the dimensions require {raw_bytes}",
        )
    try:
        with h5py.File("blosc", "w", driver="core", backing_store=False) as file:
            dataset = file.create_dataset(
                "d", (raw_bytes,), "u1", chunks=(raw_bytes,), **hdf5plugin.Blosc(cname="lz4")
            )
            dataset.id.write_direct_chunk((0,), bytes(payload))
            raw = dataset[...].tobytes()
    except (OSError, ValueError) as problem:
        raise BadFrameError("value", f"{size} bytes", f"blosc cannot decompress it: {problem}") from problem
    return _array(raw, dtype, shape)


def _jpeg(payload: Payload, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    if dtype != np.uint8:
        raise BadFrameError("codec.parameters", dtype.name, "JPEG has uint8 only")
    try:
        with Pictures.open(io.BytesIO(payload), formats=["JPEG"]) as picture:
            found = (picture.height, picture.width, *([3] if picture.mode == "RGB" else []))
            if found != shape or picture.mode not in ("L", "RGB"):
                raise BadFrameError("value", f"a JPEG of {found}", f"the dimensions require {shape}")
            return np.asarray(picture)
    except (OSError, ValueError, Pictures.DecompressionBombError) as problem:
        raise BadFrameError("value", f"{len(payload)} bytes", f"not a JPEG: {problem}") from problem


def _array(raw: bytes, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    raw_bytes = math.prod(shape) * dtype.itemsize
    if len(raw) != raw_bytes:
        more = "more" if len(raw) > raw_bytes else str(len(raw))
        raise BadFrameError("value", f"{more} bytes, expanded", f"the dimensions require {raw_bytes}")
    return np.frombuffer(raw, dtype).reshape(shape)


_PASSED_ON: dict[str, Callable[[Payload, int], Compressed]] = {
    "bslz4": _bslz4,
    "lz4": _lz4,
    "lz4hdf5": _lz4hdf5,
}
_EXPANDED: dict[str, Callable[[Payload, Dtype, tuple[int, ...]], Array]] = {
    "zlib": _zlib,
    "blosc": _blosc,
    "jpeg": _jpeg,
}
