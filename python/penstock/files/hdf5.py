"""Small helpers around h5py: foreign files hold anything, so every reading is guarded."""

import contextlib
import ctypes
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy

from penstock.files.aside import may_read_here, require_file
from penstock.model.errors import PenstockError
from penstock.model.plans import ELEMENTS_MAX
from penstock.model.problems import reason_of
from penstock.model.text import recover_command

FILTER_NAMES = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 32000: "lzf"} | {
    number: "bitshuffle" if name == "bshuf" else name for name, number in hdf5plugin.FILTERS.items()
}

_SEGMENT = b"\x89PENSEG\n"  # docs/reference/format.md
_PAGE_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_SEARCHED_BYTES = 64 << 20


def use_no_plugins() -> None:
    """From now on HDF5 expands nothing through plug-ins in this process; what needs one is unreadable."""
    while h5py.h5pl.size():
        h5py.h5pl.remove(0)
    for number in hdf5plugin.FILTERS.values():
        with contextlib.suppress(ValueError, RuntimeError):  # not registered
            h5py.h5z.unregister_filter(number)


@contextlib.contextmanager
def open_for_reading(path: Path) -> Iterator[h5py.File]:
    """Opens the file, also while it is being written. Errors say what is wrong with it and what to do.

    Only in a child of run_aside(): the file may make HDF5 crash or hang.
    """
    require_file(path)
    if not may_read_here():
        raise RuntimeError(f"{path} is opened outside run_aside()")
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
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
    access.set_file_locking(False, True)
    # HDF5 reads a block with a wrong checksum again, by default 100 times with pauses that double: for ever.
    # After this many it has waited 17 ms. h5py does not offer the call.
    ctypes.CDLL(h5py.h5p.__file__).H5Pset_metadata_read_attempts(ctypes.c_int64(access.id), ctypes.c_uint(24))
    flags = h5py.h5f.ACC_RDONLY | h5py.h5f.ACC_SWMR_READ
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, access))


_UNFINISHED_REBUILD = b"penstock recover is not finished"  # as native/check/structures/superblock.hpp has it


def _is_being_rebuilt(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(_UNFINISHED_REBUILD)) == _UNFINISHED_REBUILD
    return False


def _is_marked_open(error: OSError) -> bool:
    return "already open for" in str(error) or "file is open for" in str(error).lower()


def _explain_no_signature(path: Path) -> PenstockError:
    if _is_being_rebuilt(path):
        return PenstockError(
            f"{path}: the recovery is not finished",
            f"free space if its storage is full, then run {recover_command(path)} again",
        )
    if _has_segments(path):
        return PenstockError(
            f"{path} is corrupt: it does not begin with HDF5's signature, though Penstock recorded it",
            "copy it again from its source; if this is the only copy, `penstock recover` rebuilds its HDF5"
            " structures",
        )
    return PenstockError(
        f"{path} is not an HDF5 file",
        "name a file that `penstock record` or another program wrote as HDF5",
    )


def _explain(path: Path, error: OSError) -> PenstockError:
    text = str(error)
    if "signature not found" in text:
        return _explain_no_signature(path)
    if _is_marked_open(error):
        return PenstockError(
            f"{path} was not closed: a program is writing it, or died while writing it",
            f"wait for the writer; if it died, `penstock check {path}` reports the contents of the file",
        )
    if "truncated file" in text:
        found = re.search(r"\beof = (\d+).*stored_eof = (\d+)", text)
        lengths = f": it has {found[1]} of {found[2]} bytes" if found else ""
        return PenstockError(
            f"{path} is truncated{lengths}",
            "copy it again from its source; if Penstock recorded it and this is the only copy,"
            " `penstock recover --salvage` keeps the frames that are there",
        )
    if why := _of_the_system(error):
        return PenstockError(f"{path} cannot be opened: {why}", "check its permissions and its storage")
    return PenstockError(
        f"{path} cannot be opened: its HDF5 structures are corrupt",
        "copy it again from its source; `penstock recover` repairs a file that Penstock recorded",
    )


