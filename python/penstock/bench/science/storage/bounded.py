"""Answers of servers that are read into memory, up to a limit: one may send more than it was asked for."""

from collections.abc import AsyncIterable, Iterable
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from penstock.model.errors import PenstockError
from penstock.model.units import human_bytes

ANSWER_BYTES_MAX = 64 << 20
"""of a listing; a file takes about 500"""
ENTRIES_MAX = ANSWER_BYTES_MAX // 500
"""of a listing that comes in several answers"""
_PIECE = 1 << 16


class Bounded:
    """Bytes of one answer. `add` raises OSError with `problem` beyond `most`."""

    def __init__(self, most: int, problem: str) -> None:
        self._pieces: list[bytes] = []
        self._left, self._problem = most, problem

    def add(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise OSError(self._problem)
        self._pieces.append(piece)

    @property
    def content(self) -> bytes:
        return b"".join(self._pieces)


def of_part(size: int) -> Bounded:
    return Bounded(size, "the server sent more than was asked for: it must support reads of parts")


def of_answer() -> Bounded:
    return Bounded(ANSWER_BYTES_MAX, f"the server's answer exceeds {human_bytes(ANSWER_BYTES_MAX)}")


def too_many(entries: int, place: str) -> PenstockError | None:
    """The error for a listing of that many entries; None up to the limit."""
    if entries <= ENTRIES_MAX:
        return None
    return PenstockError(
        f"{place}: the server lists more than {ENTRIES_MAX} entries in this directory",
        "name a directory with fewer entries, such as a new one",
    )


def all_of(pieces: Iterable[bytes], into: Bounded) -> bytes:
    for piece in pieces:
        into.add(piece)
    return into.content


async def all_that_comes(pieces: AsyncIterable[bytes], into: Bounded) -> bytes:
    async for piece in pieces:
        into.add(piece)
    return into.content


class _Adapter(HTTPAdapter):
    """`requests` has no limits: it reads answers of any size, redirects included, and waits indefinitely."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s

    def send(  # type: ignore[override]
        self, request: requests.PreparedRequest, **more: Any
    ) -> requests.Response:
        stream, timeout = more.pop("stream", False), more.pop("timeout", None)
        answer = super().send(request, stream=True, timeout=timeout or self._timeout_s, **more)
        if not stream or answer.is_redirect:
            with answer:
                answer._content = all_of(answer.iter_content(_PIECE), of_answer())
        return answer


def bound_session(session: requests.Session, timeout_s: float) -> None:
    """Bounds what its requests keep in memory, and how long they wait for a byte."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(timeout_s))
