"""Whether a file is the NeXus file that readers expect (NXmx), judged with h5py."""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py

from penstock.files.aside import aside
from penstock.files.hdf5 import (
    attribute_of,
    children_of_class,
    item_at,
    lies_elsewhere,
    names_of,
    open_for_reading,
    value_of,
)
from penstock.files.inspect import PLACES, end_time_place, layout_of, main_dataset
from penstock.files.members import completion_of, is_member
from penstock.files.timing import LEDGER, TIMING, frames_without_row
from penstock.model.errors import PenstockError
from penstock.model.findings import LENGTHS_DISAGREE, NO_ENTRY, NO_ROWS, UNFINISHED, Finding, Level
from penstock.model.layout.nodes import DEFAULT
from penstock.model.layout.own_tree import KEPT_METADATA
from penstock.model.text import counted

_REMEDY_SOURCE = "let the source send it in its start message, or add it to the file with h5py"
_REMEDY_PIXELS = "let the source send pixel_size_x and pixel_size_y in its start message"
_NOT_PRESENTED = "the frames of all files are not presented yet"
_REMEDY_WRITER = "if the writer is done with this file, record again or repair it with h5py"
_REMEDY_DEFAULT = "viewers do not know what to show first: set it with h5py (a copied entry lacks it)"
_ENTRY_FIELDS = ("definition", "start_time", "end_time_estimated")
_DIRECTIONS = ("fast_pixel_direction", "slow_pixel_direction")
_LINKS_SHOWN = 3
_VECTOR_ATTRIBUTES = ("transformation_type", "vector", "offset", "depends_on")


@aside
def check_structure(path: Path, unfinished: bool = False) -> list[Finding]:
    """Returns all findings about the file's structure.

    The columns of an `unfinished` file end at different frames: their lengths are not compared. That it is
    unfinished, and what follows from it, is not repeated.
    """
    with open_for_reading(path) as file:
        entries = children_of_class(file, "NXentry")
        linked = [finding for _, entry in entries for finding in _links_to_frames(entry)]
        lengths = [] if unfinished else _columns(file)
        found = [*linked, *_of_structure(file, entries), *lengths, *_rows(file)]
        return [each for each in found if not (unfinished and each.what in (UNFINISHED, _NOT_PRESENTED))]


def _of_structure(file: h5py.File, entries: Sequence[tuple[str, Any]]) -> list[Finding]:
    if layout_of(file) not in (None, DEFAULT):
        return list(_of_own_layout(file, entries))
    if not entries:
        return [_finding("error", NO_ENTRY, "/", "a group with NX_class NXentry", "none", _REMEDY_WRITER)]
    findings = list(_default_chain(file))
    if is_member(file):  # the rest stands in its master
        return findings
    for name, entry in entries:
        findings += _entry(f"/{name}", entry)
    return findings


def _links_to_frames(entry: h5py.Group) -> Iterator[Finding]:
    """Frames in other files, as in an export and in a detector's own master, are there."""
    for name, group in children_of_class(entry, "NXdata"):
        links = [(each, group.get(each, getlink=True)) for each in names_of(group)]
        outside = [(each, link) for each, link in links if isinstance(link, h5py.ExternalLink)]
        broken = [link for each, link in outside if not isinstance(item_at(group, each), h5py.Dataset)]
        if broken:
            shown = ", ".join(f"{link.path} of {link.filename}" for link in broken[:_LINKS_SHOWN])
            yield _finding(
                "error",
                "linked frames are not there",
                f"{entry.name}/{name}",
                f"{len(outside)} linked datasets",
                f"{len(broken)} cannot be opened: {shown}" + (", …" if len(broken) > _LINKS_SHOWN else ""),
                "move the files back next to this file, where the links point, or export the series again",
            )


@aside
def exported_from(path: Path) -> str | None:
    """Of a file of `penstock export`: the file that it was made from, in words where it has no name of it.

    A file of copied frames has none.
    """
    with open_for_reading(path) as file:
        if attribute_of(file, "penstock_export") is None:
            return None
        source = attribute_of(file, "penstock_source")
        return source if isinstance(source, str) else "the recorded file"


