"""Send values (positions, currents, counters) to `penstock collect`; what is lost is sent again."""

from __future__ import annotations

import operator
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.client.connection import LostError
from penstock.client.errors import ClientError, ClientTimeoutError, FrameError
from penstock.client.link import WAIT_S, EndsWithBlock, Link
from penstock.client.messages import typed
from penstock.client.pixels import TYPED_ARRAY
from penstock.client.wire import Kind, Reply, self_described

_BATCH_BYTES = 1 << 20  # about, of names and of values; the collector takes 4 MiB
_STORAGE_PAUSE_S = 1.0
_STALL_S = 60.0
_REFUSALS_KEPT = 1000
# What the collector refuses, and the whole batch with it (docs/reference/values.md).
NAME_BYTES_MAX = 255
VALUE_BYTES_MAX = 4096
UNITS_BYTES_MAX = 64
_INDEX_END = 1 << 63

Index = int | npt.NDArray[Any]


@dataclass(slots=True)
class _Kept:
    text: bytes
    sequence: int = -1  # on this connection; -1: not sent


class Values(EndsWithBlock):
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
        hello = self_described({"type": "hello", "name": name} | ({"token": token} if token else {}))
        self._link = Link(address, "collector", hello, stall_s=_STALL_S, on_reply=self._handle)
        self.series = series
        self.client = f"{name[:64]} {uuid.uuid4().hex}"
        self.acknowledged = self.refused_count = 0  # batches
        self.refused: list[str] = []  # why, of the first thousand
        self._gather_s, self._rows_max, self._buffer_bytes = gather_s, rows_max, buffer_bytes
        self._reconnect_timeout = reconnect_timeout
        self._groups: dict[Any, tuple[list[int], list[list[Any]]]] = {}
        self._rows, self._since = 0, 0.0
        self._units: dict[str, str] = {}
        self._reported: dict[str, str] = {}  # of these, in a batch of this connection
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = self._batch = 0
        self._not_before = 0.0
        self._storage = ""
        self._connect(connect_timeout)

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
        by, given = _by(time.time_ns() if time_ns is None and frame is None else time_ns, frame)
        index = _index_of(by, given)
        plain = {name: _plain(name, value) for name, value in row.items()}
        if not plain:
            raise FrameError("no values to send")
        # From here on nothing may be refused: what is gathered belongs to later calls too.
        key = (by, self.series, tuple((name, _kind(value)) for name, value in plain.items()))
        rows, columns = self._groups.setdefault(key, ([], [[] for _ in plain]))
        rows.append(index)
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
        by, given = _by(time_ns, frame)
        rows = _indices_of(by, given)
        arrays = {name: _column(name, column) for name, column in columns.items()}
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != len(rows):
                raise FrameError(f"{name!r} has the shape {array.shape}, but there are {len(rows)} rows")
        if not arrays or not len(rows):
            raise FrameError("no values to send")
        self._gathered()
        for part, bundle in _pieces(len(rows), arrays):
            self._keep([_group(by, self.series, rows[part], bundle)])
            self._make_room()
            self._push()

    def set_units(self, units: Mapping[str, str]) -> None:
        """Of channels, by name: `{"omega": "deg"}`. They go with the next values of each."""
        for name, text in units.items():
            _check_name(name)
            _check_units(name, text)
        self._units |= units

    def flush(self, timeout: float | None = None) -> None:
        """Sends everything and waits until all of it is in the journal (or refused: see `refused`)."""
        self._gathered()
        self._wait(lambda: not self._kept, timeout)

    def close(self, timeout: float | None = 60.0) -> None:
        """flush(), and ends the connection. Raises ClientError if batches were rejected."""
        try:
            self.flush(timeout)
            self._link.close()
        finally:
            self.abandon()
        if self.refused_count:
            raise ClientError(
                f"{self._link.where}: {_batches(self.refused_count, 'was', 'were')} rejected, the first:"
                f" {self.refused[0]}"
            )

    def abandon(self) -> None:
        """Cuts the connection. What was not sent, or not acknowledged, may be lost."""
        self._link.drop()

    # Batches.

    def _gathered(self) -> None:
        """What was gathered becomes batches."""
        groups: list[dict[str, Any]] = []
        size = 0
        gathered, self._groups, self._rows = self._groups, {}, 0
        for (by, series, names), (rows, columns) in gathered.items():
            index = np.array(rows, np.int64)
            arrays = {name: _array(name, column) for (name, _), column in zip(names, columns, strict=True)}
            for part, bundle in _pieces(len(rows), arrays):
                groups.append(_group(by, series, index[part], bundle))
                size += index[part].nbytes + sum(a.nbytes + _name_bytes(n) for n, a in bundle.items())
                if size >= _BATCH_BYTES:
                    self._keep(groups)
                    groups, size = [], 0
        if groups:
            self._keep(groups)
        self._make_room()

    def _keep(self, groups: list[dict[str, Any]]) -> None:
        fields = {"type": "values", "client": self.client, "batch": self._batch, "groups": groups}
        names = (
            {name for group in groups for name in group["columns"]}
            if self._reported != self._units
            else set()
        )
        units = {name: self._units[name] for name in sorted(names & self._units.keys())}
        units = {name: text for name, text in units.items() if self._reported.get(name) != text}
        text = self_described(fields | ({"units": units} if units else {}))
        self._reported |= units
        self._batch += 1
        self._kept.append(_Kept(text))
        self._kept_bytes += len(text)

    def _make_room(self) -> None:
        """One batch may always be kept."""
        if len(self._kept) > 1 and self._kept_bytes > self._buffer_bytes:
            self._wait(lambda: len(self._kept) <= 1 or self._kept_bytes <= self._buffer_bytes, None)

    # The connection.

    def _connect(self, patience_s: float) -> None:
        self._link.connect(patience_s, reset=self._rewind, left=self._left)

    def _left(self) -> str:
        return f"{_batches(len(self._kept), 'is', 'are')} not acknowledged" if self._kept else ""

    def _rewind(self) -> None:
        for kept in self._kept:
            kept.sequence = -1
        self._reported = {}  # it may be another collector, with a journal of its own

    def _push(self) -> None:
        """Sends what is not sent, and handles what came."""
        try:
            connection = self._link.live()
            if time.monotonic() >= self._not_before:
                for kept in list(self._kept):
                    if kept.sequence < 0:
                        kept.sequence = connection.sequence
                        connection.send_message(Kind.VALUES, kept.text)
            connection.receive()
        except LostError:
            self._link.drop()
            self._connect(self._reconnect_timeout)
        except BaseException:
            # A message may be cut short; the next call begins with a new connection.
            self._link.drop()
            raise

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            late = give_up is not None and time.monotonic() > give_up
            self._push()
            if done():
                return
            if late:
                raise ClientTimeoutError(
                    f"{self._link.where}: {self._left()} after {timeout:g} s"
                    + (f": {self._storage}" if self._storage else "")
                )
            try:
                self._link.live().wait(WAIT_S)
            except LostError:
                self._link.drop()

    def _handle(self, reply: Reply) -> None:
        if reply.kind is Kind.ACK:
            self.acknowledged += self._take_out(reply.sequence)
            self._storage = ""
        elif reply.kind is Kind.ERROR:
            self._handle_error(reply)

    def _handle_error(self, reply: Reply) -> None:
        if reply.code == "storage":  # it may have room later
            self._storage = reply.text
            self._not_before = time.monotonic() + _STORAGE_PAUSE_S
            for kept in self._kept:
                if kept.sequence == reply.sequence:
                    kept.sequence = -1
            return
        self.refused_count += self._take_out(reply.sequence)
        if len(self.refused) < _REFUSALS_KEPT:
            self.refused.append(reply.why)

    def _take_out(self, sequence: int) -> int:
        for place, kept in enumerate(self._kept):
            if kept.sequence == sequence:
                self._kept_bytes -= len(kept.text)
                del self._kept[place]
                return 1
        return 0


