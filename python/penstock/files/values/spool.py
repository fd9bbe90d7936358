"""The columns of journals, apart by channel, in a file without a name: a channel at a time is in memory."""

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.files.values.journal import JournalState, read_journal
from penstock.model.values import Batch, Group

Ints = npt.NDArray[np.int64]


_SHOWN_MAX = 60  # letters of a value


class Form(NamedTuple):
    """What all values of a channel have in common."""

    kind: str  # "text" or "number"
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> "Form":
        return cls("text" if values.dtype.kind == "S" else "number", values.shape[1:])

    def __str__(self) -> str:
        return f"an array of {self.kind}s of the shape {list(self.shape)}" if self.shape else f"a {self.kind}"


class Piece(NamedTuple):
    """An array in the spool."""

    at: int
    kind: str
    shape: tuple[int, ...]


@dataclass
class Channel:
    """What came of one name: pieces of index and values, by frame and by time, in the journals' order.

    The first value says what form they have; what has another one is counted, and left out.
    """

    form: Form
    client: str  # who sent the first value
    pieces: dict[str, list[tuple[Piece, Piece]]] = field(default_factory=lambda: {"frame": [], "time": []})
    rows: dict[str, int] = field(default_factory=lambda: {"frame": 0, "time": 0})
    unfitting: int = 0
    first_unfitting: str = ""  # in words

    def leave_out(self, client: str, by: str, index: int, values: npt.NDArray[Any]) -> None:
        """`index` is the frame's number or the time of the first of them."""
        if not self.unfitting:
            place = f"of frame {index}" if by == "frame" else f"at {index} ns"
            self.first_unfitting = (
                f"row {sum(self.rows.values())}, {place}, is {_shown(values[0])}, {Form.of(values)}"
                f" from {client}; the first one is {self.form} from {self.client}"
            )
        self.unfitting += len(values)


class Spool:
    """Filled from journals once, then read channel by channel."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._at = 0
        self.channels: dict[str, Channel] = {}
        self.repeated = self.other_series = 0
        self.units: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fill(self, journals: Iterable[Path], series: str | None) -> list[JournalState]:
        """Batches that were sent again count once; values of another series than `series` are left out."""
        states = []
        for path in journals:
            state = JournalState(path)
            states.append(state)
            for batch in read_journal(state):
                seen = self._seen.setdefault(batch.client, set())
                if batch.number in seen:
                    self.repeated += 1
                    continue
                seen.add(batch.number)
                self._add(batch, series)
                self.units |= batch.units
        self._file.flush()
        return states

    def _add(self, batch: Batch, series: str | None) -> None:
        for group in batch.groups:
            if group.series is not None and group.series != series:
                self.other_series += len(group.index) * len(group.columns)
                continue
            index = self._put(group.index)
            for name, values in group.columns.items():
                self._add_column(batch.client, group, index, name, values)

    def _add_column(
        self, client: str, group: Group, index: Piece, name: str, values: npt.NDArray[Any]
    ) -> None:
        form = Form.of(values)
        channel = self.channels.setdefault(name, Channel(form, client))
        if form != channel.form:
            channel.leave_out(client, group.by, int(group.index[0]), values)
            return
        channel.rows[group.by] += len(values)
        channel.pieces[group.by].append((index, self._put(values)))

    def _put(self, array: npt.NDArray[Any]) -> Piece:
        at = self._at
        self._file.write(np.ascontiguousarray(array).data)
        self._at += array.nbytes
        return Piece(at, array.dtype.str, array.shape)

    def read(self, channel: Channel, by: str) -> tuple[Ints, npt.NDArray[Any]]:
        """Index and values of all its rows; of integers beside floats, floats."""
        pieces = channel.pieces[by]
        if not pieces:
            return np.empty(0, np.int64), np.empty(0)
        index = np.concatenate([self._get(piece) for piece, _ in pieces])
        return index, np.concatenate([self._get(piece) for _, piece in pieces])

    def _get(self, piece: Piece) -> npt.NDArray[Any]:
        kind = np.dtype(piece.kind)
        size = kind.itemsize * int(np.prod(piece.shape))
        return np.frombuffer(os.pread(self._file.fileno(), size, piece.at), kind).reshape(piece.shape)


def _shown(value: Any) -> str:
    """Of any length, in short."""
    text = repr(value.decode()) if isinstance(value, bytes) else " ".join(str(value).split())
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
