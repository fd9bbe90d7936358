"""The tree of an HDF5 file in lines: as much as fits a screen, or all of it with attributes and values."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import h5py

from penstock.files.aside import show_life
from penstock.files.hdf5 import attribute_of, item_at, lies_elsewhere, names_of, plain
from penstock.model.errors import UsageError
from penstock.model.text import one_short_line

ITEMS_MAX = 100_000
DEPTH_MAX = 32
_LINES_MAX = 30
_VALUES_SHOWN = 8
_VALUES_READ_MAX = 1 << 20
_NOT_READ = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # of damaged files


def items_of(file: h5py.File) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All that hard links lead to, each once, with its path: level by level, and in the order of names.

    Bounded in depth and number, since a file may be made endless. A virtual dataset is left out whose size
    is unknown.
    """
    level: list[tuple[tuple[str, ...], h5py.Group]] = [((), file["/"])]
    seen = {_identity(file["/"])}
    for _ in range(DEPTH_MAX):
        below: list[tuple[tuple[str, ...], h5py.Group]] = []
        for parts, group in level:
            for name, item in _held_by(group):
                if (key := _identity(item)) in seen:
                    continue
                if len(seen) > ITEMS_MAX:
                    return
                seen.add(key)
                yield (*parts, name), item
                if isinstance(item, h5py.Group):
                    below.append(((*parts, name), item))
        level = below


def _held_by(group: h5py.Group) -> Iterator[tuple[str, Any]]:
    with contextlib.suppress(*_NOT_READ):
        for name in group:
            show_life()
            with contextlib.suppress(*_NOT_READ):
                if isinstance(group.get(name, getlink=True), h5py.HardLink):
                    item = item_at(group, name)
                    if item is not None:
                        yield name, item


def _identity(item: Any) -> tuple[int, int]:
    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def tree_of(file: h5py.File) -> list[str]:
    """The groups and datasets, one a line, down to what fits a screen."""
    lines: list[tuple[tuple[str, ...], str]] = []
    for parts, item in items_of(file):
        lines.append((parts, "  " * (len(parts) - 1) + _label(parts[-1], item)))
    lines.sort()
    depth = 6
    while depth > 1 and sum(len(parts) <= depth for parts, _ in lines) > _LINES_MAX:
        depth -= 1
    shown = [label for parts, label in lines if len(parts) <= depth]
    hidden = len(lines) - min(len(shown), _LINES_MAX)
    more = "at least " if len(lines) >= ITEMS_MAX or any(len(p) == DEPTH_MAX for p, _ in lines) else ""
    return shown[:_LINES_MAX] + (
        [f"… and {more}{hidden} more; --all shows them, --tree PATH those below a group"] if hidden else []
    )


def whole_tree(file: h5py.File, path: str = "/") -> list[str]:
    """Returns all that is at and below `path`, with attributes, links, and values (the first eight).

    UsageError: nothing is at `path`. Ends after 100 000 objects, and 32 levels.
    """
    item = item_at(file, path)
    if not isinstance(item, h5py.Group | h5py.Dataset):
        raise UsageError(
            f"--tree {path}: {file.filename} has no such group or dataset",
            f"`penstock info --all {file.filename}` shows its tree",
        )
    lines: list[str] = []
    for number, line in enumerate(_Walk().lines("/" + path.strip("/"), item, 0)):
        if number == ITEMS_MAX:
            return [*lines, f"… and more than these {ITEMS_MAX} lines"]
        lines.append(line)
    return lines


class _Walk:
    """Groups that were shown; what a second hard link leads to is not shown again."""

    def __init__(self) -> None:
        self._shown: dict[tuple[int, int], str] = {}

    def lines(self, name: str, item: Any, depth: int) -> Iterator[str]:
        show_life()
        indent = "  " * depth
        first = self._shown.setdefault(_identity(item), item.name)
        if first != item.name:
            yield f"{indent}{one_short_line(name)} = {one_short_line(first)}"
            return
        yield indent + _label(name, item) + _value(item)
        yield from (f"{indent}  @{text}" for text in _attributes(item))
        if not isinstance(item, h5py.Group):
            return
        if depth == DEPTH_MAX:
            yield f"{indent}  …"
            return
        with contextlib.suppress(*_NOT_READ):
            for each in names_of(item):
                yield from self._linked(item, each, depth + 1)

    def _linked(self, group: h5py.Group, name: str, depth: int) -> Iterator[str]:
        indent = "  " * depth
        try:
            link = group.get(name, getlink=True)
            item = item_at(group, name) if isinstance(link, h5py.HardLink) else None
        except _NOT_READ:
            link, item = None, None
        if item is not None:
            yield from self.lines(name, item, depth)
        elif isinstance(link, h5py.SoftLink):
            yield f"{indent}{one_short_line(name)} -> {one_short_line(link.path)}"
        elif isinstance(link, h5py.ExternalLink):
            yield f"{indent}{one_short_line(name)} -> {one_short_line(f'{link.filename}:{link.path}')}"
        else:
            yield f"{indent}{one_short_line(name)}  unreadable"


def _label(name: str, item: Any) -> str:
    if isinstance(item, h5py.Dataset):
        shape = " x ".join(map(str, item.shape)) if item.shape else "scalar"
        return f"{one_short_line(name)}  {shape} {item.dtype.name if item.dtype.kind != 'O' else 'text'}"
    nx_class = attribute_of(item, "NX_class")
    slash = one_short_line(name).rstrip("/") + "/"
    return f"{slash}  {one_short_line(nx_class)}" if isinstance(nx_class, str) else slash


def _attributes(item: Any) -> Iterator[str]:
    with contextlib.suppress(*_NOT_READ):
        for name in sorted(item.attrs):
            if name == "NX_class":
                continue
            value = attribute_of(item, name)
            shown = "unreadable" if value is None else _in_words(value)
            yield f"{one_short_line(str(name))} = {shown}"


def _value(item: Any) -> str:
    """The first values of a small dataset that lies in this file."""
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind == "V":
        return ""
    try:
        if lies_elsewhere(item) or not item.size or item.ndim > 1 or item.nbytes > _VALUES_READ_MAX:
            return ""
        value = plain(item[: _VALUES_SHOWN + 1] if item.shape else item[()])
    except _NOT_READ:
        return "  unreadable"
    if isinstance(value, list) and len(value) > _VALUES_SHOWN:
        return f" = {_in_words(value[:_VALUES_SHOWN])[:-1]}, …]"
    return f" = {_in_words(value)}"


def _in_words(value: Any) -> str:
    if isinstance(value, str):
        return f'"{one_short_line(value)}"'
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return f"[{', '.join(_in_words(each) for each in value[:_VALUES_SHOWN])}]"
    return one_short_line(str(value))
