"""What `penstock export` will write: found out from the recorded file, nothing written yet.

Readers that know fixed names, one frame a chunk and one codec are served by a small master file beside the
recorded one. What they need: docs/explanation/decisions/0032-readers-that-know-fixed-names.md.
"""

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy
from pydantic import BaseModel

from penstock.files.aside import aside, require_file
from penstock.files.hdf5 import (
    FILTER_NAMES,
    attribute_of,
    from_mapping,
    item_at,
    lies_elsewhere,
    may_be_read,
    open_for_reading,
    stored_frames,
    value_of,
)
from penstock.files.inspect import PLACES, end_time_place, main_dataset
from penstock.files.members import (
    Rows,
    completion_of,
    files_without,
    members_of,
    refuse_part,
    shown_from,
    why_unreadable,
)
from penstock.files.missing import ranges_of
from penstock.files.timing import LEDGER
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import FrameRange
from penstock.model.text import counted, recover_command

Reader = Literal["xds", "eiger"]
_NEEDS_SIZE: dict[Reader, str] = {
    "xds": "which durin requires",
    "eiger": "which programs for EIGER files require for angles",
}
FRAMES_A_FILE = 1000
DETECTOR = "/entry/instrument/detector"
KEPT = "/entry/penstock"
BITSHUFFLE = 32008
_TYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32")
_PARTS_MAX = 999_999  # names have six digits
_INDEXED_BY_NEGGIA = 4  # chunks of a dataset that may grow, by neggia 1.2.0
_COPY = "use --copy, which writes the frames as these readers require"
_MASTER = "_master.h5"
_MISSING, _RECEIVED, _PARTIAL = 0, 1, 5  # in the column of states
_RANGES_SHOWN = 5
Stretch = tuple[int | None, int | None]  # the first frame, and the one behind the last; None: not chosen


class Part(BaseModel):
    """A stretch of the series: a whole dataset of another file, named as seen from the master's folder."""

    name: str
    file: str
    dataset: str
    first_frame: int
    frames: int


class Export(BaseModel):
    """What is written, and what the readers will make of it."""

    reader: Reader
    source: str
    dataset: str
    master: str
    copies: bool
    single: bool
    frames: int
    first_frame: int  # of the recorded ones
    recorded_frames: int
    rows: int
    columns: int
    type: str
    missing: int
    missing_ranges: list[FrameRange] = []
    absent: list[str] = []  # source files that are missing, and none of whose frames are exported
    outside: list[str] = []  # all source files, none of whose frames are exported
    left_out: list[str]
    parts: list[Part]
    recorded_bytes: int
    notes: list[str] = []

    @property
    def writes(self) -> list[Path]:
        """All files that will be there, the master last."""
        master = Path(self.master)
        copied = [master.parent / part.file for part in self.parts] if self.copies else []
        return [*copied, master]


@aside
def plan_export(
    path: Path,
    reader: Reader,
    output: Path | None = None,
    copies: bool = False,
    frames_a_file: int = FRAMES_A_FILE,
    single: bool = False,
    stretch: Stretch | None = None,
) -> Export:
    """Returns the export of a recorded file. Raises a PenstockError that names the reader and the remedy.

    `single`: for programs that look for all frames in /entry/data/data. `stretch`: the frames to copy; by
    default copies end after the last frame that was received.
    """
    require_file(path)
    if output is not None and not output.name:
        raise UsageError(f"--output {output} is not a file", "name a new file")
    if stretch is not None and not copies:
        raise UsageError("--frames: an export without --copy links to all frames", "use it with --copy")
    if single and reader != "eiger":
        raise UsageError(
            "--single-dataset: durin and neggia require frames in data_000001, …",
            "use it with --for eiger; a master file of --for xds has all frames in /entry/data/images",
        )
    master = output or path.with_name(f"{path.stem}_master.h5")
    if reader == "xds" and not master.name.endswith(_MASTER):
        raise UsageError(
            f"{master.name}: XDS finds a master only by a name that ends in {_MASTER}",
            f"--output {master.with_name(master.name.removesuffix('.h5') + _MASTER)}",
        )
    if not master.parent.is_dir():
        raise UsageError(f"{master.parent} is not a folder", "create it, or name another one")
    with open_for_reading(path) as file, explained(path):
        frames = _frames_of(file, path, reader)
        recorded_frames = math.prod(frames.shape[:-2])
        states = _states_of(file, recorded_frames)
        first, end = _stretch_of(path, stretch, states) if copies else (0, recorded_frames)
        recorded, absent = _recorded_files(file, path, frames, slice(first, end))
        outside = files_without(frames, first, end) if frames.is_virtual and frames.ndim == 3 else []
        if copies:
            _require_open([each for each in recorded[1:] if each.name not in outside], path, frames)
            parts = _copied(master, end - first, frames_a_file)
        else:
            parts = _linked(frames, path, master.parent)
            end = _end_of_linked(parts, frames, states)
        count = end - first
        states = states[first:end]
        export = Export(
            reader=reader,
            source=str(path),
            dataset=frames.name,
            master=str(master),
            copies=copies,
            single=single,
            frames=count,
            first_frame=first,
            recorded_frames=recorded_frames,
            rows=frames.shape[-2],
            columns=frames.shape[-1],
            type=frames.dtype.name,
            missing=int(numpy.count_nonzero(states != _RECEIVED)),
            missing_ranges=[each.shifted(first) for each in ranges_of(states)],
            absent=absent,
            outside=outside,
            left_out=_other_channels(file, frames),
            parts=parts,
            recorded_bytes=sum(file.stat().st_size for file in recorded),
        )
        _refuse_recorded(export, recorded)
    export.notes = list(_notes(export))
    return export


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """What HDF5 says of a file that is damaged or made to be so becomes a PenstockError."""
    try:
        yield
    except (RuntimeError, KeyError, ValueError) as error:
        raise PenstockError(
            f"{path} is corrupt, or not a file of Penstock: {error}", "run `penstock check` on it"
        ) from error