def is_recorded(path: Path) -> bool:
    """Whether a recorder wrote it, as the file with a series' name: its structure counts."""
    try:
        return _is_recorded(path)
    except PenstockError:
        return False


@aside
def _is_recorded(path: Path) -> bool:
    with open_for_reading(path) as file:
        return attribute_of(file, "penstock_format") is not None and not is_member(file)


def _finding(level: Level, what: str, where: str, expected: str, actual: str, remedy: str) -> Finding:
    return Finding(level=level, what=what, where=where, expected=expected, actual=actual, remedy=remedy)


def _completion(file: h5py.File) -> str:
    return completion_of(file, Path(os.fsdecode(file.filename)))


def _of_own_layout(file: h5py.File, entries: Sequence[tuple[str, Any]]) -> Iterator[Finding]:
    """What the layout claims: NXmx where it names that, and something to plot first where it names that."""
    if attribute_of(file, "default") is not None:
        yield from _default_chain(file)
    place = end_time_place(file)
    if item_at(file, place) is None:
        yield _finding("warning", UNFINISHED, place, "a time", "absent", _completion(file))
    for name, entry in entries:
        if value_of(entry, "definition") == "NXmx":
            yield from _entry(f"/{name}", entry)


def _default_chain(file: h5py.File) -> Iterator[Finding]:
    """@default leads from the root to an NXdata with a @signal, so that viewers show the frames."""
    group: Any = file
    for _ in range(8):
        if attribute_of(group, "NX_class") == "NXdata":
            yield from _signal(group)
            return
        default = attribute_of(group, "default")
        if not isinstance(default, str):
            yield _finding(
                "warning", "no @default", group.name, "the name of a group", "none", _REMEDY_DEFAULT
            )
            only = _only_child(group)
            if only is None:
                return
            group = only
            continue
        target = item_at(group, default)
        if not isinstance(target, h5py.Group):
            yield _finding(
                "error", "@default points nowhere", group.name, "a group", f'"{default}"', _REMEDY_WRITER
            )
            return
        group = target
    yield _finding("error", "@default forms a loop", group.name, "an NXdata", "none", _REMEDY_WRITER)


def _only_child(group: h5py.Group) -> h5py.Group | None:
    """Where nobody says what is to be plotted: the one entry, or the one NXdata, if there is one."""
    children = children_of_class(group, "NXentry" if group.name == "/" else "NXdata")
    return children[0][1] if len(children) == 1 else None


def _is_unfinished_master(file: h5py.File) -> bool:
    """Whether it shows frames of other files, and its series has not ended."""
    return (
        attribute_of(file, "penstock_member_files") is not None
        and item_at(file, end_time_place(file)) is None
    )


def _signal(group: h5py.Group) -> Iterator[Finding]:
    where = group.name
    signal = attribute_of(group, "signal")
    data = item_at(group, signal) if isinstance(signal, str) else None
    if not isinstance(data, h5py.Dataset) and _is_unfinished_master(group.file):
        yield _finding(
            "warning",
            _NOT_PRESENTED,
            where,
            "a virtual dataset of all of them",
            "HDF5 cannot open it: the last file may be incomplete",
            _completion(group.file),
        )
        return
    if not isinstance(data, h5py.Dataset):
        yield _finding(
            "error", "@signal names no dataset", where, "a dataset's name", f"{signal!r}", _REMEDY_WRITER
        )
        return
    if data.ndim < 3:
        yield _finding(
            "error", "too few dimensions", data.name, "frame, row, column", f"{data.ndim}", _REMEDY_WRITER
        )
    axes = attribute_of(group, "axes")
    if axes is None:
        return
    names = [axes] if isinstance(axes, str) else list(axes)
    if len(names) != data.ndim:
        yield _finding(
            "error", "@axes does not fit the signal", where, f"{data.ndim} names", f"{names}", _REMEDY_WRITER
        )
        return
    for dimension, name in enumerate(names):
        if name == ".":
            continue
        axis = item_at(group, name)
        if not isinstance(axis, h5py.Dataset):
            yield _finding(
                "error", "an axis is missing", f"{where}/{name}", "a dataset", "none", _REMEDY_WRITER
            )
        elif axis.ndim != 1 or axis.shape[0] not in (data.shape[dimension], data.shape[dimension] + 1):
            expected = f"{data.shape[dimension]} values"
            yield _finding(
                "error", "an axis does not fit", axis.name, expected, f"{axis.shape}", _REMEDY_WRITER
            )