def _has_segments(path: Path) -> bool:
    """Returns whether a segment's header is near the file's start, where Penstock writes the first one."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for _ in range(_SEARCHED_BYTES // _BLOCK_BYTES):
            block = file.read(_BLOCK_BYTES)
            if any(block.startswith(_SEGMENT, page) for page in range(0, len(block), _PAGE_BYTES)):
                return True
            if len(block) < _BLOCK_BYTES:
                break
    return False


def _of_the_system(error: OSError) -> str:
    """What the operating system says, which h5py has in its text; "" where it is HDF5 that fails."""
    found = re.search(r"error message = '([^']+)'", str(error))
    return found[1] if found else reason_of(error) if error.errno else ""


def value_of(group: h5py.Group, path: str) -> Any:
    """A small dataset's value as Python data, None where it is absent, unreadable or in another file."""
    try:
        dataset = item_at(group, path)
        if not isinstance(dataset, h5py.Dataset) or lies_elsewhere(dataset):
            return None
        return None if dataset.size is None or dataset.size > 64 else plain(dataset[()])
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def lies_elsewhere(dataset: h5py.Dataset) -> bool:
    """Whether to read it is to open what it names: it is virtual, or its bytes are in other files."""
    return bool(dataset.is_virtual or dataset.id.get_create_plist().get_external_count())


def attribute_of(item: Any, name: str) -> Any:
    """An attribute as Python data, None where it, or the item, is absent or unreadable."""
    if item is None:
        return None
    try:
        return plain(item.attrs[name]) if name in item.attrs else None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def plain(value: Any) -> Any:
    """h5py's value as str, int, float, bool or a list of them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):  # h5py keeps bytes of a text that are not UTF-8 as lone surrogates
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, numpy.ndarray):
        listed = [plain(element) for element in value.ravel().tolist()]
        return listed[0] if value.ndim == 0 else listed
    if isinstance(value, numpy.generic):
        return plain(value.item())
    return value


def set_text(item: Any, name: str, text: str) -> None:
    """Writes a text attribute of variable length: ASCII if possible, otherwise UTF-8.

    durin cannot read UTF-8 and pynxtools no fixed length. Bytes that are not UTF-8 are replaced.
    """
    shown = plain(text)
    item.attrs.create(name, shown, dtype=h5py.string_dtype("ascii" if shown.isascii() else "utf-8"))


def naming(name: str) -> h5py.h5p.PropLCID:
    """Returns link properties for h5py's lower half that mark a name as UTF-8, unless it is ASCII."""
    properties = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    if not name.isascii():
        properties.set_char_encoding(h5py.h5t.CSET_UTF8)
    return properties


def make_attribute(
    item: "h5py.h5g.GroupID | h5py.h5d.DatasetID", name: str, kind: h5py.h5t.TypeID, space: h5py.h5s.SpaceID
) -> h5py.h5a.AttrID:
    """Creates an attribute whose name is marked as UTF-8, unless it is ASCII: h5py has no call for that."""
    if name.isascii():
        return h5py.h5a.create(item, name.encode(), kind, space)
    library = ctypes.CDLL(h5py.h5p.__file__)
    library.H5Pcreate.restype = library.H5Acreate2.restype = ctypes.c_int64
    creation = ctypes.c_int64.in_dll(library, "H5P_CLS_ATTRIBUTE_CREATE_ID_g")
    properties = ctypes.c_int64(library.H5Pcreate(creation))
    library.H5Pset_char_encoding(properties, ctypes.c_int(h5py.h5t.CSET_UTF8))
    numbers = (ctypes.c_int64(each.id) for each in (kind, space))
    made = library.H5Acreate2(ctypes.c_int64(item.id), name.encode(), *numbers, properties, ctypes.c_int64(0))
    library.H5Pclose(properties)
    if made < 0:
        raise OSError(f"HDF5 does not create the attribute {name}")
    library.H5Aclose(ctypes.c_int64(made))
    return h5py.h5a.open(item, name.encode())


