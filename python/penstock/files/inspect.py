"""What is in an HDF5 file, in a screenful."""

import math
from pathlib import Path
from typing import Any

import h5py
import numpy
from pydantic import BaseModel, Field

from penstock.files.aside import aside
from penstock.files.hdf5 import (
    attribute_of,
    filters_of,
    item_at,
    names_of,
    open_for_reading,
    raw_bytes_stored,
    stored_frames,
    value_of,
)
from penstock.files.links import JOINED, leads_of, made_by, missing_behind
from penstock.files.members import (
    Members,
    Rows,
    add_storage,
    can_resume,
    is_member,
    members_of,
    series_file_of,
    shown_from,
)
from penstock.files.missing import REASONS, RECEIVED, STATES_MAX
from penstock.files.seal import seal_is_damaged
from penstock.files.timing import LEDGER, Percentiles, frames_without_row, stage_percentiles
from penstock.files.tree import items_of, tree_of, whole_tree
from penstock.model.events import CheckReport
from penstock.model.findings import MEMBER_IS_GONE
from penstock.model.layout.own_tree import ALL_FRAMES
from penstock.model.text import counted

PLACES = "/entry/penstock/place"
LEDGER_COUNTS = (
    "received",
    "missing",
    "partial",
    "filled",
    "late",
    "duplicate",
    "damaged",
    "dropped",
    "lost",
)
_LINKED_FILES_MAX = 5
_DETECTOR_FIELDS = (
    "sensor_material",
    "sensor_thickness",
    "x_pixel_size",
    "y_pixel_size",
    "count_time",
    "frame_time",
    "serial_number",
)
_UNFINISHED_SERIES = "end_time: missing; the series is not complete"
_UNFINISHED_LEDGER = "frame counts: the recorder writes them when a series ends"
_NO_TIMES = "timing: no frame has times of compression and writing"
_SEAL_IS_DAMAGED = (
    "seal: cut off or corrupt, so that changes outside the frames may stay unnoticed; copy the file again"
    " from its source, or run `penstock check`"
)
_COMES_LATER = (_UNFINISHED_SERIES, _UNFINISHED_LEDGER, _NO_TIMES)


class FrameData(BaseModel):
    """The dataset that holds the frames.

    The bytes are those stored for all channels: a missing frame has none.
    """

    path: str
    shape: list[int]
    dtype: str
    chunks: list[int] | None
    filters: list[str]
    raw_bytes: int
    stored_bytes: int
    channels: list[str] = []  # of a series with several
    linked_files: list[str] = []  # of a virtual dataset: the first files that have its frames

    @property
    def frame_bytes(self) -> int:
        """Uncompressed, with all channels."""
        one = math.prod(self.shape[-2:]) * numpy.dtype(self.dtype).itemsize
        return one * max(1, len(self.channels))

    @property
    def ratio(self) -> float | None:
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None


class FileInfo(BaseModel):
    """The contents of `penstock info`."""

    file: str
    bytes: int
    definition: str | None = None
    export_of: str | None = None  # the recorded file
    part_of: str | None = None  # the file that presents the complete series of this source file
    layout: str | None = None  # that it was recorded with, where that is not the default one
    detector: str | None = None
    detector_fields: dict[str, str] = {}
    start_time: str | None = None
    end_time: str | None = None
    ended_by: str | None = None
    wavelength: str | None = None
    series_unique_id: str | None = None
    frames_announced: int | None = None
    data: FrameData | None = None
    members: Members | None = None
    entries: list[str] = []
    ledger: dict[str, int] = {}
    unreachable: int = 0  # frames that were received, in source files that are missing or not readable
    never_came: int | None = None  # of the missing frames: those that came in no form
    reasons: dict[str, int] = {}  # of the other missing frames: how many are damaged, dropped, lost, partial
    unfinished: bool = False  # a recorder has not closed it
    being_recorded: bool = False  # it is unfinished, and a recorder has it open
    can_resume: bool = Field(True, exclude=True)  # a recorder may continue it, as it has a single file
    recoverable: int | None = None  # of an unfinished series: frames that its segments hold
    unfitting: dict[str, int] = {}  # by column: values that differ in the file from those sent
    timing: list[Percentiles] = []
    tree: list[str] = []
    missing: list[str] = []

    @property
    def is_damaged(self) -> bool:
        """Whether source files of a finished series are missing or not readable."""
        files = self.members
        return files is not None and not self.unfinished and bool(files.missing or files.unreadable)