def _frames_of(file: h5py.File, path: Path, reader: Reader) -> h5py.Dataset:
    """The dataset with the frames, in a file that can be exported at all."""
    exported = attribute_of(file, "penstock_source")
    if exported is not None:
        raise UsageError(f"{path} is an export", f"name the recorded file: {exported}")
    refuse_part(file, path)
    if isinstance(item_at(file, KEPT), h5py.Group):
        _require_end(file, path)  # before its frames: of a series that has just begun none is seen yet
    frames = main_dataset(file)
    if frames is None or frames.ndim < 3 or frames.size == 0:
        raise PenstockError(f"{path} has no frames to export", "`penstock info` shows its contents")
    if value_of(file, "/entry/definition") != "NXmx" or not isinstance(item_at(file, DETECTOR), h5py.Group):
        raise _not_nxmx(file, path)
    _require_end(file, path)
    if frames.dtype.name not in _TYPES:
        raise PenstockError(
            f"{frames.name} is of {frames.dtype.name}; readers for XDS and EIGER files support only"
            f" integers of at most 32 bits",
            "use a reader of NXmx: DIALS, silx, fabio, h5py",
        )
    if not may_be_read(frames):
        raise PenstockError(
            f"{frames.name} presents data of files that are not opened: pipes, or raw files",
            "`penstock check` lists them",
        )
    for name in ("x_pixel_size", "y_pixel_size"):
        if value_of(file, f"{DETECTOR}/{name}") is None:
            raise PenstockError(
                f"{path} has no {DETECTOR}/{name}, {_NEEDS_SIZE[reader]}",
                "let the source send it in its start message, or add it with h5py (a number, with `units`)"
                f" and then run {recover_command(path)}, as check reports a file that was changed",
            )
    return frames


def _not_nxmx(file: h5py.File, path: Path) -> PenstockError:
    what = f"no {DETECTOR} in an entry with definition NXmx"
    layout = value_of(file, f"{KEPT}/layout/name")
    if isinstance(layout, str):
        return PenstockError(
            f"{path} has the layout {layout}, and so {what}",
            "record with the default layout, or with one that has `nxmx: /entry`",
        )
    return PenstockError(f"{path} has {what}", "export a file that Penstock recorded")


def _require_end(file: h5py.File, path: Path) -> None:
    place = end_time_place(file)
    if value_of(file, place) is None:
        raise PenstockError(f"{path} is not complete: {place} is missing", completion_of(file, path))
    _require_closed(file, path)


def _require_closed(file: h5py.File, path: Path) -> None:
    """Opened so, the file is marked as one that is written: what it shows may not be all yet."""
    if file.id.get_intent() & h5py.h5f.ACC_SWMR_READ:
        raise PenstockError(
            f"{path} is still open for writing, or its writer died", completion_of(file, path)
        )


def _states_of(file: h5py.File, frames: int) -> numpy.ndarray[Any, Any]:
    """Returns the state of each frame; in a scan, of each point."""
    states = _column(file, LEDGER)
    found = numpy.full(frames, _RECEIVED if states is None else _MISSING)
    if states is None:
        return found
    places = _column(file, PLACES)
    if places is None:
        places = numpy.arange(len(states))
    count = min(len(places), len(states))
    places, states = places[:count], states[:count]
    inside = (places >= 0) & (places < frames)
    found[places[inside]] = states[inside]
    return found