def for_mapping(name: str) -> str:
    """A file's or dataset's name as the source of a virtual dataset has it: there %b stands for a number."""
    return name.replace("%", "%%")


def from_mapping(name: str) -> str:
    """The name that for_mapping() made this of."""
    return name.replace("%%", "%")


def item_at(file: h5py.Group, path: str) -> Any:
    """The object at `path`; None where there is none, or behind a link that leads nowhere or to no file.

    Links are followed here and not by HDF5: at a pipe it would wait for ever, and it looks for files in more
    places than beside the one with the link. None of a virtual dataset, too, whose size is unknown
    without such a file, or since one of its files is damaged: a member that was just being made in a crash.
    """
    try:
        item = _found(file, path, _Hops())
        if isinstance(item, h5py.Dataset) and item.is_virtual:
            if not _may_be_looked_at(item, _Hops()):
                return None
            item.id.get_space()  # HDF5 opens the files
        return item
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


_LINKS_IN_A_ROW_MAX = 64
_VIRTUAL_DATASETS_MAX = 4096
_FILES_OF_A_PATTERN_MAX = 65_536


class _Hops:
    """Counts the links on the way to one object: a file may be made to lead round in circles.

    Not `into_files`: a link into another file is an error, as where HDF5 follows links by itself.
    """

    def __init__(self, into_files: bool = True) -> None:
        self.into_files = into_files
        self._left = _LINKS_IN_A_ROW_MAX
        self._virtual: set[tuple[int, int]] = set()

    def count(self) -> None:
        """A ValueError where there were too many."""
        if not self._left:
            raise ValueError("links form a loop")
        self._left -= 1

    def is_new(self, dataset: h5py.Dataset) -> bool:
        """Whether a virtual dataset is come to for the first time. A ValueError where there were too many."""
        if len(self._virtual) >= _VIRTUAL_DATASETS_MAX:
            raise ValueError("virtual datasets are nested too deeply")
        info = h5py.h5o.get_info(dataset.id)
        key = (info.fileno, info.addr)
        is_new = key not in self._virtual
        self._virtual.add(key)
        return is_new


def _found(group: h5py.Group, path: str, hops: _Hops) -> Any:
    """What is at `path`, with links of all files on the way looked at before they are followed."""
    at: Any = group.file["/"] if path.startswith("/") else group
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if not isinstance(at, h5py.Group):
            return None
        at = _step(at, part, hops)
    return at


def _step(group: h5py.Group, name: str, hops: _Hops) -> Any:
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.HardLink):
        return group[name]
    hops.count()
    if isinstance(link, h5py.SoftLink):
        return _found(group, link.path, hops)
    if not isinstance(link, h5py.ExternalLink):
        return None
    if not hops.into_files:
        raise ValueError("a link leads into another file")
    target = file_behind(Path(group.file.filename), link.filename)[0]
    # Closed by HDF5 when nobody has an object of it any more.
    return None if target is None else _found(_open(target)["/"], link.path, hops)


def may_be_read(dataset: h5py.Dataset) -> bool:
    """Whether to read a dataset opens no pipe or the like; of a virtual one all sources are looked at."""
    try:
        if dataset.is_virtual:
            return _may_be_looked_at(dataset, _Hops(), every=True)
        return not lies_elsewhere(dataset)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return False


def _may_be_looked_at(dataset: h5py.Dataset, hops: _Hops, every: bool = False) -> bool:
    """Whether none of a virtual dataset's sources is a pipe: HDF5 opens them to determine its length.

    Those of a fixed length it opens only when they are read: `every` is with these.
    """
    properties = dataset.id.get_create_plist()
    path = Path(dataset.file.filename)
    mapped = range(properties.get_virtual_count())
    named = {name: _files_named(path, name) for name in set(map(properties.get_virtual_filename, mapped))}
    if any(_is_in_the_way(path, each) for names in named.values() for each in names if each != "."):
        return False
    opened = [i for i in mapped if every or _is_unlimited(properties.get_virtual_vspace(i))]
    sources = {(properties.get_virtual_filename(i), properties.get_virtual_dsetname(i)) for i in opened}
    return all(
        _leads_to_a_dataset(dataset, each, source, hops, every)
        for name, source in sources
        for each in named[name]
    )


