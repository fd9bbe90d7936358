"""A client written from docs/reference/tcp.md alone."""

import socket
import struct
from types import TracebackType
from typing import Any

import cbor2
import numpy as np
import numpy.typing as npt

HELLO, START, IMAGE, END, ACK, ERROR, CLOSED, BYE = range(1, 9)
RESUME = 1
Pixels = npt.NDArray[np.uint16]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def message(kind: int, sequence: int, fields: dict[str, Any], pixels: bytes = b"", flags: int = 0) -> bytes:
    part = cbor2.dumps(cbor2.CBORTag(55799, fields))
    head = struct.pack(
        "<4sHHIIQQII20x", b"PNST", 1, kind, flags, len(part), len(pixels), sequence, crc32c(part), 0
    )
    return head + struct.pack("<I", crc32c(head)) + part + pixels


class Client:
    """Blocking, one series at a time."""

    def __init__(self, address: str, token: str = "", client: str = "") -> None:
        host, port = address.rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)), timeout=20)
        self.sequence = 0
        said = {"token": token, "client": client}
        self.send(
            HELLO,
            {"type": "hello", "name": "example 1.0"} | {key: each for key, each in said.items() if each},
        )
        assert self.receive()[0] == HELLO

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def hang_up(self) -> None:
        """Reads on until the recorder closes: to close with replies unread discards what it has not read."""
        self.connection.shutdown(socket.SHUT_WR)
        while self.connection.recv(1 << 16):
            pass

    def send(self, kind: int, fields: dict[str, Any], pixels: bytes = b"", flags: int = 0) -> int:
        self.connection.sendall(message(kind, self.sequence, fields, pixels, flags))
        self.sequence += 1
        return self.sequence - 1

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.connection.recv(size - len(data))
            assert piece, "the recorder closed the connection"
            data += piece
        return data

    def receive(self) -> tuple[int, dict[str, Any]]:
        head = self.read(64)
        magic, version, kind, _, size, pixels, _, crc, _ = struct.unpack("<4sHHIIQQII20x", head[:60])
        assert (magic, version, pixels) == (b"PNST", 1, 0)
        assert crc32c(head[:60]) == struct.unpack("<I", head[60:])[0]
        part = self.read(size)
        assert crc32c(part) == crc
        decoded = cbor2.loads(part)
        return kind, decoded.value if isinstance(decoded, cbor2.CBORTag) else decoded

    def until(self, wanted: int) -> dict[str, Any]:
        while True:
            kind, fields = self.receive()
            if kind == wanted:
                return fields
            assert kind == ACK, fields

    def start(
        self, unique_id: str, frames: int, shape: tuple[int, int], flags: int = 0, **fields: object
    ) -> None:
        self.send(START, start_fields(unique_id, frames, shape) | fields, flags=flags)
        self.until(ACK)

    def image(self, unique_id: str, number: int, pixels: Pixels) -> int:
        data = pixels.astype("<u2").tobytes()
        return self.send(IMAGE, image_fields(1, unique_id, number, list(pixels.shape), len(data)), data)

    def end(self, unique_id: str) -> dict[str, Any]:
        self.send(END, {"type": "end", "series_id": 1, "series_unique_id": unique_id})
        return self.until(CLOSED)


def start_fields(unique_id: str, frames: int, shape: tuple[int, int]) -> dict[str, Any]:
    return {
        "type": "start",
        "series_id": 1,
        "series_unique_id": unique_id,
        "channels": ["a"],
        "image_dtype": "uint16",
        "image_size_y": shape[0],
        "image_size_x": shape[1],
        "number_of_images": frames,
    }


def image_fields(series: int, unique_id: str, number: int, shape: list[int], size: int) -> dict[str, Any]:
    typed = cbor2.CBORTag(69, [0, size])
    return {
        "type": "image",
        "series_id": series,
        "series_unique_id": unique_id,
        "image_id": number,
        "data": {"a": cbor2.CBORTag(40, [shape, typed])},
    }


def frames_of(count: int) -> npt.NDArray[np.uint16]:
    return np.random.default_rng(7).integers(0, 9, (count, 30, 40), dtype=np.uint16)