def _column(file: h5py.File, path: str) -> numpy.ndarray[Any, Any] | None:
    column = item_at(file, path)
    if not isinstance(column, h5py.Dataset) or lies_elsewhere(column) or column.ndim != 1:
        return None
    values: numpy.ndarray[Any, Any] = column[...]
    return values


def _stretch_of(path: Path, stretch: Stretch | None, states: numpy.ndarray[Any, Any]) -> tuple[int, int]:
    """Returns the first frame to copy and the one behind the last. The series may have been aborted."""
    first, end = stretch or (None, None)
    if end is None:
        found = numpy.flatnonzero((states == _RECEIVED) | (states == _PARTIAL))
        if not len(found):
            raise PenstockError(f"{path} has no frames to export", "`penstock info` shows its contents")
        end = int(found[-1]) + 1
    first = first or 0
    if not 0 <= first < end <= len(states):
        raise UsageError(
            f"--frames {first}:{end} is not a part of the {len(states)} frames of {path}",
            f"give a half-open range within 0:{len(states)}",
        )
    return first, end


def _other_channels(file: h5py.File, frames: h5py.Dataset) -> list[str]:
    """Thresholds of the series beside the one whose frames these are."""
    channels = value_of(file, f"{KEPT}/channels")
    mine = attribute_of(frames, "channel")
    return [str(each) for each in channels if each != mine] if isinstance(channels, list) else []


def _copied(master: Path, frames: int, frames_a_file: int) -> list[Part]:
    stem = master.stem.removesuffix("_master")
    firsts = range(0, frames, frames_a_file)
    if len(firsts) > _PARTS_MAX:
        raise UsageError(
            f"{counted(frames, 'frame')}, {frames_a_file} per file, are {counted(len(firsts), 'file')}",
            "give more --frames-per-file",
        )
    return [
        Part(
            name=f"data_{number:06d}",
            file=f"{stem}_data_{number:06d}.h5",
            dataset="/entry/data/data",
            first_frame=first,
            frames=min(frames_a_file, frames - first),
        )
        for number, first in enumerate(firsts, 1)
    ]


def _linked(frames: h5py.Dataset, path: Path, folder: Path) -> list[Part]:
    """The datasets that hold the frames one behind the other, each of them checked."""
    if frames.ndim != 3:
        raise _not_so(
            f"{frames.name} has {frames.ndim} dimensions; durin and neggia require frame, row, column"
        )
    parts: list[Part] = []
    for stretch in _stretches(frames, path):
        file, dataset, count = stretch.file, stretch.dataset, stretch.frames
        with open_for_reading(file) as holder:
            _require_closed(holder, file)
            held = item_at(holder, dataset)
            if not isinstance(held, h5py.Dataset):
                raise PenstockError(
                    f"{file} has no {dataset}, which should have frames", "`penstock check` it"
                )
            if held.is_virtual or held.shape[1:] != frames.shape[1:] or held.shape[0] < count:
                raise _not_so(f"{file}: {dataset} does not have the {counted(count, 'frame')} of the series")
            # A file has rows for all of its frames, also for those that never came.
            if held.shape[0] > count:
                count = min(held.shape[0], stretch.room)
            if held.shape[0] > count:
                raise _not_so(
                    f"{file}: {dataset} is longer than its {counted(count, 'frame')}: it has"
                    f" {counted(held.shape[0], 'row')}"
                )
            if count < stretch.room and not stretch.is_last:
                raise _not_consecutive(frames)
            _require_readable(held, file)
        name = f"data_{len(parts) + 1:06d}"
        relative = os.path.relpath(file.resolve(), folder.resolve())
        parts.append(Part(name=name, file=relative, dataset=dataset, first_frame=stretch.first, frames=count))
    if len({part.frames for part in parts[:-1]}) > 1 or parts[-1].frames > parts[0].frames:
        raise _not_so(
            "the files have different numbers of frames; neggia requires equal numbers in all but the last"
            " file"
        )
    return parts


@dataclass(frozen=True)
class _Stretch:
    """Frames of a series that a dataset has, from its first row on."""

    file: Path
    dataset: str
    first: int
    frames: int
    room: int  # frames from the first one to the next stretch, or to the end of the series
    is_last: bool