def _leads_to_a_dataset(dataset: h5py.Dataset, file: str, path: str, hops: _Hops, every: bool) -> bool:
    """Or to nothing at all, within the file itself or in another one: not to a pipe."""
    if _has_numbers(path):  # no recorder of Penstock writes such
        return False
    try:
        item = _found(_root_of(dataset, file), from_mapping(path), _Hops(into_files=False))
    except (OSError, KeyError):
        return True
    except ValueError:
        return False
    if not isinstance(item, h5py.Dataset):
        return True
    if not item.is_virtual:
        return not (every and lies_elsewhere(item))
    return not hops.is_new(item) or _may_be_looked_at(item, hops, every)


def _root_of(dataset: h5py.Dataset, file: str) -> h5py.Group:
    """Of the file that a virtual dataset names so. An OSError where there is none."""
    if file == ".":
        return dataset.file["/"]
    target, why = file_behind(Path(dataset.file.filename), file)
    if target is None:
        raise OSError(why)
    return _open(target)["/"]


def _is_unlimited(space: h5py.h5s.SpaceID) -> bool:
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return False
    _, _, counts, blocks = space.get_regular_hyperslab()
    return h5py.h5s.UNLIMITED in (*counts, *blocks)


def _has_numbers(name: str) -> bool:
    """Whether it is a pattern: %b stands for the number of a block."""
    return "%b" in name.replace("%%", "")


def _files_named(path: Path, name: str) -> list[str]:
    """The files that a mapping of the file at `path` names.

    For a pattern HDF5 takes one after the other, to the first that does not exist: so the file of a series in
    several parts shows them while it grows. A ValueError where a pattern has too many.
    """
    if not _has_numbers(name):
        return [from_mapping(name)]
    pieces = re.split("(%%|%b)", name)
    names: list[str] = []
    for number in map(str, range(_FILES_OF_A_PATTERN_MAX)):
        stands_for = {"%%": "%", "%b": number}
        each = "".join(stands_for.get(piece, piece) for piece in pieces)
        if not any(map(os.path.exists, _places_of(path, each))):
            return names
        names.append(each)
    raise ValueError(f"{name} refers to too many files")


def _places_of(path: Path, name: str) -> Iterator[Path]:
    """Where HDF5 looks for a source of the file at `path`."""
    folders = dict.fromkeys((path.parent, path.resolve().parent, Path()))
    return (folder / each for each in dict.fromkeys((name, Path(name).name)) for folder in folders)


def _is_in_the_way(path: Path, name: str) -> bool:
    """Whether HDF5 would come to a pipe or the like where it looks for a source of the file at `path`."""
    return any(map(_is_no_file, _places_of(path, name)))


def _is_no_file(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


_NO_FILE = "is not a regular file"


def file_behind(path: Path, name: str) -> tuple[Path | None, str]:
    """The file that a link in the file at `path` names, beside it; or why there is none.

    A symbolic link counts as what it leads to. What is not a regular file is not to be opened.
    """
    why = "does not exist"
    for folder in (path.parent, path.resolve().parent) if path.is_symlink() else (path.parent,):
        try:
            mode = (folder / name).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = f"cannot be examined: {reason_of(error)}"
            continue
        if stat.S_ISREG(mode):
            return folder / name, ""
        why = _NO_FILE
    return None, why


def names_of(group: h5py.Group) -> list[str]:
    """The names of its links in order, without those that are not UTF-8, which h5py gives as bytes."""
    return sorted(name for name in group if isinstance(name, str))


def children_of_class(group: h5py.Group, nx_class: str) -> list[tuple[str, h5py.Group]]:
    """The direct child groups with that NX_class, in the order of their names."""
    found = []
    for name in names_of(group):
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
