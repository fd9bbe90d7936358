"""Values of journals beside the frames of a series: a new file of columns, with links to the recorded one."""

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from penstock.files.aside import aside
from penstock.files.hdf5 import (
    attribute_of,
    children_of_class,
    item_at,
    lies_elsewhere,
    open_for_reading,
    value_of,
)
from penstock.files.inspect import end_time_place, main_dataset
from penstock.files.members import completion_of, refuse_part
from penstock.files.naming import give_name
from penstock.files.unfinished import unfinished
from penstock.files.values.join import UNKNOWN, By, Ints, by_number, by_time, linear
from penstock.files.values.journal import JournalState
from penstock.files.values.many_objects import add_dataset, add_group
from penstock.files.values.spool import Channel, Spool
from penstock.files.writable import require_writable
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of
from penstock.model.text import counted, one_short_line
from penstock.model.values import INVALID, SEVERITY

TIMING = "/entry/penstock/timing"
_DATES = (f"{TIMING}/series_date", "/entry/start_time", "/entry/penstock/series/start_time")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.]{0,61}[A-Za-z0-9_])?", re.ASCII)
_STALE_S = 3600.0
_AGES = (("year", 365.25 * 86400), ("day", 86400.0), ("hour", 3600.0))
_COPY_AGAIN = "if it is a copy, copy it again from its source"
_OWN_NAMES = ("values", "per_frame", "recorded", "frames")


class How(BaseModel):
    """How values find their frames."""

    by: By = "previous"
    time: Literal["exposure", "received"] | None = None  # None: exposure if it was sent
    offset_s: float = Field(0.0, ge=-1e9, le=1e9, allow_inf_nan=False)  # added to the values' times
    max_age_s: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)


class Attached(BaseModel):
    """One channel."""

    name: str
    dataset: str
    by_frame: int  # values
    by_time: int
    frames: int = 0  # that have a value
    outside: int = 0  # values of frames that are not in the series
    invalid: int = 0  # values with the alarm INVALID
    unfitting: int = 0  # values that are left out: of another kind or shape than the first one
    first_unfitting: str = ""  # which one, and why
    stale_s: float | None = None  # by how much the first frame's value is older than it, if by over an hour


class Attachment(BaseModel):
    """What was joined, or would be."""

    output: str
    frames: int
    time: str  # what the frames' times are
    channels: list[Attached] = []
    notes: list[str] = []


@dataclass
class Recorded:
    """Requirements of a series."""

    path: Path
    name: str | None
    frames: int
    times: Ints
    time: str
    data: dict[str, str] = field(default_factory=dict)  # groups NXdata by the name of a link to them


def attach(
    series: Path,
    journals: list[Path],
    output: Path | None,
    how: How,
    *,
    dry_run: bool,
    overwrite: bool = False,
) -> Attachment:
    """Writes `output`, beside the series where it is None; with `overwrite` in the place of its own alone."""
    target = output or series.with_name(f"{series.stem}.values.h5")
    _require_free(target, overwrite)
    if target.parent.is_dir():
        require_writable(target.parent)
    recorded = recorded_series(series, how)
    attachment = Attachment(output=str(target), frames=recorded.frames, time=recorded.time)
    try:
        with Spool(target.parent) as spool:
            states = spool.fill(dict.fromkeys(path.resolve() for path in journals), recorded.name)
            if states and not spool.channels:
                raise _without_values(states, spool, series)
            attachment.notes = _notes(states, spool, recorded)
            if dry_run:
                _write_channels(None, spool, recorded, how, attachment)
            else:
                _write(target, spool, recorded, how, attachment, overwrite)
    except OSError as error:
        raise PenstockError(
            f"{target} cannot be written: {reason_of(error)}",
            "check the free space and the permissions of the folder",
        ) from error
    return attachment


