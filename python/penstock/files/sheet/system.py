"""Reads files of /proc and /sys, and gathers facts from them."""

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path

from penstock.files.tools import Seen
from penstock.model.plan.datasheet import Fact, FactGroup, Unit, Value
from penstock.model.problems import reason_of

_PIECE_BYTES, _PIECES_MAX = 1 << 16, 64


class System:
    """Reads below `root`; a root other than / is a copy of another machine's files."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> Seen:
        """Returns the first megabytes of a file, or the reason why they cannot be read."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                # In pieces: the kernel makes room for as much as is asked for.
                pieces = iter(lambda: file.read(_PIECE_BYTES), b"")
                text = b"".join(itertools.islice(pieces, _PIECES_MAX)).decode("utf-8", "replace")
        except OSError as error:
            return Seen(None, name, reason_of(error))
        return Seen(text, name)

    def text(self, name: str) -> str:
        """Returns the file's stripped text; "" if it cannot be read."""
        return (self.read(name).text or "").strip()

    def names(self, folder: str) -> list[str]:
        """Returns the sorted names in a directory; none if it cannot be read."""
        with contextlib.suppress(OSError):
            return sorted(path.name for path in self.path(folder).iterdir())
        return []

    def is_there(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return self.path(name).exists()
        return False

    def real(self, name: str) -> str:
        """Returns the path after following links, below the root."""
        found = self.path(name).resolve()
        root = self.root.resolve()
        return f"/{found.relative_to(root)}" if found.is_relative_to(root) else name


Parse = Callable[[str], Value | None]


def _line(text: str) -> str:
    """Returns the text as one printable line: models and mount points may contain any bytes."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


class Facts:
    """Gathers the facts of a group."""

    def __init__(self, key: str, title: str) -> None:
        self._key, self._title = key, title
        self._facts: list[Fact] = []

    def add(self, name: str, seen: Seen, parse: Parse = str.strip, unit: Unit = "") -> None:
        """Adds the value that `parse` returns for the source's text; unknown if it returns None."""
        if seen.text is None:
            self.unknown(name, seen.source, seen.why)
            return
        value = parse(seen.text)
        if value is None or value == "":
            said = _line(seen.text)[:80]
            self.unknown(name, seen.source, f"unexpected value {said!r}" if said else "the source is empty")
            return
        self.know(name, value, seen.source, "" if isinstance(value, str) else unit)

    def know(self, name: str, value: Value, source: str, unit: Unit = "") -> None:
        shown = _line(value) if isinstance(value, str) else value
        self._facts.append(Fact(name=name, value=shown, unit=unit, source=_line(source)))

    def unknown(self, name: str, source: str, why: str) -> None:
        why = _line(why) or "no output"
        self._facts.append(Fact(name=name, value=None, source=_line(source), unknown=why))

    def group(self) -> FactGroup:
        return FactGroup(key=self._key, title=self._title, facts=self._facts)