def _entry(path: str, entry: h5py.Group) -> Iterator[Finding]:
    definition = value_of(entry, "definition")
    item = item_at(entry, "definition")
    if isinstance(item, h5py.Dataset) and lies_elsewhere(item):
        yield from _required(entry, path, "definition")
        return
    if definition != "NXmx":
        yield _finding(
            "warning",
            "not NXmx",
            f"{path}/definition",
            "NXmx",
            f"{definition!r}",
            "readers of the field look for NXmx",
        )
        return
    for name in _ENTRY_FIELDS:
        yield from _required(entry, path, name)
    if item_at(entry, "end_time") is None:
        yield _finding(
            "warning",
            UNFINISHED,
            f"{path}/end_time",
            "a time",
            "absent",
            _completion(entry.file),
        )
    yield from _groups(path, entry)


def _groups(path: str, entry: h5py.Group) -> Iterator[Finding]:
    for nx_class, fields in (("NXdata", ()), ("NXsample", ("name", "depends_on")), ("NXsource", ("name",))):
        found = children_of_class(entry, nx_class)
        if not found:
            yield _finding(
                "error", f"no {nx_class}", path, f"a group of class {nx_class}", "none", _REMEDY_WRITER
            )
        for name, group in found:
            for field in fields:
                yield from _required(group, f"{path}/{name}", field)
            yield from _chain(entry.file, f"{path}/{name}", value_of(group, "depends_on"))
    instruments = children_of_class(entry, "NXinstrument")
    if not instruments:
        yield _finding(
            "error", "no NXinstrument", path, "a group of class NXinstrument", "none", _REMEDY_WRITER
        )
    for name, instrument in instruments:
        yield from _instrument(f"{path}/{name}", instrument)


def _instrument(path: str, instrument: h5py.Group) -> Iterator[Finding]:
    yield from _required(instrument, path, "name")
    beams = children_of_class(instrument, "NXbeam")
    if not beams:
        yield _finding("error", "no NXbeam", path, "a group of class NXbeam", "none", _REMEDY_WRITER)
    for name, beam in beams:
        yield from _required(beam, f"{path}/{name}", "incident_wavelength", "warning", _REMEDY_SOURCE)
    detectors = children_of_class(instrument, "NXdetector")
    if not detectors:
        yield _finding("error", "no NXdetector", path, "a group of class NXdetector", "none", _REMEDY_WRITER)
    for name, detector in detectors:
        yield from _detector(f"{path}/{name}", detector)


def _detector(path: str, detector: h5py.Group) -> Iterator[Finding]:
    yield from _required(detector, path, "sensor_material")
    yield from _required(detector, path, "sensor_thickness", "warning", _REMEDY_SOURCE)
    yield from _chain(detector.file, path, value_of(detector, "depends_on"))
    modules = children_of_class(detector, "NXdetector_module")
    if not modules:
        yield _finding("error", "no NXdetector_module", path, "a group of that class", "none", _REMEDY_WRITER)
    data = item_at(detector, "data")
    for name, module in modules:
        yield from _module(f"{path}/{name}", module, data if isinstance(data, h5py.Dataset) else None)
    mask = item_at(detector, "pixel_mask")
    if (
        isinstance(mask, h5py.Dataset)
        and isinstance(data, h5py.Dataset)
        and mask.shape != data.shape[-mask.ndim :]
    ):
        yield _finding(
            "error",
            "the mask does not fit the frames",
            mask.name,
            f"{data.shape[1:]}",
            f"{mask.shape}",
            _REMEDY_SOURCE,
        )


