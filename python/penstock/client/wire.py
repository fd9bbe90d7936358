"""The frames of docs/reference/tcp.md as bytes: headers, hello, end and what is answered. No I/O."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import cbor2

from penstock.client.crc32c import crc32c, patched

HEADER_BYTES = 64
RESUME = 1  # flag of start
MESSAGE_BYTES_MAX = 4 << 20  # of the CBOR part of everything but start
REPLY_BYTES_MAX = 1 << 20
_HEAD = struct.Struct("<4sHHIIQQII20x")
_CRC = struct.Struct("<I")
_SELF_DESCRIBED = b"\xd9\xd9\xf7"


class Kind(IntEnum):
    HELLO = 1
    START = 2
    IMAGE = 3
    END = 4
    ACK = 5
    ERROR = 6
    CLOSED = 7
    BYE = 8
    VALUES = 9  # to `penstock collect` alone


class ProtocolError(Exception):
    """The other end does not speak the protocol."""


@dataclass(frozen=True)
class Reply:
    """What the other end said; of the fields those of its kind are set."""

    kind: Kind
    series: str = ""
    safe_below: int = 0
    sequence: int = 0
    code: str = ""
    text: str = ""
    ended_by: str = ""  # of closed: message, stop, failure, …

    @property
    def why(self) -> str:
        """Of an error."""
        return f"{self.text} ({self.code})"


def header(
    kind: Kind, sequence: int, message_bytes: int, message_crc: int, *, pixels_bytes: int = 0, flags: int = 0
) -> bytes:
    head = _HEAD.pack(b"PNST", 1, kind, flags, message_bytes, pixels_bytes, sequence, message_crc, 0)
    crc = patched(_crc_without(kind, flags, message_bytes, pixels_bytes), 60, 24, sequence)
    return head + _CRC.pack(patched(crc, 60, 32, message_crc))


@lru_cache
def _crc_without(kind: Kind, flags: int, message_bytes: int, pixels_bytes: int) -> int:
    """Of a header without its sequence number and its message's checksum: images have few others."""
    return crc32c(_HEAD.pack(b"PNST", 1, kind, flags, message_bytes, pixels_bytes, 0, 0, 0))


def message(kind: Kind, sequence: int, text: bytes, *, flags: int = 0) -> bytes:
    """A whole message without pixels; `text` is its CBOR part."""
    return header(kind, sequence, len(text), crc32c(text), flags=flags) + text


def self_described(fields: dict[str, Any]) -> bytes:
    return _SELF_DESCRIBED + cbor2.dumps(fields)


def parse_header(head: bytes | bytearray) -> tuple[Kind, int, int]:
    """Kind, bytes of the CBOR part and its checksum, of a reply."""
    magic, version, kind, _, size, pixels, _, crc, _ = _HEAD.unpack_from(head)
    if magic != b"PNST" or crc32c(bytes(head[:60])) != _CRC.unpack_from(head, 60)[0]:
        raise ProtocolError(f"its answer begins with {bytes(head[:8])!r}, which is not a message of Penstock")
    if version != 1 or kind not in Kind.__members__.values():
        raise ProtocolError(f"it answers with a message of version {version} and kind {kind}")
    if size > REPLY_BYTES_MAX or pixels:
        raise ProtocolError(f"it announces an answer of {size} + {pixels} bytes")
    return Kind(kind), size, crc


def parse_reply(kind: Kind, text: bytes, crc: int) -> Reply:
    if crc32c(text) != crc:
        raise ProtocolError(f"the checksum of its message {kind.name.lower()} is wrong")
    try:
        fields = cbor2.loads(text.removeprefix(_SELF_DESCRIBED))
    except Exception as problem:  # any error of the decoder for bytes that are not CBOR
        raise ProtocolError(f"its message {kind.name.lower()} is not CBOR: {problem}") from problem
    if not isinstance(fields, dict):
        raise ProtocolError(f"its message {kind.name.lower()} is not a map")

    def text_of(key: str) -> str:
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            raise ProtocolError(
                f"{key} of its message {kind.name.lower()} is {value!r:.64}, which is not text"
            )
        return value or ""

    def number_of(key: str) -> int:
        value = fields.get(key, 0)
        if not isinstance(value, int) or not 0 <= value < 1 << 64:
            raise ProtocolError(
                f"{key} of its message {kind.name.lower()} is {value!r:.64}, which is not a count"
            )
        return value

    return Reply(
        kind,
        series=text_of("series_unique_id"),
        safe_below=number_of("safe_below"),
        sequence=number_of("sequence"),
        code=text_of("code"),
        text=text_of("problem") if kind is Kind.CLOSED else text_of("message"),
        ended_by=text_of("ended_by"),
    )