def _by(time_ns: Any, frame: Any) -> tuple[str, Any]:
    if (time_ns is None) == (frame is None):
        raise FrameError("give either frame or time_ns")
    return ("time", time_ns) if frame is None else ("frame", frame)


def _index_of(by: str, given: Any) -> int:
    try:
        index = int(given) if isinstance(given, float) else operator.index(given)
    except (TypeError, ValueError, OverflowError) as problem:
        raise FrameError(f"{by} is {given!r:.80}, which is not a number from 0 to 2^63-1") from problem
    if not 0 <= index < _INDEX_END:
        raise FrameError(f"{by} is {index}; 0 to 2^63-1 is possible")
    return index


def _indices_of(by: str, given: Any) -> npt.NDArray[np.int64]:
    rows = np.atleast_1d(np.asarray(given))
    if rows.ndim != 1 or rows.dtype.kind not in "iuf":
        raise FrameError(
            f"{by} has the type {rows.dtype} and the shape {rows.shape}; a row of integers is expected"
        )
    if len(rows):
        # Not a number is neither.
        fitting = (rows >= 0) & (rows < float(_INDEX_END))
        if not fitting.all():
            raise FrameError(f"{by} has {rows[~fitting][0]}; 0 to 2^63-1 is possible")
    return rows.astype(np.int64)


