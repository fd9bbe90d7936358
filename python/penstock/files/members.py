"""A file whose frames lie in others: which those are, and which of them are there."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import h5py
import numpy
import numpy.typing
from pydantic import BaseModel

from penstock.files.hdf5 import (
    attribute_of,
    filters_of,
    from_mapping,
    item_at,
    lies_elsewhere,
    open_for_reading,
    raw_bytes_stored,
)
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import how_to_complete

_NAMES = "/entry/penstock/members"
Rows = numpy.typing.NDArray[numpy.bool_]


class Members(BaseModel):
    """What a master file says of the files with its frames, its members."""

    layout: str
    names: list[str]
    missing: list[str] = []
    unreadable: dict[str, str] = {}  # by name: why
    chunks: list[int] | None = None
    filters: list[str] = []
    raw_bytes: int = 0
    stored_bytes: int = 0

    @property
    def summary(self) -> str:
        text = f"{self.layout}, frames in {len(self.names)} other{'s' if len(self.names) != 1 else ''}"
        for what, names in (("not there", self.missing), ("not readable", self.unreadable)):
            if names:
                shown = ", ".join(list(names)[:3]) + (", …" if len(names) > 3 else "")
                text += f"; {len(names)} {what}: {shown}"
        return text


def is_member(file: h5py.File) -> bool:
    """Whether a master file shows this one's frames."""
    return attribute_of(file, "penstock_member") is not None


def series_file_of(file: h5py.File, path: Path) -> Path:
    """Returns the file that presents the complete series of this source file."""
    name = attribute_of(file, "penstock_master")
    return path.with_name(Path(name).name) if isinstance(name, str) and name else path


def refuse_part(file: h5py.File, path: Path) -> None:
    """UsageError: the file is a source file, and so has only a part of its series."""
    if is_member(file):
        series = series_file_of(file, path)
        raise UsageError(
            f"{path} is a source file: it holds a part of a series",
            f"name the file that presents the complete series{'' if series == path else f': {series}'}",
        )


def can_resume(file: h5py.File) -> bool:
    """Whether a recorder can resume this series, which must have a single file."""
    return attribute_of(file, "penstock_layout") is None and not is_member(file)


def completion_of(file: h5py.File, path: Path) -> str:
    """Returns the remedy for a series without an end."""
    return (
        f"wait until the series ends; if its recorder was killed: {how_to_complete(path, can_resume(file))}"
    )


def members_of(file: h5py.File, path: Path) -> Members | None:
    """Of the master that is open as `file`, from its own list, or by their names where it has none yet."""
    layout, pattern = attribute_of(file, "penstock_layout"), attribute_of(file, "penstock_member_files")
    if not isinstance(layout, str) or not isinstance(pattern, str):
        return None
    listed = item_at(file, _NAMES)
    if isinstance(listed, h5py.Dataset) and not lies_elsewhere(listed) and listed.ndim == 1:
        names = [name for name in map(os.fsdecode, listed[:]) if "/" not in name]
    else:
        names = _names_like(path.parent, pattern)
    members = Members(layout=layout.replace("_", " "), names=names)
    members.missing = [name for name in names if not (path.parent / name).is_file()]
    return members


def add_storage(members: Members, path: Path, datasets: list[str]) -> None:
    """Adds how and in how many bytes the source files store `datasets`, one for each channel."""
    for name in members.names:
        if name in members.missing:
            continue
        try:
            with open_for_reading(path.parent / name) as file:
                for number, dataset in enumerate(datasets):
                    frames = item_at(file, dataset)
                    if isinstance(frames, h5py.Dataset):
                        if number == 0:
                            members.chunks = list(frames.chunks) if frames.chunks else None
                            members.filters = filters_of(frames)
                        members.raw_bytes += raw_bytes_stored(frames)
                        members.stored_bytes += int(frames.id.get_storage_size())
        except PenstockError as error:
            members.unreadable[name] = str(error)


def shown_from(dataset: h5py.Dataset, names: Collection[str]) -> Rows:
    """Returns True for each frame of a virtual dataset that one of these source files has."""
    rows = numpy.zeros(dataset.shape[0], bool)
    for name, stretch in _mapped(dataset):
        if name in names:
            rows[stretch] = True
    return rows


def source_of(dataset: h5py.Dataset, frame: int) -> tuple[Path, slice] | None:
    """Returns the source file of a frame of a virtual dataset, with a range of frames that it has."""
    if not dataset.is_virtual or dataset.ndim != 3:
        return None
    folder = Path(os.fsdecode(dataset.file.filename)).parent
    found = (
        (folder / name, stretch)
        for name, stretch in _mapped(dataset)
        if stretch.start <= frame < stretch.stop
    )
    return next(found, None)


def why_unreadable(path: Path) -> PenstockError | None:
    """Returns why HDF5 cannot open the file."""
    try:
        with open_for_reading(path):
            return None
    except PenstockError as error:
        return error


def files_without(dataset: h5py.Dataset, first: int, end: int) -> list[str]:
    """Returns the source files of a virtual dataset that have frames, but none of `first` to `end` - 1."""
    mapped = list(_mapped(dataset))
    inside = {name for name, stretch in mapped if stretch.start < end and first < stretch.stop}
    return sorted({name for name, _ in mapped} - inside)


def _mapped(dataset: h5py.Dataset, nested: bool = True) -> Iterator[tuple[str, slice]]:
    """Yields source files of a virtual dataset, each with a range of the frames that it has."""
    length = dataset.shape[0]
    properties = dataset.id.get_create_plist()
    for number in range(properties.get_virtual_count() if dataset.is_virtual else 0):
        name = from_mapping(properties.get_virtual_filename(number))
        space = properties.get_virtual_vspace(number)
        if space.get_select_type() == h5py.h5s.SEL_ALL:
            start, stride, count, block = 0, 1, 1, length
        elif space.get_select_type() == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
            start, stride, count, block = (int(each[0]) for each in space.get_regular_hyperslab())
        else:
            continue
        if name != ".":
            for first in range(start, min(start + count * stride, length), max(1, stride)):
                yield name, slice(first, min(first + block, length))
        elif nested:  # a part of the mappings
            part = item_at(dataset.file, from_mapping(properties.get_virtual_dsetname(number)))
            if isinstance(part, h5py.Dataset) and part.ndim:
                for inner, stretch in _mapped(part, nested=False):
                    yield inner, slice(min(start + stretch.start, length), min(start + stretch.stop, length))


def _names_like(folder: Path, pattern: str) -> list[str]:
    stem, _, suffix = pattern.rpartition("*")
    found = []
    for entry in folder.iterdir():
        number = entry.name.removeprefix(stem).removesuffix(suffix)
        if entry.name == f"{stem}{number}{suffix}" and number.isdecimal():
            found.append((int(number), entry.name))
    return [name for _, name in sorted(found)]