def add_recoverable(info: FileInfo, report: CheckReport | None) -> None:
    """What the segments of an unfinished file hold, from `penstock check`'s count; None: it took too long."""
    if report is None:
        info.missing.append(f"frames: counting took too long; `penstock check {info.file}` counts them")
        return
    info.recoverable, info.being_recorded = report.recoverable, report.being_recorded
    _add_members_gone(info, report)
    if info.being_recorded:
        info.missing = [each for each in info.missing if each not in _COMES_LATER]
    if info.data is None or report.recoverable is None:
        return
    if info.data.stored_bytes < report.bytes:
        info.data.stored_bytes = report.bytes
        info.data.raw_bytes = report.recoverable * info.data.frame_bytes


def _add_members_gone(info: FileInfo, report: CheckReport) -> None:
    """Adds source files that an unfinished series must have, though its first file does not list them yet."""
    if info.members is None:
        return
    for finding in report.findings:
        if finding.what == MEMBER_IS_GONE and finding.places == 1 and finding.where not in info.members.names:
            info.members.names.append(finding.where)
            info.members.missing.append(finding.where)
            info.missing.append(_reads_as_fill(finding.where))


@aside
def series_can_resume(path: Path) -> bool:
    """Whether a recorder can resume the series of this unfinished file. PenstockError: it is unreadable."""
    with open_for_reading(path) as file:
        return can_resume(file)


@aside
def tree_below(path: Path, within: str) -> list[str]:
    """Returns the lines of whole_tree()."""
    with open_for_reading(path) as file:
        return whole_tree(file, within)


@aside
def inspect_file(path: Path, everything: bool = False) -> FileInfo:
    """Reads the file's structure and timing, no pixels. Works on any HDF5 file.

    With `everything` the tree is complete, with attributes and values.
    """
    with open_for_reading(path) as file:
        tree = whole_tree(file) if everything else tree_of(file)
        info = FileInfo(file=str(path), bytes=path.stat().st_size, tree=tree)
        maker = made_by(file)
        if maker is not None:
            info.missing += missing_behind(leads_of(file, path)[0])
        info.entries = joined_entries(file)
        if info.entries:
            return info
        data = main_dataset(file)
        if data is not None:
            info.data = _frame_data(data)
            others = _other_channels(file, data, info.data)
            info.members = members_of(file, path)
            info.can_resume = can_resume(file)
            _describe_members(info, path, [info.data.path, *others])
        else:
            info.missing.append("frames: no NXdata with a signal, and no dataset of three dimensions")
        if maker == "attach":
            info.entries = linked_files(file["/entry"])
            return info
        if is_member(file):
            info.part_of = str(series_file_of(file, path))
        _describe(file, info)
        info.export_of = _text(attribute_of(file, "penstock_source")) if maker == "export" else None
        # The frames of others are accounted for in the recorded file, or in the file of the series.
        if maker is None and info.part_of is None:
            _account(file, info)
            is_recorded = attribute_of(file, "penstock_file_id") is not None
            if is_recorded and not info.unfinished and seal_is_damaged(path):
                info.missing.append(_SEAL_IS_DAMAGED)
        return info


def joined_entries(file: h5py.File) -> list[str]:
    """Of a file that shows several series' files: each entry with its file, which is not looked into."""
    return linked_files(file) if attribute_of(file, JOINED) is not None else []


def linked_files(group: h5py.Group) -> list[str]:
    """The links of a group, each with its file."""
    names = sorted(names_of(group), key=len)
    links = [(name, group.get(name, getlink=True)) for name in names]
    return [f"{name}: {link.filename}" for name, link in links if isinstance(link, h5py.ExternalLink)]