def _stretches(frames: h5py.Dataset, path: Path) -> Iterator[_Stretch]:
    """In order. Between two of them are only frames that never came."""
    if not frames.is_virtual:
        yield _Stretch(path, frames.name, 0, frames.shape[0], frames.shape[0], True)
        return
    if stored_frames(frames) != frames:
        raise _not_so(f"the frames of {frames.name} are assembled from elements, with gaps between them")
    sources = sorted(frames.virtual_sources(), key=lambda source: source.vspace.get_select_bounds()[0])
    if len(sources) > _PARTS_MAX:
        raise _not_so(f"{frames.name} has {counted(len(sources), 'part')}")
    # Of the first row of each file, whose frame may never have come.
    firsts = [
        int(source.vspace.get_select_bounds()[0][0]) - _first_row(source.src_space) for source in sources
    ]
    if not firsts or firsts[0]:
        raise _not_consecutive(frames)
    for source, first, end in zip(sources, firsts, [*firsts[1:], frames.shape[0]], strict=True):
        (mapped, *low), (last, *high) = source.vspace.get_select_bounds()
        count = last - first + 1
        if (
            any(low)
            or tuple(high) != tuple(extent - 1 for extent in frames.shape[1:])
            or first + count > end
            or not _is_of_rows(source.src_space)
            or source.vspace.get_select_npoints() != (last - mapped + 1) * math.prod(frames.shape[1:])
        ):
            raise _not_consecutive(frames)
        name = from_mapping(source.file_name)
        file = path if name == "." else path.parent / name
        yield _Stretch(
            file, from_mapping(source.dset_name), first, count, end - first, end == frames.shape[0]
        )


def _first_row(selected: h5py.h5s.SpaceID) -> int:
    """Returns the row of a source file with which a mapping begins."""
    whole = selected.get_select_type() == h5py.h5s.SEL_ALL
    return 0 if whole else int(selected.get_select_bounds()[0][0])


def _is_of_rows(selected: h5py.h5s.SpaceID) -> bool:
    """Whether a mapping takes consecutive rows of a source file, from the first pixel on."""
    if selected.get_select_type() == h5py.h5s.SEL_ALL:
        return True
    low, high = selected.get_select_bounds()
    extents = (last - first + 1 for first, last in zip(low, high, strict=True))
    return not any(low[1:]) and int(selected.get_select_npoints()) == math.prod(extents)


def _not_consecutive(frames: h5py.Dataset) -> PenstockError:
    return _not_so(
        f"the frames of {frames.name} are not consecutive in its source files, because several ranks wrote"
        " them, or no file has frames in between"
    )


def _end_of_linked(parts: list[Part], frames: h5py.Dataset, states: numpy.ndarray[Any, Any]) -> int:
    """Returns one past the last frame of the linked files. No file has the end of an aborted series."""
    end = sum(part.frames for part in parts)
    behind = states[end:]
    if ((behind == _RECEIVED) | (behind == _PARTIAL)).any():
        raise _not_so(f"the source files of {frames.name} hold {end} of its {frames.shape[0]} frames")
    return end


def _require_readable(held: h5py.Dataset, file: Path) -> None:
    """Both XDS plug-ins read whole frames as chunks of their own, plain or in bitshuffle with LZ4."""
    where = f"{file}: {held.name}"
    if held.chunks is None:
        raise _not_so(
            f"{where} has no chunks, which neggia requires", "or use the file as Penstock recorded it"
        )
    if held.chunks != (1, *held.shape[1:]):
        raise _not_so(
            f"{where} has chunks of {held.chunks}; durin and neggia require one frame per chunk",
            "or record with one frame per chunk",
        )
    properties = held.id.get_create_plist()
    filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
    plain = not filters
    bslz4 = (
        len(filters) == 1
        and filters[0][0] == BITSHUFFLE
        and len(filters[0][2]) == 5
        and filters[0][2][4] == 2
    )
    if not plain and not bslz4:
        names = ", ".join(
            f"{FILTER_NAMES.get(number, 'filter')} ({number}) with {len(values)} parameters"
            for number, _, values, _ in filters
        )
        raise _not_so(
            f"{where} is compressed by {names}; durin and neggia require bitshuffle with LZ4 and 5"
            f" parameters",
            "or record with `codec.encoding: bslz4`",
        )


def _not_so(why: str, otherwise: str = "") -> PenstockError:
    """`otherwise` is how another recording would need no copy, where the next one can be so."""
    return PenstockError(why, f"{_COPY}; {otherwise}" if otherwise else _COPY)


