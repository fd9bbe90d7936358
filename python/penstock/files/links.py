"""Files of links: what `penstock join`, `attach` and `export` write, and where their links lead.

A file may be made to mislead: a link is looked at before anything is opened behind it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py

from penstock.files.aside import aside
from penstock.files.hdf5 import attribute_of, file_behind, from_mapping, item_at, open_for_reading
from penstock.model.errors import PenstockError

JOINED = "penstock_joined"
PER_FRAME = "/entry/per_frame"
Maker = Literal["join", "attach", "export"]
LINKS_MAX = 70_000  # more than the entries of a joint file


@dataclass(frozen=True)
class Lead:
    """A link, or a virtual dataset, that shows what lies in another file."""

    where: str  # the path of the link
    file: str  # as the link has it
    path: str  # in that file
    target: Path | None  # the file, where it is there and may be opened
    problem: str = ""  # why it may not

    @property
    def text(self) -> str:
        return f"{self.path} of {self.file}"


def made_by(file: h5py.File) -> Maker | None:
    """The command of Penstock that made a file of links; None of other files."""
    if attribute_of(file, JOINED) is not None:
        return "join"
    if attribute_of(file, "penstock_export") is not None:
        return "export"
    per_frame = item_at(file, PER_FRAME)
    return "attach" if per_frame is not None and attribute_of(per_frame, "frame_time") is not None else None


def maker_of(path: Path) -> Maker | None:
    """As made_by(), of a file that may be no HDF5 file at all."""
    try:
        return _maker_of(path)
    except PenstockError:
        return None


@aside
def _maker_of(path: Path) -> Maker | None:
    with open_for_reading(path) as file:
        return made_by(file)


@aside
def leads_in(path: Path) -> tuple[list[Lead], bool]:
    """As leads_of(), of a file that is not open."""
    with open_for_reading(path) as file:
        return leads_of(file, path)


def leads_of(file: h5py.File, path: Path) -> tuple[list[Lead], bool]:
    """Where the links of the file at `path`, open as `file`, lead; and whether those are all of them."""
    leads: list[Lead] = []
    for lead in _leads_in(file, path, set()):
        if len(leads) == LINKS_MAX:
            return leads, False
        leads.append(lead)
    return leads, True


def missing_behind(leads: list[Lead]) -> list[str]:
    """What links lead to and does not exist, a line each."""
    missing = [f"{lead.where}: {lead.file} {lead.problem}" for lead in leads if lead.problem]
    return missing + [f"{lead.where}: {lead.file} has no {lead.path}" for lead in absent_paths(leads)]


def absent_paths(leads: list[Lead]) -> list[Lead]:
    """Those whose file can be opened and has nothing at their path. Each file is opened once."""
    by_file: dict[Path, list[Lead]] = {}
    for lead in leads:
        if lead.target is not None:
            by_file.setdefault(lead.target, []).append(lead)
    absent: list[Lead] = []
    for target, those in by_file.items():
        try:
            absent += _absent_in(target, those)
        except PenstockError:  # its problem is reported elsewhere
            absent += those
    return absent


@aside
def _absent_in(target: Path, leads: list[Lead]) -> list[Lead]:
    with open_for_reading(target) as file:
        return [lead for lead in leads if item_at(file, lead.path) is None]


def _resolved(path: Path, name: str) -> tuple[Path | None, str]:
    """The file that a link in the file at `path` names, or why it is not followed. Own links are relative."""
    if name.startswith("/"):
        return None, "is an absolute path, which is not followed"
    return file_behind(path, name)


def _leads_in(group: h5py.Group, path: Path, seen: set[tuple[int, int]]) -> Iterator[Lead]:
    """Of this group and those in it; of a group that has several names once."""
    for name in group:
        where = f"{group.name.rstrip('/')}/{name}"
        link = _link(group, name)
        if isinstance(link, h5py.ExternalLink):
            yield Lead(where, link.filename, link.path, *_resolved(path, link.filename))
        elif isinstance(link, h5py.SoftLink):
            if item_at(group, name) is None:
                yield Lead(where, path.name, link.path, None, f"has no {link.path}")
        elif isinstance(link, h5py.HardLink):
            yield from _leads_of_item(_held(group, name), path, seen)


def _leads_of_item(item: Any, path: Path, seen: set[tuple[int, int]]) -> Iterator[Lead]:
    if isinstance(item, h5py.Dataset):
        yield from _sources(item, path) if item.is_virtual else _raw_files(item, path)
    elif isinstance(item, h5py.Group):
        info = h5py.h5o.get_info(item.id)
        if (info.fileno, info.addr) not in seen:
            seen.add((info.fileno, info.addr))
            yield from _leads_in(item, path, seen)


def _raw_files(dataset: h5py.Dataset, path: Path) -> Iterator[Lead]:
    """The files with a dataset's bytes, where these cannot be read there."""
    properties = dataset.id.get_create_plist()
    for number in range(properties.get_external_count()):
        name = properties.get_external(number)[0].decode("utf-8", "replace")
        problem = _resolved(path, name)[1]
        if problem:
            yield Lead(dataset.name, name, "the bytes", None, problem)


def _held(group: h5py.Group, name: str) -> Any:
    """What a hard link leads to: to open it opens no other file, unlike to ask a virtual dataset's shape."""
    try:
        return group[name]
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def _sources(dataset: h5py.Dataset, path: Path) -> Iterator[Lead]:
    for source in dataset.virtual_sources():
        name = from_mapping(source.file_name)
        if name != ".":
            yield Lead(dataset.name, name, from_mapping(source.dset_name), *_resolved(path, name))


def _link(group: h5py.Group, name: str) -> Any:
    try:
        return group.get(name, getlink=True)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None
