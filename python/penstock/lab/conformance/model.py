"""Random operations of two clients, each answer compared with that of a model in memory."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from penstock.lab.conformance.check import Place, opened, require, write_at

_OPERATIONS, _NAMES, _BYTES_MAX = 600, 12, 200_000


class _Model:
    """Files by name, and folders, below one folder."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.folders: set[str] = {""}

    def inside(self, folder: str) -> list[str]:
        return sorted(
            each.rpartition("/")[2]
            for each in [*self.files, *self.folders - {""}]
            if each.rpartition("/")[0] == folder
        )


def random_operations(place: Place) -> str:
    """Replay a failure with the seed that it names."""
    seed = int(os.environ.get("PENSTOCK_CONFORMANCE_SEED", random.SystemRandom().randrange(1 << 32)))
    choice, model = random.Random(seed), _Model()
    for number in range(_OPERATIONS):
        at = choice.choice((place.first, place.second))
        other = place.second if at == place.first else place.first
        said = ""
        try:
            said = _operate(choice, model, at)
            found = _compare(choice, model, other)
        except OSError as error:
            found = f"{error.strerror} ({error.filename})"
        require(not found, f"seed {seed}, operation {number + 1} ({said}): {found}")
    for name in sorted(model.files):
        require(
            (place.second / name).read_bytes() == bytes(model.files[name]), f"seed {seed}, at the end: {name}"
        )
    return f"{_OPERATIONS} operations of two clients by turns, seed {seed}: as the model says"


def _operate(choice: random.Random, model: _Model, at: Path) -> str:
    name = _name(choice, model)
    kind = choice.choices(list(_KINDS), weights=[weight for weight, _ in _KINDS.values()])[0]
    return _KINDS[kind][1](choice, model, at, name) or f"nothing ({kind} {name})"


def _truncate(choice: random.Random, model: _Model, at: Path, name: str) -> str:
    if name not in model.files:
        return ""
    size = choice.randrange(_BYTES_MAX)
    os.truncate(at / name, size)
    data = model.files[name]
    data[size:] = b""
    data.extend(bytes(size - len(data)))
    return f"truncate {name} to {size}"


def _unlink(_: random.Random, model: _Model, at: Path, name: str) -> str:
    if name not in model.files:
        return ""
    (at / name).unlink()
    del model.files[name]
    return f"unlink {name}"


def _mkdir(_: random.Random, model: _Model, at: Path, name: str) -> str:
    if name in model.files or name in model.folders:
        return ""
    (at / name).mkdir()
    model.folders.add(name)
    return f"mkdir {name}"


def _write(choice: random.Random, model: _Model, at: Path, name: str) -> str:
    if name in model.folders:
        return ""
    offset, length = choice.randrange(_BYTES_MAX), choice.randrange(1, 20_000)
    data = choice.randbytes(length)
    with opened(at / name, os.O_WRONLY | os.O_CREAT) as handle:
        write_at(handle, data, offset)
    held = model.files.setdefault(name, bytearray())
    held.extend(bytes(max(0, offset - len(held))))
    held[offset : offset + length] = data
    return f"write {length} bytes into {name} at {offset}"


def _rename(choice: random.Random, model: _Model, at: Path, name: str) -> str:
    if name not in model.files:
        return ""
    to = _name(choice, model)
    if to in model.folders:
        try:
            (at / name).rename(at / to)
        except OSError:
            return f"rename {name} to the folder {to}, refused"
        require(False, f"{name} was renamed over the folder {to}")
    (at / name).rename(at / to)
    model.files[to] = model.files.pop(name)
    return f"rename {name} to {to}"


def _rmdir(_: random.Random, model: _Model, at: Path, name: str) -> str:
    if name not in model.folders:
        return ""
    if model.inside(name):
        try:
            (at / name).rmdir()
        except OSError:
            return f"rmdir {name}, which is not empty, refused"
        require(False, f"the folder {name} was removed with what is in it")
    (at / name).rmdir()
    model.folders.discard(name)
    return f"rmdir {name}"


_Operation = Callable[[random.Random, _Model, Path, str], str]
# By weight; each returns what it did, empty for nothing.
_KINDS: dict[str, tuple[int, _Operation]] = {
    "write": (8, _write),
    "truncate": (2, _truncate),
    "rename": (3, _rename),
    "unlink": (2, _unlink),
    "mkdir": (1, _mkdir),
    "rmdir": (1, _rmdir),
}


def _name(choice: random.Random, model: _Model) -> str:
    folder = choice.choice(sorted(model.folders))
    last = f"n{choice.randrange(_NAMES)}"
    return f"{folder}/{last}" if folder and folder.count("/") < 2 else last


def _compare(choice: random.Random, model: _Model, at: Path) -> str:
    """Something that the other client is asked; empty if it is right."""
    folder = choice.choice(sorted(model.folders))
    listed = sorted(path.name for path in (at / folder).iterdir())
    if listed != model.inside(folder):
        return f"the other client lists {listed} in {folder or 'the folder'}, not {model.inside(folder)}"
    if not model.files:
        return ""
    name = choice.choice(sorted(model.files))
    data = (at / name).read_bytes()
    if data != bytes(model.files[name]):
        return (
            f"the other client reads {len(data)} other bytes from {name}, which has {len(model.files[name])}"
        )
    return ""