def _module(path: str, module: h5py.Group, data: h5py.Dataset | None) -> Iterator[Finding]:
    for field in ("data_origin", "data_size"):
        yield from _required(module, path, field)
    origin, size = value_of(module, "data_origin"), value_of(module, "data_size")
    if data is not None and isinstance(origin, list) and isinstance(size, list) and data.ndim >= 3:
        ends = [first + count for first, count in zip(origin[-2:], size[-2:], strict=False)]
        if any(end > limit for end, limit in zip(ends, data.shape[-2:], strict=False)):
            yield _finding(
                "error",
                "the module extends beyond the frame",
                path,
                f"within {data.shape[-2:]}",
                f"{ends}",
                _REMEDY_SOURCE,
            )
    for field in _DIRECTIONS:  # their values are the pixels' sizes, which only the source knows
        yield from _required(module, path, field, "warning", _REMEDY_PIXELS)
        direction = item_at(module, field)
        if direction is None:
            continue
        for attribute in _VECTOR_ATTRIBUTES:
            if attribute_of(direction, attribute) is None:
                yield _finding(
                    "error", f"no @{attribute}", f"{path}/{field}", "an attribute", "none", _REMEDY_WRITER
                )
        yield from _chain(module.file, f"{path}/{field}", attribute_of(direction, "depends_on"))


def _required(
    group: h5py.Group, path: str, name: str, level: Level = "error", remedy: str = _REMEDY_WRITER
) -> Iterator[Finding]:
    item = item_at(group, name)
    if not isinstance(item, h5py.Dataset):
        yield _finding(
            level, "a required field is missing", f"{path}/{name}", "a value (NXmx)", "none", remedy
        )
        return
    if lies_elsewhere(item):
        yield _finding(
            level,
            "a required field is not in this file",
            f"{path}/{name}",
            "a value (NXmx)",
            "a mapping of other files, which is not followed",
            remedy,
        )
        return
    value = value_of(group, name)
    if isinstance(value, float) and not math.isfinite(value):
        yield _finding(
            level, "a required field has no value", f"{path}/{name}", "a finite number", f"{value}", remedy
        )


def _chain(file: h5py.File, where: str, depends_on: Any) -> Iterator[Finding]:
    """A depends_on chain ends at "." and each step is there."""
    seen: set[str] = set()
    while isinstance(depends_on, str) and depends_on != ".":
        if depends_on in seen:
            yield _finding(
                "error",
                "depends_on forms a loop",
                where,
                'a chain that ends at "."',
                depends_on,
                _REMEDY_WRITER,
            )
            return
        seen.add(depends_on)
        path = depends_on if depends_on.startswith("/") else f"{where.rpartition('/')[0]}/{depends_on}"
        step = item_at(file, path)
        if step is None and not depends_on.startswith("/"):
            path = f"{where}/{depends_on}"
            step = item_at(file, path)
        if step is None:
            yield _finding(
                "error",
                "depends_on points nowhere",
                where,
                "a transformation",
                f'"{depends_on}"',
                _REMEDY_WRITER,
            )
            return
        where, depends_on = path, attribute_of(step, "depends_on")


def _rows(file: h5py.File) -> Iterator[Finding]:
    """Of a series that has ended: before that rows follow their frames."""
    lost = frames_without_row(file) if item_at(file, end_time_place(file)) is not None else 0
    if lost:
        yield _finding(
            "warning",
            NO_ROWS,
            "/entry/penstock/timing/written",
            "",
            f"{counted(lost, 'frame')}: the recorder was killed before it stored them, or they were in a"
            " part of the file that was cut off; the frames are complete",
            "",
        )


def _columns(file: h5py.File) -> Iterator[Finding]:
    """The ledger and the times have one value a frame."""
    data, ledger = main_dataset(file), item_at(file, LEDGER)
    if not isinstance(data, h5py.Dataset) or not isinstance(ledger, h5py.Dataset):
        return
    places = item_at(file, PLACES)
    # Of a scan the first dimension is an axis; its frames are those of the columns.
    frames = places.shape[0] if isinstance(places, h5py.Dataset) and places.ndim == 1 else data.shape[0]
    timing = item_at(file, TIMING)
    columns = [ledger]
    for group in (timing, item_at(file, "/entry/metadata"), item_at(file, KEPT_METADATA)):
        columns += [item_at(group, name) for name in group] if isinstance(group, h5py.Group) else []
    for column in columns:
        if isinstance(column, h5py.Dataset) and column.ndim == 1 and column.shape[0] != frames:
            yield _finding(
                "error",
                LENGTHS_DISAGREE,
                column.name,
                f"{frames} values, one per frame",
                f"{column.shape[0]}",
                _REMEDY_WRITER,
            )