@lru_cache(1 << 17)
def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise FrameError(f"{name!r:.80} is not a channel name; expected text")
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX:
        raise FrameError(f"the channel's name {name!r:.80} has more than {NAME_BYTES_MAX} bytes")
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 or 0xD800 <= ord(letter) < 0xE000 for letter in name):
        raise FrameError(f"the channel's name {name!r:.80} has characters that are not allowed in a name")


def _check_units(name: str, text: Any) -> None:
    printable = isinstance(text, str) and text.isprintable()
    if not printable or not 1 <= len(text.encode()) <= UNITS_BYTES_MAX:
        raise FrameError(
            f"the units of {name!r:.80} are {text!r:.80}; a text of 1 to {UNITS_BYTES_MAX} bytes is possible"
        )


def _check_texts(name: str, texts: Any) -> None:
    for text in texts:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as problem:
            raise FrameError(f"{name!r} has text that is not Unicode") from problem
        if "\0" in text:
            raise FrameError(f"{name!r} has a text with a zero character")
        if size > VALUE_BYTES_MAX:
            raise FrameError(f"{name!r} has a text of {size} bytes; at most {VALUE_BYTES_MAX} are possible")


def _check_numbers(name: str, array: npt.NDArray[Any], rows: int) -> None:
    if array.dtype.name not in (*TYPED_ARRAY, "bool"):
        raise FrameError(f"{name!r} is of {array.dtype}; numbers, texts and arrays of numbers are possible")
    size = array.nbytes // max(1, rows)
    if rows and not 0 < size <= VALUE_BYTES_MAX:
        raise FrameError(f"{name!r} has {size} bytes a value; 1 to {VALUE_BYTES_MAX} are possible")


def _plain(name: Any, value: Any) -> Any:
    """Text, or an array; 0-dimensional for a single number."""
    _check_name(name)
    if isinstance(value, str):
        _check_texts(name, [value])
        return value
    array = _array(name, value)
    if array.dtype.kind not in "biuf":
        raise FrameError(
            f"{name!r} is a {type(value).__name__}; numbers, texts and arrays of numbers are possible"
        )
    _check_numbers(name, array, 1)
    return np.array(array)  # of its own: the caller may change his


def _kind(value: Any) -> Any:
    return "text" if isinstance(value, str) else (value.dtype.str, value.shape)


def _column(name: Any, column: Any) -> npt.NDArray[Any]:
    """Of the caller: checked."""
    _check_name(name)
    array = _array(name, column)
    if array.dtype.kind == "O":
        raise FrameError(f"{name!r} has values of different types or shapes")
    if array.dtype.kind == "U" and array.ndim == 1:
        _check_texts(name, array.tolist())
    else:
        _check_numbers(name, array, len(array) if array.ndim else 1)
    return array


def _array(name: str, column: Any) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.asarray(column)
    except ValueError as problem:
        raise FrameError(f"{name!r} has values of different types or shapes") from problem
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _name_bytes(name: str) -> int:
    """With what CBOR puts around it and its column."""
    return len(name.encode()) + 32


def _pieces(
    rows: int, arrays: Mapping[str, npt.NDArray[Any]]
) -> Iterator[tuple[slice, dict[str, npt.NDArray[Any]]]]:
    """Rows and columns that one message has room for, whatever their number."""
    for bundle in _bundles(rows, arrays):
        step = max(1, _BATCH_BYTES // (8 + sum(_row_bytes(rows, array) for array in bundle.values())))
        for first in range(0, rows, step):
            part = slice(first, first + step)
            yield part, {name: array[part] for name, array in bundle.items()}


def _bundles(rows: int, arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Columns of which one row at least has room."""
    bundle: dict[str, npt.NDArray[Any]] = {}
    size = 0
    for name, array in arrays.items():
        more = _name_bytes(name) + _row_bytes(rows, array)
        if bundle and size + more > _BATCH_BYTES:
            yield bundle
            bundle, size = {}, 0
        bundle[name] = array
        size += more
    yield bundle


def _row_bytes(rows: int, array: npt.NDArray[Any]) -> int:
    return 4 + array.nbytes // rows


def _group(by: str, series: str | None, index: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    encoded = {
        name: array.tolist() if array.dtype.kind in "US" else typed(np.ascontiguousarray(array))
        for name, array in columns.items()
    }
    return {by: typed(index), "columns": encoded} | ({"series": series} if series is not None else {})


def _batches(count: int, verb: str, verb_of_several: str) -> str:
    return f"1 batch {verb}" if count == 1 else f"{count} batches {verb_of_several}"