def main_dataset(file: h5py.File) -> h5py.Dataset | None:
    """The dataset with the frames: by the @default chain, by NeXus' usual place, or the largest stack.

    Of several channels the first; where frames chose among datasets, the one with all of them.
    """
    for path in (ALL_FRAMES, _default_signal(file), "/entry/data/data", "/entry/instrument/detector/data"):
        dataset = item_at(file, path) if path else None
        if isinstance(dataset, h5py.Dataset):
            return dataset
    stacks = [
        item
        for _, item in items_of(file)
        if isinstance(item, h5py.Dataset) and item.ndim >= 2 and item.dtype.kind in "uif"
    ]
    channels = value_of(file, "/entry/penstock/channels")
    first = channels[0] if isinstance(channels, list) and channels else None

    def rank(item: h5py.Dataset) -> tuple[bool, int, bool]:
        return item.ndim >= 3, item.size, first is not None and attribute_of(item, "channel") == first

    return max(stacks, key=rank, default=None)


def layout_of(file: h5py.File) -> str | None:
    """The name of the layout that it was recorded with; None of the default one."""
    name = _text(value_of(file, "/entry/penstock/layout/name"))
    return name or None


def end_time_place(file: h5py.File) -> str:
    """Returns the path of the time that marks a complete file."""
    place = _text(value_of(file, "/entry/penstock/layout/end_time"))
    return place if place is not None and place.startswith("/") else "/entry/end_time"


def _default_signal(file: h5py.File) -> str | None:
    group: Any = file
    for _ in range(8):
        signal, default = attribute_of(group, "signal"), attribute_of(group, "default")
        if isinstance(signal, str):
            return f"{group.name.rstrip('/')}/{signal}"
        if not isinstance(default, str):
            return None
        group = item_at(group, default)
        if not isinstance(group, h5py.Group):
            return None
    return None


def _frame_data(dataset: h5py.Dataset) -> FrameData:
    held = stored_frames(dataset)
    return FrameData(
        path=dataset.name,
        shape=list(dataset.shape),
        dtype=dataset.dtype.name,
        chunks=list(held.chunks) if held.chunks else None,
        filters=filters_of(held),
        raw_bytes=raw_bytes_stored(held),
        stored_bytes=0 if held.is_virtual else int(held.id.get_storage_size()),
        linked_files=_linked_files(held),
    )


def _other_channels(file: h5py.File, main: h5py.Dataset, data: FrameData) -> list[str]:
    """Adds the other channels of the series to `data`. Returns the paths of their datasets."""
    channels = value_of(file, "/entry/penstock/channels")
    if not isinstance(channels, list) or len(channels) < 2:
        return []
    data.channels = [str(each) for each in channels]
    mine = attribute_of(main, "channel")
    found = [
        (f"/{'/'.join(parts)}", item)
        for parts, item in items_of(file)
        if isinstance(item, h5py.Dataset)
        and item.shape == main.shape
        and attribute_of(item, "channel") in channels
        and attribute_of(item, "channel") != mine
    ]
    for _, item in found:
        held = stored_frames(item)
        data.raw_bytes += raw_bytes_stored(held)
        data.stored_bytes += 0 if held.is_virtual else int(held.id.get_storage_size())
    return [path for path, _ in found]


def _linked_files(dataset: h5py.Dataset) -> list[str]:
    if not dataset.is_virtual:
        return []
    names = dict.fromkeys(source.file_name for source in dataset.virtual_sources())
    shown = list(names)[:_LINKED_FILES_MAX]
    return shown + ([f"{len(names) - len(shown)} more files"] if len(names) > len(shown) else [])


def _describe_members(info: FileInfo, path: Path, datasets: list[str]) -> None:
    """What is stored where the frames lie in other files."""
    members, data = info.members, info.data
    if members is None or data is None:
        return
    add_storage(members, path, datasets)
    data.chunks, data.filters = members.chunks, members.filters
    data.raw_bytes, data.stored_bytes = members.raw_bytes, members.stored_bytes
    info.missing += [_reads_as_fill(name) for name in members.missing]
    info.missing += [f"frames of a source file: {why}" for why in members.unreadable.values()]


def _reads_as_fill(name: str) -> str:
    return f"{name}: its frames read as the fill value"


