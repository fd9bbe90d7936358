"""The files of /proc and /sys, and facts out of them."""

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path

from penstock.files.tools import Seen
from penstock.model.plan.datasheet import Fact, FactGroup, Unit, Value
from penstock.model.problems import reason_of

_PIECE_BYTES, _PIECES_MAX = 1 << 16, 64


class System:
    """Reads below `root`; another one than / is a copy of some other machine's files."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> Seen:
        """The first megabytes of a file, or why they cannot be read."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                # In pieces: the kernel makes room for as much as is asked for.
                pieces = iter(lambda: file.read(_PIECE_BYTES), b"")
                text = b"".join(itertools.islice(pieces, _PIECES_MAX)).decode("utf-8", "replace")
        except OSError as error:
            return Seen(None, name, reason_of(error))
        return Seen(text, name)

    def text(self, name: str) -> str:
        """As read, "" where there is nothing."""
        return (self.read(name).text or "").strip()

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing where it cannot be read."""
        with contextlib.suppress(OSError):
            return sorted(path.name for path in self.path(folder).iterdir())
        return []

    def is_there(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return self.path(name).exists()
        return False

    def real(self, name: str) -> str:
        """The path that links lead to, below the root."""
        found = self.path(name).resolve()
        root = self.root.resolve()
        return f"/{found.relative_to(root)}" if found.is_relative_to(root) else name


Parse = Callable[[str], Value | None]


def _line(text: str) -> str:
    """One line that a terminal shows as it is: models and mount points are anybody's bytes."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


class Facts:
    """Gathers the facts of a group."""

    def __init__(self, key: str, title: str) -> None:
        self._key, self._title = key, title
        self._facts: list[Fact] = []

    def add(self, name: str, seen: Seen, parse: Parse = str.strip, unit: Unit = "") -> None:
        """What `parse` makes of a source's text; unknown where it makes none of it."""
        if seen.text is None:
            self.unknown(name, seen.source, seen.why)
            return
        value = parse(seen.text)
        if value is None or value == "":
            said = _line(seen.text)[:80]
            self.unknown(name, seen.source, f"it says {said!r}" if said else "it is empty")
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