def _require_free(target: Path, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise UsageError(
            f"{target} exists already and is not overwritten",
            "give --overwrite to replace a file of `penstock attach`, or --output another name",
        )
    try:
        is_own = _is_attached(target)
    except PenstockError:
        is_own = False
    if not is_own:
        raise UsageError(
            f"{target} is not a file of `penstock attach`, and is not replaced",
            "give --output another name, or move the file away",
        )


def is_attached(file: h5py.File) -> bool:
    """Whether `attach` made the file."""
    group = item_at(file, "/entry/per_frame")
    return group is not None and attribute_of(group, "frame_time") is not None


@aside
def _is_attached(path: Path) -> bool:
    with open_for_reading(path) as file:
        return is_attached(file)


@aside
def recorded_series(path: Path, how: How) -> Recorded:
    """A UsageError where the series is not complete, or has no frames of Penstock."""
    with open_for_reading(path) as file:
        refuse_part(file, path)
        states = item_at(file, "/entry/penstock/frame_state")
        if not isinstance(states, h5py.Dataset):
            raise UsageError(
                f"{path} is not a series of Penstock: /entry/penstock/frame_state is missing", "name one"
            )
        if value_of(file, end_time_place(file)) is None:
            raise UsageError(
                f"{path} is not complete: its series has not ended",
                completion_of(file, path),
            )
        name = value_of(file, "/entry/penstock/series_unique_id")
        times, what = _frame_times(file, path, int(states.shape[0]), how)
        return Recorded(
            path, name if isinstance(name, str) else None, int(states.shape[0]), times, what, _plots(file)
        )


def _plots(file: h5py.File) -> dict[str, str]:
    """The groups NXdata of its entry; where a layout has put the frames elsewhere, those are found too."""
    groups = children_of_class(file["/entry"], "NXdata")
    found = {name: f"/entry/{name}" for name, _ in groups if name not in _OWN_NAMES}
    main = None if found else main_dataset(file)
    if main is None:
        return found
    return {"data": main.parent.name} if main.parent.name != "/" else {"frames": main.name}


def _frame_times(file: h5py.File, path: Path, frames: int, how: How) -> tuple[Ints, str]:
    """ns since 1970 of each frame, UNKNOWN where it has none, and what they are."""
    exposure = _column(file, "exposure_start", frames)
    date = next(filter(None, (_reported(file, place) for place in _DATES)), None)
    origin = _nanoseconds(date) if isinstance(date, str) else None
    reported = bool((exposure >= 0).any())
    if how.time == "exposure" and not (reported and origin is not None):
        raise UsageError(f"{path} has no start times of exposures", "use --time received")
    if how.time != "received" and reported and origin is not None:
        return np.where(exposure >= 0, exposure + origin, UNKNOWN), "start of the exposure"
    return _column(file, "received", frames), "reception" + (
        "" if how.time else " (the sender did not send start times of exposures)"
    )


def _reported(file: h5py.File, place: str) -> Any:
    """A date, but for one that the recorder has put there in the place of the sender's."""
    date = item_at(file, place)
    if date is None or attribute_of(date, "clock") == "recorder":
        return None
    return value_of(file, place)


def _column(file: h5py.File, name: str, frames: int) -> Ints:
    found = np.full(frames, UNKNOWN, np.int64)
    dataset = item_at(file, f"{TIMING}/{name}")
    if isinstance(dataset, h5py.Dataset) and not lies_elsewhere(dataset) and dataset.ndim == 1:
        rows = min(frames, dataset.shape[0])
        found[:rows] = dataset[:rows]
    return found


def _nanoseconds(date: str) -> int | None:
    """Of ISO 8601, with up to nine digits of a second; without a zone it is UTC."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)?", date)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1] + (match[3] or "Z")).timestamp()
    except ValueError:
        return None
    return int(whole) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


def _end_of(state: JournalState) -> str:
    """Returns what a journal lacks at its end; "" if it ends with a batch."""
    if state.torn_bytes:
        return (
            f"{state.path} is incomplete after {counted(state.batches, 'batch', 'batches')} (the last"
            f" {state.torn_bytes} bytes): it is cut off, or its writer was killed"
        )
    return "" if state.batches else f"{state.path} has no values"


def _without_values(states: list[JournalState], spool: Spool, series: Path) -> PenstockError:
    """Returns the error if no journal has a value for the series."""
    if spool.other_series:
        return PenstockError(
            f"the journals have no value for {series}:"
            f" {counted(spool.other_series, 'value belongs', 'values belong')} to other series",
            "name the journals that were written during this series",
        )
    why = next(filter(None, map(_end_of, states)), f"{states[0].path} has no complete batch")
    return PenstockError(
        f"there are no values to attach: {why}", f"{_COPY_AGAIN}, or name journals with values"
    )


def _notes(states: list[JournalState], spool: Spool, recorded: Recorded) -> list[str]:
    notes = []
    for state in states:
        if state.damaged:
            notes.append(f"{state.path}: {state.damaged} records are corrupt and were skipped")
        if problem := _end_of(state):
            notes.append(f"warning: {problem}; {_COPY_AGAIN}")
    if spool.repeated:
        notes.append(f"{counted(spool.repeated, 'batch', 'batches')} arrived twice and count once")
    if spool.other_series:
        notes.append(f"{counted(spool.other_series, 'value belongs', 'values belong')} to other series")
    if recorded.frames and (unknown := int((recorded.times == UNKNOWN).sum())):
        notes.append(f"{counted(unknown, 'frame has', 'frames have')} no time")
    return notes


def _write(
    target: Path, spool: Spool, recorded: Recorded, how: How, attachment: Attachment, overwrite: bool
) -> None:
    with unfinished([target]) as names:
        new = names[target]
        _write_file(new, target.parent, spool, recorded, how, attachment)
        if overwrite:
            new.replace(target)
            return
        try:
            give_name(new, target)
        except FileExistsError as error:
            raise UsageError(
                f"{target} exists already: another command has just written it",
                "give --overwrite to replace it, or --output another name",
            ) from error


def _write_file(
    path: Path, folder: Path, spool: Spool, recorded: Recorded, how: How, attachment: Attachment
) -> None:
    with h5py.File(path, "x", libver=("v110", "v110")) as file:
        file.attrs["NX_class"], file.attrs["default"] = "NXroot", "entry"
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        link = os.path.relpath(recorded.path.resolve(), folder.resolve())
        for name, target in recorded.data.items():
            entry[name] = h5py.ExternalLink(link, target)
        plots = [name for name in recorded.data if name != "frames"]
        if plots:
            entry.attrs["default"] = "data" if "data" in plots else plots[0]
        entry["recorded"] = h5py.ExternalLink(link, "/entry")
        _write_channels(entry, spool, recorded, how, attachment)
    with path.open("rb") as complete:
        os.fsync(complete.fileno())


def _write_channels(
    entry: h5py.Group | None, spool: Spool, recorded: Recorded, how: How, attachment: Attachment
) -> None:
    """Without an entry nothing is written, but everything is reckoned."""
    raw = per_frame = None
    if entry is not None:
        raw, per_frame = entry.create_group("values"), entry.create_group("per_frame")
        raw.attrs["NX_class"] = per_frame.attrs["NX_class"] = "NXcollection"
        per_frame.attrs["by"], per_frame.attrs["frame_time"] = how.by, recorded.time
    for (name, channel), dataset in zip(
        spool.channels.items(), safe_names(list(spool.channels)), strict=True
    ):
        reported = Attached(
            name=name, dataset=dataset, by_frame=channel.rows["frame"], by_time=channel.rows["time"],
            unfitting=channel.unfitting, first_unfitting=channel.first_unfitting,
        )  # fmt: skip
        attachment.channels.append(reported)
        rows = _Rows.of(spool, name, how)
        reported.invalid = int(rows.invalid.sum())
        _write_channel(raw, per_frame, rows, recorded, how, reported)


@dataclass
class _Rows:
    """All of a channel's values; those by time sorted by it."""

    numbers: Ints
    by_number: npt.NDArray[Any]
    times: Ints
    by_time: npt.NDArray[Any]
    invalid: npt.NDArray[np.bool_]  # of those by time: the source has no faith in them
    units: dict[str, str]  # as attributes

    @classmethod
    def of(cls, spool: Spool, name: str, how: How) -> "_Rows":
        channel = spool.channels[name]
        numbers, values = spool.read(channel, "frame")
        times, timed = spool.read(channel, "time")
        if not len(numbers):
            values = timed[:0]
        if not len(times):
            timed = values[:0]
        times = times + round(how.offset_s * 1e9)
        if len(times) and (np.diff(times) < 0).any():
            order = np.argsort(times, kind="stable")
            times, timed = times[order], timed[order]
        invalid = _invalid(times, spool.channels.get(name + SEVERITY), spool, how)
        units = {"units": spool.units[name]} if name in spool.units else {}
        return cls(numbers, values, times, timed, invalid, units)


def _invalid(times: Ints, severities: Channel | None, spool: Spool, how: How) -> npt.NDArray[np.bool_]:
    """Which values by time have the alarm INVALID, by the severities that came as a channel of their own."""
    none = np.zeros(len(times), bool)
    if severities is None or not severities.rows["time"]:
        return none
    since, found = spool.read(severities, "time")
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        return none
    order = np.argsort(since, kind="stable")
    choice = by_time(times, since[order] + round(how.offset_s * 1e9), "previous", None)
    return (choice >= 0) & (found[order][np.maximum(choice, 0)] >= INVALID)


def _write_channel(
    raw: h5py.Group | None,
    per_frame: h5py.Group | None,
    rows: _Rows,
    recorded: Recorded,
    how: How,
    reported: Attached,
) -> None:
    column, valid = joined(rows, recorded, how)
    reported.stale_s = _stale_s(rows, recorded, how)
    reported.frames = int(valid.sum())
    reported.outside = int((rows.numbers >= recorded.frames).sum())
    if raw is None or per_frame is None:
        return
    log = add_group(raw.id, reported.dataset, NX_class="NXlog", channel=reported.name)
    if len(rows.times):
        add_dataset(log, "time", rows.times, units="ns", start="1970-01-01T00:00:00Z")
        add_dataset(log, "value", rows.by_time, **rows.units)
    if len(rows.numbers):
        add_dataset(log, "frame_number", rows.numbers)
        add_dataset(log, "frame_value", rows.by_number, **rows.units)
    add_dataset(
        per_frame.id,
        reported.dataset,
        column,
        channel=reported.name,
        frames_without_value=len(valid) - reported.frames,
        values_outside=reported.outside,
        **rows.units,
        **({"values_invalid": reported.invalid} if reported.invalid else {}),
        **({"values_unfitting": reported.unfitting} if reported.unfitting else {}),
    )
    if reported.frames < len(valid):
        add_dataset(per_frame.id, f"{reported.dataset}_valid", valid.astype(np.uint8))


def _stale_s(rows: _Rows, recorded: Recorded, how: How) -> float | None:
    """Returns the age of the first frame's value by time, unless it is below an hour or an age was chosen."""
    known = np.flatnonzero(recorded.times != UNKNOWN)
    if how.max_age_s is not None or not len(known) or not len(rows.times):
        return None
    first = known[np.argmin(recorded.times[known])]
    if (rows.numbers == first).any():
        return None
    time = recorded.times[first : first + 1]
    (choice,) = by_time(time, rows.times, "nearest" if how.by == "nearest" else "previous", None)
    age_s = float(time[0] - rows.times[choice]) * 1e-9
    return age_s if choice >= 0 and age_s > _STALE_S else None


def joined(rows: _Rows, recorded: Recorded, how: How) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """A value for each frame, and which frames have one. A value by number goes before one by time."""
    max_age_ns = None if how.max_age_s is None else round(how.max_age_s * 1e9)
    numbered = by_number(recorded.frames, rows.numbers)
    if how.by == "linear" and rows.by_time.dtype.kind != "S" and len(rows.times):
        column, valid = linear(recorded.times, rows.times, rows.by_time, max_age_ns)
        if rows.invalid.any():
            valid &= ~(linear(recorded.times, rows.times, rows.invalid, None)[0] > 0)
            column[~valid] = np.nan
    else:
        chosen = by_time(recorded.times, rows.times, "previous" if how.by == "linear" else how.by, max_age_ns)
        if rows.invalid.any():
            chosen[rows.invalid[np.maximum(chosen, 0)]] = -1
        column, valid = _taken(rows.by_time, chosen)
    have = numbered >= 0
    if have.any():
        kind = np.result_type(column.dtype, rows.by_number.dtype)
        column = column.astype(kind, copy=False)
        column[have] = rows.by_number[numbered[have]]
        valid = valid | have
    return column, valid


def _taken(values: npt.NDArray[Any], choice: Ints) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    valid = choice >= 0
    if valid.all() and len(values):
        return values[choice], valid
    column = np.zeros((len(choice), *values.shape[1:]), values.dtype)
    if column.dtype.kind == "f":
        column[...] = np.nan
    column[valid] = values[choice[valid]]
    return column, valid


def safe_names(names: list[str]) -> list[str]:
    """Names as NeXus has them, each another one, also with _valid behind."""
    taken: set[str] = set()
    found = []
    for name in names:
        stem = name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_]", "_", name)[:63]
        safe, number = stem, 1
        while safe in taken or f"{safe}_valid" in taken or safe.removesuffix("_valid") in taken - {safe}:
            number += 1
            safe = f"{stem[:56]}_{number}"
        taken.add(safe)
        found.append(safe)
    return found


