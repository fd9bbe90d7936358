"""Small helpers around h5py: foreign files hold anything, so every reading is guarded."""

import contextlib
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy

from penstock.model.errors import PenstockError, UsageError
from penstock.model.plans import ELEMENTS_MAX

FILTER_NAMES = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 32000: "lzf"} | {
    number: "bitshuffle" if name == "bshuf" else name for name, number in hdf5plugin.FILTERS.items()
}


def use_no_plugins() -> None:
    """From now on HDF5 expands nothing through plug-ins in this process; what needs one is unreadable."""
    while h5py.h5pl.size():
        h5py.h5pl.remove(0)
    for number in hdf5plugin.FILTERS.values():
        with contextlib.suppress(ValueError, RuntimeError):  # not registered
            h5py.h5z.unregister_filter(number)


def require_file(path: Path) -> None:
    """A UsageError unless `path` is a file."""
    if not path.exists():
        raise UsageError(f"{path} is not there", "check the path")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "name one file")
    if not path.is_file():  # of a pipe HDF5 would wait for somebody who writes
        raise UsageError(f"{path} is no regular file", "name one")


@contextlib.contextmanager
def open_for_reading(path: Path) -> Iterator[h5py.File]:
    """The file, also while it is being written. Errors say what is wrong with it and what to do."""
    require_file(path)
    try:
        file = _open(path)
    except OSError as error:
        raise _explain(path, error) from error
    with file:
        yield file


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if not _is_marked_open(error):
            raise
    return h5py.File(path, "r", swmr=True, locking=False)


def _is_marked_open(error: OSError) -> bool:
    return "already open for" in str(error) or "file is open for" in str(error).lower()


def _explain(path: Path, error: OSError) -> PenstockError:
    text = str(error)
    if "signature not found" in text:
        return PenstockError(
            f"{path} is no HDF5 file", "name a file that `penstock record` or another program wrote as HDF5"
        )
    if _is_marked_open(error):
        return PenstockError(
            f"{path} was never closed: a program writes it now, or died while it did",
            f"wait for the writer; if it died, `penstock check {path}` tells what the file holds",
        )
    if "truncated file" in text:
        return PenstockError(f"{path} is cut off: {text}", "copy it again from where it was written")
    return PenstockError(
        f"{path} cannot be opened: {text}", "check its permissions, and that it is a whole HDF5 file"
    )


def value_of(group: h5py.Group, path: str) -> Any:
    """A small dataset's value as Python data, None where it is absent or unreadable."""
    try:
        dataset = item_at(group, path)
        if not isinstance(dataset, h5py.Dataset) or dataset.size is None or dataset.size > 64:
            return None
        return plain(dataset[()])
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def attribute_of(item: Any, name: str) -> Any:
    """An attribute as Python data, None where it is absent or unreadable."""
    try:
        return plain(item.attrs[name]) if name in item.attrs else None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def plain(value: Any) -> Any:
    """h5py's value as str, int, float, bool or a list of them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, numpy.ndarray):
        listed = [plain(element) for element in value.ravel().tolist()]
        return listed[0] if value.ndim == 0 else listed
    if isinstance(value, numpy.generic):
        return plain(value.item())
    return value


def for_mapping(name: str) -> str:
    """A file's or dataset's name as the source of a virtual dataset has it: there %b stands for a number."""
    return name.replace("%", "%%")


def from_mapping(name: str) -> str:
    """The name that for_mapping() made this of."""
    return name.replace("%%", "%")


def item_at(file: h5py.Group, path: str) -> Any:
    """The object at `path`; None where there is none, or behind a link that leads nowhere or to no file."""
    try:
        return None if _leads_to_no_file(file, path) else file.get(path)
    except (OSError, RuntimeError, KeyError, ValueError):
        return None


def _leads_to_no_file(group: h5py.Group, path: str) -> bool:
    """Whether a link on the way names a pipe, a device or a folder: at a pipe HDF5 would wait for ever."""
    at: Any = group.file["/"] if path.startswith("/") else group
    for part in filter(None, path.split("/")):
        if not isinstance(at, h5py.Group):
            return False
        link = at.get(part, getlink=True)
        if (
            isinstance(link, h5py.ExternalLink)
            and file_behind(Path(at.file.filename), link.filename)[1] == _NO_FILE
        ):
            return True
        at = at.get(part)
    return False


_NO_FILE = "is no regular file, and not opened"


def file_behind(path: Path, name: str) -> tuple[Path | None, str]:
    """The file that a link in the file at `path` names, where HDF5 looks for it; or why there is none.

    A symbolic link counts as what it leads to. What is no regular file is not to be opened.
    """
    why = "is not there"
    for folder in dict.fromkeys((path.parent, path.resolve().parent)):
        try:
            mode = (folder / name).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = f"cannot be looked at: {getattr(error, 'strerror', None) or error}"
            continue
        if stat.S_ISREG(mode):
            return folder / name, ""
        why = _NO_FILE
    return None, why


def children_of_class(group: h5py.Group, nx_class: str) -> list[tuple[str, h5py.Group]]:
    """The direct child groups with that NX_class, in the order of their names."""
    found = []
    for name in sorted(group):
        child = item_at(group, name)
        if isinstance(child, h5py.Group) and attribute_of(child, "NX_class") == nx_class:
            found.append((name, child))
    return found


def stored_frames(dataset: h5py.Dataset) -> h5py.Dataset:
    """The dataset that holds them: of a virtual one that shows parts of another one of its file, that one."""
    if not dataset.is_virtual:
        return dataset
    properties = dataset.id.get_create_plist()
    count = properties.get_virtual_count()
    if not 0 < count <= ELEMENTS_MAX or {properties.get_virtual_filename(i) for i in range(count)} != {"."}:
        return dataset
    names = {from_mapping(properties.get_virtual_dsetname(i)) for i in range(count)}
    held = item_at(dataset.file, names.pop()) if len(names) == 1 else None
    return held if isinstance(held, h5py.Dataset) and not held.is_virtual else dataset


def raw_bytes_stored(dataset: h5py.Dataset) -> int:
    """The bytes that the stored chunks expand to, without what reaches beyond the dataset's edges."""
    if dataset.is_virtual:
        return 0
    if dataset.chunks is None:
        return int(dataset.id.get_storage_size())
    shape, chunks = dataset.shape, dataset.chunks
    item_bytes = int(dataset.dtype.itemsize)
    if all(extent % length == 0 for extent, length in zip(shape, chunks, strict=True)):
        return int(dataset.id.get_num_chunks() * math.prod(chunks) * item_bytes)
    values = 0

    def add(chunk: h5py.h5d.StoreInfo) -> None:
        nonlocal values
        edges = zip(shape, chunks, chunk.chunk_offset, strict=True)
        values += math.prod(min(length, extent - first) for extent, length, first in edges)

    dataset.id.chunk_iter(add)
    return int(values * item_bytes)


def filters_of(dataset: h5py.Dataset) -> list[str]:
    """The filter pipeline in words: "bitshuffle-lz4"."""
    properties = dataset.id.get_create_plist()
    names = []
    for position in range(properties.get_nfilters()):
        number, _, parameters, _ = properties.get_filter(position)
        name = FILTER_NAMES.get(number, f"filter {number}")
        if number == 32008 and len(parameters) >= 5:
            name += {2: "-lz4", 3: "-zstd"}.get(parameters[4], "")
        names.append(name)
    return names
