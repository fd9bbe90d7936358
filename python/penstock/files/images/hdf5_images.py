"""Images in HDF5 files of any program: at the paths that detectors' programs use, else the only ones."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy
import numpy.typing

from penstock.files.aside import show_life
from penstock.files.hdf5 import (
    file_behind,
    filters_of,
    from_mapping,
    item_at,
    may_be_read,
    open_for_reading,
)
from penstock.files.links import leads_of
from penstock.model.errors import PenstockError, UsageError
from penstock.model.layout.own_tree import ALL_FRAMES
from penstock.model.text import counted

WITHIN = "::"  # FILE::/PATH names one dataset
_Array = numpy.typing.NDArray[Any]
_EIGER = re.compile(r"data_\d+")
_LIMA = re.compile(r"entry_\d+")
_BLISS = re.compile(r"\d+\.\d+")
_OBJECTS_MAX = 20_000
_NAMED_MAX = 8  # candidates in an error
_BLOCK_BYTES = 64 << 20
_FRAME_BYTES_MAX = 4 << 30
_LOOKED_FOR = (
    "it looks for /entry/data/data, /entry/data/data_000001, … (EIGER), /entry/instrument/detector/data"
    " (areaDetector), /entry_0000/measurement/data and /entry_0000/instrument/*/data (LIMA), "
    "1.1/measurement/* (bliss), and one dataset of two or three dimensions anywhere"
)


def split_name(path: Path) -> tuple[Path, str]:
    """The file, and the path of a dataset in it where the name has one: FILE::/PATH."""
    file, mark, within = str(path).partition(WITHIN)
    return (Path(file), within) if mark and not path.exists() else (path, "")


def is_hdf5(path: Path) -> bool:
    """By its content."""
    return bool(h5py.is_hdf5(path))


def frame_count(path: Path) -> int:
    """Images in the file at `path`, which may name a dataset in it. Errors as of frames_in()."""
    with _opened(path) as datasets:
        return sum(math.prod(dataset.shape[:-2]) for dataset in datasets)


def frames_in(path: Path) -> Iterator[_Array]:
    """The images one after the other. A PenstockError names the file or dataset that cannot be read."""
    with _opened(path) as datasets:
        for dataset in datasets:
            yield from _frames_of(dataset, path)


def shown_by_others(paths: list[Path]) -> set[Path]:
    """Those of the HDF5 files at `paths` whose content others of them show: the data files of a master."""
    shown: set[Path] = set()
    for path in paths:
        show_life()
        with contextlib.suppress(PenstockError), open_for_reading(path) as file:
            leads, _ = leads_of(file, path)
            targets = {lead.target.resolve() for lead in leads if lead.target is not None}
            shown |= targets - {path.resolve()}
    return {path for path in paths if path.resolve() in shown}


@contextlib.contextmanager
def _opened(name: Path) -> Iterator[list[h5py.Dataset]]:
    path, within = split_name(name)
    with open_for_reading(path) as file:
        try:
            datasets = datasets_of(file, path, within)
            for dataset in datasets:
                _require_sources(dataset, path)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise PenstockError(
                f"{path} is corrupt: its HDF5 structures are inconsistent", "copy it again, or remove it"
            ) from error
        yield datasets


def datasets_of(file: h5py.File, path: Path, within: str = "") -> list[h5py.Dataset]:
    """Returns the datasets with the images of an open file; `within` is the path of one of them.

    UsageError: there are no images at `within`. PenstockError: there are none, several candidates, or they
    are in a file that does not exist.
    """
    if within:
        return [_named(file, path, within)]
    for find in _FINDERS:
        if found := find(file, path):
            return found
    return _only_one(file, path)


def _is_images(item: Any, dimensions: int = 2) -> bool:
    if not isinstance(item, h5py.Dataset) or item.dtype.kind not in "iuf" or item.shape is None:
        return False
    return bool(item.ndim >= dimensions and item.size > 0)


def _at(*places: str) -> Callable[[h5py.File, Path], list[h5py.Dataset]]:
    def find(file: h5py.File, path: Path) -> list[h5py.Dataset]:
        for place in places:
            group, _, name = place.rpartition("/")
            holder = item_at(file, group or "/")
            if isinstance(holder, h5py.Group) and name in holder:
                item = _behind(holder, name, path)
                if _is_images(item):
                    return [item]
        return []

    return find


def _of_eiger(file: h5py.File, path: Path) -> list[h5py.Dataset]:
    """Links of a master, or of the first EIGERs."""
    for place in ("/entry/data", "/entry"):
        group = item_at(file, place)
        if not isinstance(group, h5py.Group):
            continue
        items = [_behind(group, name, path) for name in sorted(group) if _EIGER.fullmatch(name)]
        if items and all(map(_is_images, items)):
            return items
    return []


def _of_lima(file: h5py.File, path: Path) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    for name in sorted(filter(_LIMA.fullmatch, file)):
        item = item_at(file, f"{name}/measurement/data")
        if not _is_images(item):
            instrument = item_at(file, f"{name}/instrument")
            within = sorted(instrument) if isinstance(instrument, h5py.Group) else []
            item = _only([item_at(instrument, f"{each}/data") for each in within], path)
        if item is not None:
            found.append(item)
    return found


def _of_bliss(file: h5py.File, path: Path) -> list[h5py.Dataset]:
    """Of each scan the one detector with images. What has two dimensions there is spectra."""
    found: list[h5py.Dataset] = []
    scans = sorted(filter(_BLISS.fullmatch, file), key=lambda name: [int(part) for part in name.split(".")])
    for scan in scans:
        group = item_at(file, f"{scan}/measurement")
        if isinstance(group, h5py.Group):
            found += [item for item in (_behind(group, name, path) for name in group) if _is_images(item, 3)]
    names = {item.name.rpartition("/")[2] for item in found}
    return found if len(names) < 2 else [_only(found, path)]


_FINDERS = (
    _at(ALL_FRAMES),
    _at("/entry/data/data"),
    _of_eiger,
    _at("/entry/instrument/detector/data"),
    _of_lima,
    _of_bliss,
)


def _only_one(file: h5py.File, path: Path) -> list[h5py.Dataset]:
    """The one dataset with several images, or else with one: masks and tables have two dimensions."""
    names: list[str] = []

    def visit(name: str, item: Any) -> int | None:
        if isinstance(item, h5py.Dataset):
            names.append(name)
        return 1 if len(names) >= _OBJECTS_MAX else None

    file.visititems(visit)
    items = [item for item in (item_at(file, name) for name in names) if _is_images(item)]
    stacks = [item for item in items if item.ndim >= 3]
    only = _only(stacks or items, path)
    if only is None:
        raise PenstockError(
            f"{path} has no images in a known location", f"{_LOOKED_FOR}; or name it: FILE::/PATH"
        )
    return [only]


def _only(items: list[Any], path: Path) -> Any:
    """The one with images; None of none. A PenstockError names them where there are several."""
    found = [item for item in items if _is_images(item)]
    if len(found) < 2:
        return found[0] if found else None
    named = ", ".join(item.name for item in found[:_NAMED_MAX])
    more = ", …" if len(found) > _NAMED_MAX else ""
    raise PenstockError(
        f"{path} has {counted(len(found), 'dataset')} that may hold the images: {named}{more}",
        f"name one of them: {path}{WITHIN}{found[0].name}",
    )


def _named(file: h5py.File, path: Path, within: str) -> h5py.Dataset:
    group, _, name = within.rstrip("/").rpartition("/")
    holder = item_at(file, group or "/")
    item = _behind(holder, name, path) if isinstance(holder, h5py.Group) and name in holder else None
    if not _is_images(item):
        raise UsageError(
            f"{path}: no images at {within}",
            "name a dataset of numbers with two dimensions or more",
        )
    return item


def _behind(group: h5py.Group, name: str, path: Path) -> Any:
    """Returns the target; raises a PenstockError if a link leads to another file that does not exist."""
    item = item_at(group, name)
    link = group.get(name, getlink=True)
    if item is not None or not isinstance(link, h5py.ExternalLink):
        return item
    where = f"{group.name.rstrip('/')}/{name} of {path}"
    target, why = file_behind(Path(group.file.filename), link.filename)
    if target is None:
        raise _missing(where, link.filename, why)
    raise PenstockError(
        f"{where} leads to {link.path} of {target}, which cannot be read",
        f"{target} may be incomplete: copy it again",
    )


def _missing(where: str, name: str, why: str) -> PenstockError:
    return PenstockError(
        f"{where} is in {name}, which {why}",
        "put it at the path in its name, next to the file that links to it",
    )


def _require_sources(dataset: h5py.Dataset, path: Path) -> None:
    """Of a virtual dataset HDF5 shows the fill value where a file is missing, and says nothing."""
    if dataset.is_virtual:
        for name in dict.fromkeys(source.file_name for source in dataset.virtual_sources()):
            is_pattern = "%b" in name.replace("%%", "")
            if name == "." or is_pattern:
                continue
            target, why = file_behind(Path(dataset.file.filename), from_mapping(name))
            if target is None:
                raise _missing(f"{dataset.name} of {path}", from_mapping(name), why)
    if not may_be_read(dataset):
        raise not_opened(dataset, path)


def not_opened(dataset: h5py.Dataset, path: Path) -> PenstockError:
    """Returns the error about a dataset that may not be read."""
    return PenstockError(
        f"{dataset.name} of {path} presents data of files that are not opened: pipes, or raw files",
        "copy the images into a separate file",
    )


def require_frame_size(dataset: h5py.Dataset, path: Path) -> int:
    """Returns the bytes of one image. PenstockError: they exceed 4 GiB."""
    frame_bytes = int(math.prod(dataset.shape[-2:]) * dataset.dtype.itemsize)
    if frame_bytes > _FRAME_BYTES_MAX:
        raise PenstockError(
            f"{dataset.name} of {path} has images of {frame_bytes} bytes, which exceeds the maximum of"
            f" {_FRAME_BYTES_MAX}",
            "name another dataset: FILE::/PATH",
        )
    return frame_bytes


def unreadable(dataset: h5py.Dataset, path: Path, number: int, error: Exception) -> PenstockError:
    """Returns the error about an image of `dataset` that HDF5 cannot read."""
    filters = ", ".join(filters_of(dataset))
    encoded = f", or its filter ({filters}) is not installed" if filters else ""
    explained = PenstockError(
        f"image {number} in {dataset.name} of {path} cannot be read: its data is corrupt{encoded}",
        "copy the file again; filters that hdf5plugin lacks are searched in HDF5_PLUGIN_PATH",
    )
    explained.add_note(str(error))
    return explained


def _frames_of(dataset: h5py.Dataset, path: Path) -> Iterator[_Array]:
    frame_bytes = require_frame_size(dataset, path)
    in_a_chunk = dataset.chunks[0] if dataset.ndim == 3 and dataset.chunks else 1
    step = max(1, min(in_a_chunk, _BLOCK_BYTES // frame_bytes))
    count = math.prod(dataset.shape[:-2])
    for first in range(0, count, step):
        try:
            if dataset.ndim == 3:
                block = dataset[first : first + step]
            else:
                block = dataset[numpy.unravel_index(first, dataset.shape[:-2])][None]
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise unreadable(dataset, path, first, error) from error
        yield from block