def summary(attachment: Attachment) -> list[str]:
    """A line each, for people."""
    lines = [f"{counted(attachment.frames, 'frame')}, times: {attachment.time}", *attachment.notes]
    for channel in attachment.channels:
        came = f"{counted(channel.by_frame, 'value')} by frame, {channel.by_time} by time"
        outside = f", {channel.outside} of frames that do not exist" if channel.outside else ""
        alarms = counted(channel.invalid, "value has", "values have")
        invalid = f"; {alarms} the alarm INVALID" if channel.invalid else ""
        lines.append(
            f"{one_short_line(channel.name)}: {came}{outside};"
            f" {counted(channel.frames, 'frame has', 'frames have')} one{invalid}"
        )
        if channel.stale_s is not None:
            lines.append(
                f"  warning: the value of the first frame is {_age_text(channel.stale_s)} older than the"
                " frame; --max-age ignores old values"
            )
        if channel.unfitting:
            lines.append(f"  {unfitting_words(channel)}")
    return lines


def _age_text(age_s: float) -> str:
    """Returns "3 hours", "2 days" or "56 years"; rounded down."""
    name, length = next(each for each in _AGES if age_s >= each[1])
    return counted(int(age_s / length), name)


def unfitting_words(channel: Attached) -> str:
    """What is left out of a channel."""
    count = counted(channel.unfitting, "value is", "values are")
    return f"{count} left out for another type than the first: {one_short_line(channel.first_unfitting)}"