def _recorded_files(
    file: h5py.File, path: Path, frames: h5py.Dataset, stretch: slice
) -> tuple[list[Path], list[str]]:
    """Returns the files with the frames, each once, and the names of absent ones without any of `stretch`.

    PenstockError: one is absent that has some of those frames, which read as the fill value.
    """
    members = members_of(file, path)
    names = set(members.names) if members else set()
    if frames.is_virtual:
        names |= {from_mapping(part.file_name) for part in frames.virtual_sources()} - {"."}
    absent = sorted(name for name in names if not (path.parent / name).exists())
    if absent:
        _require_none_of(absent, path, frames, stretch)
    there = sorted(names.difference(absent))
    for name in there:
        require_file(path.parent / name)
    return [path, *(path.parent / name for name in there)], absent


def _require_none_of(absent: list[str], path: Path, frames: h5py.Dataset, stretch: slice) -> None:
    """PenstockError: frames of the stretch are in source files that are not there."""
    lacking = numpy.ones(frames.shape[0], bool)
    if frames.ndim == 3 and all(shown_from(frames, {name}).any() for name in absent):
        lacking = shown_from(frames, set(absent))
        if not lacking[stretch].any():
            return
    shown = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
    raise PenstockError(
        f"{counted(len(absent), 'source file')} of {path}"
        f" {'is' if len(absent) == 1 else 'are'} missing: {shown}",
        f"put {'it' if len(absent) == 1 else 'them'} back next to {path.name}{_other_frames(lacking)}",
    )


def _require_open(sources: list[Path], path: Path, frames: h5py.Dataset) -> None:
    """PenstockError: source files of copied frames cannot be opened, as they are truncated or corrupt."""
    broken = {source.name: why for source in sources if (why := why_unreadable(source)) is not None}
    if not broken:
        return
    first, *more = broken.values()
    others = f" (and {counted(len(more), 'other source file')} of {path.name} cannot be read)" if more else ""
    lacking = shown_from(frames, broken) if frames.ndim == 3 else numpy.ones(frames.shape[0], bool)
    raise PenstockError(f"{first}{others}", f"{first.remedy}{_other_frames(lacking)}")


def _other_frames(lacking: Rows) -> str:
    found = _longest_false(lacking)
    return f"; or export frames of the other files: --copy --frames {found[0]}:{found[1]}" if found else ""


def _longest_false(rows: Rows) -> tuple[int, int] | None:
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[True], rows, [True]])))
    return max(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True), key=_length, default=None)


def _length(stretch: tuple[int, int]) -> int:
    return stretch[1] - stretch[0]


def _refuse_recorded(export: Export, recorded: list[Path]) -> None:
    """Nothing that is recorded may be in the way of what is written."""
    for written in export.writes:
        if any(written.exists() and written.samefile(file) for file in recorded):
            raise UsageError(f"{written} holds recorded frames", "name another file with --output")


def _notes(export: Export) -> Iterator[str]:
    if export.left_out:
        yield (
            f"{', '.join(export.left_out)}: left out, because these readers support one image per frame;"
            f" {export.source}"
            " has all channels"
        )
    behind = export.recorded_frames - export.first_frame - export.frames
    if export.first_frame or behind:
        others = "--frames chooses others" if export.copies else "no source file has the others"
        yield (
            f"frames {export.first_frame} to {export.first_frame + export.frames - 1} of"
            f" {export.recorded_frames} are exported; {others}"
        )
    most = max(part.frames for part in export.parts)
    if export.reader == "xds" and not export.copies and most > _INDEXED_BY_NEGGIA:
        yield (
            f"neggia reads the first {_INDEXED_BY_NEGGIA} frames of each recorded file only (a limit of its"
            f" index reader): use durin, or --copy"
        )
    if export.absent:
        whose = "its" if len(export.absent) == 1 else "their"
        yield f"{', '.join(export.absent)}: missing, but none of {whose} frames is exported"
    if export.missing:
        yield _note_of_missing(export)
    if not export.copies:
        yield "the master file links to the recorded file by a relative path: move both together"


def _note_of_missing(export: Export) -> str:
    ranges = ", ".join(map(str, export.missing_ranges[:_RANGES_SHOWN]))
    more = ", …" if len(export.missing_ranges) > _RANGES_SHOWN else ""
    what = f"{counted(export.missing, 'frame is', 'frames are')} missing: {ranges}{more}"
    if export.copies:
        return f"{what}; the copy has the fill value there"
    if export.reader == "eiger":
        return f"{what}; HDF5 reads the fill value there"
    return (
        f"{what}; XDS plug-ins fail on them: exclude them with EXCLUDE_DATA_RANGE, or use --copy, which"
        " writes the fill value"
    )
