"""Peer: Stream V2 over ZeroMQ into HDF5, as one would write it in Python, as fast as that gets.

Messages are received without a copy; a small parser walks over the CBOR items and leaves the pixels
where they are; chunks go straight into a dataset that has its final extent from the start. The job
comes as one JSON document on standard input, events go to standard output, one JSON line each:
"listening", and "series_end" once the file is closed and synced.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import bitshuffle
import h5py
import hdf5plugin
import numpy as np
import zmq

BLOCK_BYTES = 8192  # of a bitshuffle block, before compression
WAITING_MAX = 4  # frames that wait for a compressing thread

Piece = memoryview


def head(message: memoryview, at: int) -> tuple[int, int, int]:
    """Major type, argument, and where the item goes on."""
    first = message[at]
    extra = first & 31
    if extra < 24:
        return first >> 5, extra, at + 1
    size = 1 << (extra - 24)
    return first >> 5, int.from_bytes(message[at + 1 : at + 1 + size], "big"), at + 1 + size


def skip(message: memoryview, at: int) -> int:
    major, argument, at = head(message, at)
    if major in (2, 3):
        return at + argument
    if major == 4:
        for _ in range(argument):
            at = skip(message, at)
    elif major == 5:
        for _ in range(2 * argument):
            at = skip(message, at)
    elif major == 6:
        return skip(message, at)
    return at


def pixels(message: memoryview, at: int) -> Piece:
    """The byte string inside {channel: 40([[rows, columns], typed([…])])}, compressed or not."""
    at = skip(message, head(message, at)[2])  # the channel's name
    while True:
        major, argument, after = head(message, at)
        if major == 6:  # a tag: of the array, of the type, of the compression
            at = after
        elif major == 4:
            at = skip(message, after)  # [rows, columns], or the algorithm and its parameter
            if argument == 3:
                at = skip(message, at)
        else:
            return message[after : after + argument]


def parse(message: memoryview) -> tuple[str, int, Piece | None]:
    """Type, image number and pixels."""
    kind, number, found = "", 0, None
    at = 3 if message[0] == 0xD9 else 0  # the tag of self-described CBOR
    _, entries, at = head(message, at)
    for _ in range(entries):
        _, length, at = head(message, at)
        key = bytes(message[at : at + length])
        at += length
        if key == b"type":
            _, length, after = head(message, at)
            kind = bytes(message[after : after + length]).decode()
            if kind != "image":
                break
        elif key == b"image_id":
            number = head(message, at)[1]
        elif key == b"data":
            found = pixels(message, at)
        at = skip(message, at)
    return kind, number, found


def messages(socket: zmq.Socket[bytes]) -> Iterator[tuple[int, Piece]]:
    """Images until the end message."""
    while True:
        frame = socket.recv(copy=False)
        kind, number, found = parse(frame.buffer)
        if kind == "end":
            return
        if found is not None:
            yield number, found


def compress(blob: Piece, kind: np.dtype[Any]) -> bytes:
    """As HDF5's filter stores it: the framing's header is not made by the package."""
    frame = np.frombuffer(blob, dtype=kind)
    header = struct.pack(">QI", frame.nbytes, BLOCK_BYTES)
    packed: bytes = bitshuffle.compress_lz4(frame).tobytes()
    return header + packed


def store_all(
    images: Iterator[tuple[int, Piece]], write: Callable[[int, Piece | bytes], None], job: dict[str, Any]
) -> int:
    count = 0
    if job["mode"] != "compress":
        for number, blob in images:
            write(number, blob)
            count += 1
        return count
    kind = np.dtype(job["type"])
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    with ThreadPoolExecutor(job["threads"]) as threads:
        for number, blob in images:
            waiting.append((number, threads.submit(compress, blob, kind)))
            if len(waiting) >= WAITING_MAX:
                first, done = waiting.popleft()
                write(first, done.result())
            count += 1
        for first, done in waiting:
            write(first, done.result())
    return count


def record(socket: zmq.Socket[bytes], job: dict[str, Any]) -> dict[str, Any]:
    shape = (job["rows"], job["columns"])
    filters: dict[str, Any] = {} if job["mode"] == "raw" else job["filter"] or dict(hdf5plugin.Bitshuffle())
    if "compression_opts" in filters:  # JSON has no tuples, and h5py takes nothing else
        filters["compression_opts"] = tuple(filters["compression_opts"])
    with h5py.File(job["path"], "w", libver=("v110", "v110")) as file:
        dataset = file.create_dataset(
            "/entry/data/data",
            (job["frames"], *shape),
            job["type"],
            maxshape=(None, *shape),
            chunks=(1, *shape),
            **filters,
        )
        chunk = dataset.id.write_direct_chunk

        def put(number: int, blob: Piece | bytes) -> None:
            if job["mode"] == "filter":  # HDF5 compresses it, under its lock
                dataset[number] = np.frombuffer(blob, job["type"]).reshape(shape)
            else:
                chunk((number, 0, 0), blob)

        count = store_all(messages(socket), put, job)
        stored = dataset.id.get_storage_size()
    handle = os.open(job["path"], os.O_RDWR)
    os.fsync(handle)
    os.close(handle)
    return {"frames_written": count, "stored_bytes": stored}


def tell(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "time": time.time(), **fields}), flush=True)


def main() -> None:
    job = json.load(sys.stdin)
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, job["messages_max"])
    socket.connect(job["endpoint"])
    tell("listening")
    tell("series_end", **record(socket, job))
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