def _describe(file: h5py.File, info: FileInfo) -> None:
    entry = item_at(file, "/entry")
    if not isinstance(entry, h5py.Group):
        info.missing.append("/entry: not a NeXus file of the usual structure")
        return
    info.definition = _text(value_of(entry, "definition"))
    info.layout = layout_of(file)
    info.start_time = _text(value_of(entry, _place(entry, "start_time")))
    info.end_time = _text(value_of(file, end_time_place(file)))
    info.ended_by = _text(value_of(entry, "penstock/ended_by"))
    info.series_unique_id = _text(value_of(entry, "penstock/series_unique_id"))
    announced = value_of(entry, "penstock/frames_announced")
    info.frames_announced = announced if isinstance(announced, int) else None
    info.detector = _text(value_of(entry, _place(entry, "instrument/detector/description")))
    info.wavelength = _with_units(entry, _place(entry, "instrument/beam/incident_wavelength"))
    for name in _DETECTOR_FIELDS:
        text = _with_units(entry, _place(entry, f"instrument/detector/{name}"))
        if text is not None:
            info.detector_fields[name] = text
    if info.end_time is None and info.part_of is None:
        info.missing.append(_UNFINISHED_SERIES)


def _place(entry: h5py.Group, path: str) -> str:
    """Where a layout has no place for it, it is kept below /entry/penstock."""
    kept = f"penstock/series/{path}"
    return path if item_at(entry, path) is not None or item_at(entry, kept) is None else kept


def _text(value: Any) -> str | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else None


def _with_units(group: h5py.Group, path: str) -> str | None:
    value = value_of(group, path)
    if value is None:
        return None
    units = attribute_of(item_at(group, path), "units")
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text} {units}" if isinstance(units, str) else text


def _account(file: h5py.File, info: FileInfo) -> None:
    """The ledger and the timing; foreign files have neither."""
    ledger = item_at(file, LEDGER)
    if not isinstance(ledger, h5py.Dataset):
        info.missing.append("frame accounting: not written by penstock")
        return
    for name in LEDGER_COUNTS:
        count = attribute_of(ledger, name)
        if isinstance(count, int):
            info.ledger[name] = count
    if not info.ledger:
        info.unfinished = True
        info.missing.append(_UNFINISHED_LEDGER)
    elif ledger.ndim == 1 and ledger.size <= STATES_MAX and "missing" in info.ledger:
        states = ledger[...]
        count = numpy.bincount(states, minlength=len(REASONS) + 2)
        info.reasons = {name: int(count[state]) for name, state in REASONS.items() if count[state]}
        info.never_came = max(0, info.ledger["missing"] - sum(info.reasons.values()))
        _set_apart_unreachable(file, info, states == RECEIVED)
    info.unfitting = _unfitting(file)
    info.timing = stage_percentiles(file)
    if not info.timing:
        info.missing.append(_NO_TIMES)
    elif info.end_time is not None and (lost := frames_without_row(file)):
        info.missing.append(
            f"when {counted(lost, 'frame')} had been encoded and written: the recorder was killed before it"
            " stored the times; the frames are complete"
        )


def _set_apart_unreachable(file: h5py.File, info: FileInfo, received: Rows) -> None:
    """Frames read as the fill value if their source file is missing or not readable."""
    absent = {*info.members.missing, *info.members.unreadable} if info.members else set()
    data = item_at(file, info.data.path) if absent and info.data else None
    if not isinstance(data, h5py.Dataset) or data.shape[0] > STATES_MAX:
        return
    shown = shown_from(data, absent)
    length = min(len(shown), len(received))
    info.unreachable = int(numpy.count_nonzero(shown[:length] & received[:length]))
    if info.unreachable and "received" in info.ledger:
        info.ledger["received"] -= info.unreachable


def _unfitting(file: h5py.File) -> dict[str, int]:
    """Columns may be anywhere, as the layout says."""
    found: dict[str, int] = {}
    for parts, item in items_of(file):
        count = attribute_of(item, "unfitting")
        if isinstance(item, h5py.Dataset) and isinstance(count, int):
            found["/" + "/".join(parts)] = count
    return found
