"""Send values (positions, currents, counters) to `penstock collect`; what is lost is sent again."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.client.connection import Connection, LostError, parse_address
from penstock.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    FrameError,
    RefusedError,
)
from penstock.client.messages import typed
from penstock.client.wire import Kind, Reply, self_described

_BATCH_BYTES = 1 << 20  # about; the collector takes 4 MiB
_STORAGE_PAUSE_S = 1.0
_WAIT_S = 0.1
_REFUSALS_KEPT = 1000

Index = int | npt.NDArray[Any]


@dataclass(slots=True)
class _Kept:
    text: bytes
    sequence: int = -1  # on this connection; -1: not sent


class Values:
    """A connection to a collector. One thread at a time; starts none.

    Rows are gathered for `gather_s` seconds or `rows_max` rows and sent together with a later call; flush()
    sends at once and waits. What is not acknowledged is kept, up to `buffer_bytes`, then calls wait.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:9930",
        *,
        token: str | None = None,
        name: str = "penstock.client",
        series: str | None = None,
        gather_s: float = 0.1,
        rows_max: int = 1000,
        buffer_bytes: int = 64 << 20,
        connect_timeout: float = 10.0,
        reconnect_timeout: float = 60.0,
    ) -> None:
        self._where, self._address = address, parse_address(address)
        hello: dict[str, Any] = {"type": "hello", "name": name}
        self._hello = self_described(hello | ({"token": token} if token else {}))
        self.series = series
        self.client = f"{name[:64]} {uuid.uuid4().hex}"
        self.acknowledged = self.refused_count = 0  # batches
        self.refused: list[str] = []  # why, of the first thousand
        self._gather_s, self._rows_max, self._buffer_bytes = gather_s, rows_max, buffer_bytes
        self._reconnect_timeout = reconnect_timeout
        self._groups: dict[Any, tuple[list[int], list[list[Any]]]] = {}
        self._rows, self._since = 0, 0.0
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = self._batch = 0
        self._connection: Connection | None = None
        self._greeted = False
        self._not_before = 0.0
        self._storage = ""
        self._connect(connect_timeout)

    def __enter__(self) -> Values:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._drop()

    def send(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        time_ns: int | None = None,
        frame: int | None = None,
        **more: Any,
    ) -> None:
        """One value for each channel, of a frame or at a time (ns since 1970; now where neither is given)."""
        row = dict(values or {}) | more
        by, index = _by(time.time_ns() if time_ns is None and frame is None else time_ns, frame)
        plain = {name: _plain(name, value) for name, value in row.items()}
        if not plain:
            raise FrameError("there is no value to send")
        key = (by, self.series, tuple((name, _kind(value)) for name, value in plain.items()))
        rows, columns = self._groups.setdefault(key, ([], [[] for _ in plain]))
        rows.append(int(index))
        for column, value in zip(columns, plain.values(), strict=True):
            column.append(value)
        now = time.monotonic()
        self._since = self._since if self._rows else now
        self._rows += 1
        if self._rows >= self._rows_max or now - self._since >= self._gather_s:
            self._gathered()
            self._push()

    def send_columns(
        self,
        columns: Mapping[str, Any],
        *,
        time_ns: npt.ArrayLike | None = None,
        frame: npt.ArrayLike | None = None,
    ) -> None:
        """Many rows at once: an array each, whose first dimension is that of `time_ns` or `frame`."""
        self._gathered()
        by, index = _by(time_ns, frame)
        rows = np.atleast_1d(np.asarray(index)).astype(np.int64)
        arrays = {name: _array(name, column) for name, column in columns.items()}
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != len(rows):
                raise FrameError(f"{name!r} has the shape {array.shape}, but there are {len(rows)} rows")
        if not arrays or not len(rows):
            raise FrameError("there is no value to send")
        row_bytes = 8 + sum(max(1, array.nbytes // len(rows)) for array in arrays.values())
        step = max(1, _BATCH_BYTES // row_bytes)
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            self._keep([_group(by, self.series, rows[part], {n: a[part] for n, a in arrays.items()})])
            self._push()

    def flush(self, timeout: float | None = None) -> None:
        """Sends everything and waits until all of it is in the journal (or refused: see `refused`)."""
        self._gathered()
        self._wait(lambda: not self._kept, timeout)

    def close(self, timeout: float | None = 60.0) -> None:
        """flush(), and ends the connection. A ClientError tells of batches that were refused."""
        try:
            self.flush(timeout)
            if self._connection is not None:
                self._connection.send_message(Kind.BYE, self_described({"type": "bye"}))
        except LostError:
            pass
        finally:
            self._drop()
        if self.refused_count:
            raise ClientError(
                f"{self._where}: {self.refused_count} batches were refused, first: {self.refused[0]}"
            )

    # Batches.

    def _gathered(self) -> None:
        groups, size = [], 0
        for (by, series, names), (rows, columns) in self._groups.items():
            arrays = {name: _array(name, column) for (name, _), column in zip(names, columns, strict=True)}
            step = max(1, _BATCH_BYTES // (8 + sum(max(1, a.nbytes // len(rows)) for a in arrays.values())))
            for first in range(0, len(rows), step):
                part = slice(first, first + step)
                group = {name: array[part] for name, array in arrays.items()}
                index = np.array(rows[part], np.int64)
                groups.append(_group(by, series, index, group))
                size += sum(array.nbytes + len(name) + 32 for name, array in group.items()) + index.nbytes
                if size >= _BATCH_BYTES:
                    self._keep(groups)
                    groups, size = [], 0
        self._groups, self._rows = {}, 0
        if groups:
            self._keep(groups)

    def _keep(self, groups: list[dict[str, Any]]) -> None:
        text = self_described(
            {"type": "values", "client": self.client, "batch": self._batch, "groups": groups}
        )
        if self._kept and self._kept_bytes + len(text) > self._buffer_bytes:
            self._wait(lambda: not self._kept or self._kept_bytes + len(text) <= self._buffer_bytes, None)
        self._batch += 1
        self._kept.append(_Kept(text))
        self._kept_bytes += len(text)

    # The connection.

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, patience_s: float) -> None:
        give_up, pause = time.monotonic() + patience_s, 0.05
        while True:
            try:
                self._greeted = False
                for kept in self._kept:
                    kept.sequence = -1
                self._connection = Connection(self._address, max(_WAIT_S, patience_s), 60.0, self._handle)
                self._connection.send_message(Kind.HELLO, self._hello)
                while not self._greeted and time.monotonic() < give_up:
                    self._connection.wait(_WAIT_S)
                if self._greeted:
                    return
                raise LostError("no answer to hello")
            except LostError as problem:
                self._drop()
                if time.monotonic() + pause > give_up:
                    raise ConnectionLostError(
                        f"{self._where}: no collector answered for {patience_s:g} s: {problem}; "
                        f"{len(self._kept)} batches are not acknowledged"
                    ) from problem
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            except BaseException:
                self._drop()
                raise

    def _push(self) -> None:
        """Sends what is not sent, and handles what came."""
        try:
            if self._connection is None:
                raise LostError("no connection")
            if time.monotonic() >= self._not_before:
                for kept in list(self._kept):
                    if kept.sequence < 0:
                        kept.sequence = self._connection.sequence
                        self._connection.send_message(Kind.VALUES, kept.text)
            self._connection.receive()
        except LostError:
            self._drop()
            self._connect(self._reconnect_timeout)

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            self._push()
            if done():
                return
            if give_up is not None and time.monotonic() > give_up:
                raise ClientTimeoutError(
                    f"{self._where}: {len(self._kept)} batches are not acknowledged after {timeout:g} s"
                    + (f": {self._storage}" if self._storage else "")
                )
            try:
                if self._connection is not None:
                    self._connection.wait(_WAIT_S)
            except LostError:
                self._drop()

    def _handle(self, reply: Reply) -> None:
        if reply.kind is Kind.HELLO:
            self._greeted = True
        elif reply.kind is Kind.BYE:
            raise LostError("the collector stops")
        elif reply.kind is Kind.ACK:
            self.acknowledged += self._take_out(reply.sequence)
            self._storage = ""
        elif reply.kind is Kind.ERROR:
            self._handle_error(reply)

    def _handle_error(self, reply: Reply) -> None:
        why = f"{reply.text} ({reply.code})"
        if not self._greeted:
            raise RefusedError(f"{self._where}: the collector refuses the connection: {why}")
        if reply.sequence == 0:
            raise LostError(f"the collector ends the connection: {why}")
        if reply.code == "storage":  # it may have room later
            self._storage = reply.text
            self._not_before = time.monotonic() + _STORAGE_PAUSE_S
            for kept in self._kept:
                if kept.sequence == reply.sequence:
                    kept.sequence = -1
            return
        self.refused_count += self._take_out(reply.sequence)
        if len(self.refused) < _REFUSALS_KEPT:
            self.refused.append(why)

    def _take_out(self, sequence: int) -> int:
        for place, kept in enumerate(self._kept):
            if kept.sequence == sequence:
                self._kept_bytes -= len(kept.text)
                del self._kept[place]
                return 1
        return 0


def _by(time_ns: Any, frame: Any) -> tuple[str, Any]:
    if (time_ns is None) == (frame is None):
        raise FrameError("give frame or time_ns, and not both")
    return ("time", time_ns) if frame is None else ("frame", frame)


def _plain(name: str, value: Any) -> Any:
    """Text, or an array; 0-dimensional for a single number."""
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise FrameError(
            f"{name!r} is a {type(value).__name__}; numbers, texts and arrays of numbers are possible"
        )
    return np.array(array)  # of its own: the caller may change his


def _kind(value: Any) -> Any:
    return "text" if isinstance(value, str) else (value.dtype.str, value.shape)


def _array(name: str, column: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(column)
    if array.dtype.kind == "O":
        raise FrameError(f"{name!r} has values of different types or shapes")
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    return array


def _group(by: str, series: str | None, index: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    encoded = {
        name: array.tolist() if array.dtype.kind in "US" else typed(np.ascontiguousarray(array))
        for name, array in columns.items()
    }
    return {by: typed(index), "columns": encoded} | ({"series": series} if series is not None else {})
