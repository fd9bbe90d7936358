"""The catalogue of runs: an SQLite database that says where documents lie. An index, and nothing else.

Deleting it loses nothing. Several processes may write at once: each change is one transaction, and waits for
those of others.
"""

import errno
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from penstock.model.bench.entries import Entry, Kind, Listed, ListedValidity, State
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of

VARIABLE = "PENSTOCK_CATALOGUE"
_WAITS_S = 20.0
# Says whose database it is ("Pens"); user_version counts the steps below that were taken.
_APPLICATION = 0x50656E73
_STEPS: tuple[str, ...] = (
    """
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        path TEXT NOT NULL UNIQUE,
        sha256 TEXT NOT NULL,
        entered TEXT NOT NULL,
        started TEXT NOT NULL,
        kind TEXT NOT NULL,
        workload TEXT NOT NULL,
        host TEXT NOT NULL,
        validity TEXT,
        entry TEXT NOT NULL
    );
    CREATE INDEX documents_by_sha256 ON documents (sha256);
    """,
)
_REMEDY = "move it away; `penstock runs add FOLDER` rebuilds it from the documents"

# Of SQLite: the file is whole, as far as it knows.
_REFUSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM)

Outcome = Literal["new", "known", "changed", "moved"]


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """PENSTOCK_CATALOGUE, or a file in the XDG data folder."""
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "penstock" / "catalogue.sqlite"


@dataclass(frozen=True)
class Filter:
    """None: any. `since` is ISO 8601; `target` is a folder, and stands for those below it too.

    `validity` is that of the worst run, or incomplete: what ended before its time, whatever its runs are.
    """

    kind: Kind | None = None
    workload: str | None = None
    host: str | None = None
    target: str | None = None
    since: str | None = None
    validity: ListedValidity | None = None


class Catalogue:
    """Made where it does not exist, when the first document is entered. Errors are PenstockErrors."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry) -> Outcome:
        """Enters a document, or what has become of it: its path is there once, whatever it holds."""
        with self._opened(writes=True) as database:
            before = database.execute("SELECT sha256 FROM documents WHERE path = ?", (entry.path,)).fetchone()
            if before is not None:
                self._replace(database, entry, entry.path)
                return "known" if before[0] == entry.sha256 else "changed"
            same = database.execute("SELECT path FROM documents WHERE sha256 = ?", (entry.sha256,))
            left = next((path for (path,) in same if not os.path.lexists(path)), None)
            if left is not None:
                self._replace(database, entry, left)
                return "moved"
            database.execute(
                "INSERT INTO documents"
                " (sha256, started, kind, workload, host, validity, entry, path, entered)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*_columns(entry), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())),
            )
            return "new"

    @staticmethod
    def _replace(database: sqlite3.Connection, entry: Entry, path: str) -> None:
        database.execute(
            "UPDATE documents SET sha256 = ?, started = ?, kind = ?, workload = ?, host = ?, validity = ?,"
            " entry = ?, path = ? WHERE path = ?",
            (*_columns(entry), path),
        )

    def documents(self, wanted: Filter | None = None) -> list[Listed]:
        """Returns the oldest run first; nothing without a run index."""
        if not os.path.lexists(self.path):
            return []
        conditions, values = _conditions(wanted or Filter())
        with self._opened(writes=False) as database:
            rows = database.execute(
                f"SELECT id, entered, entry FROM documents WHERE {conditions} ORDER BY started, id", values
            ).fetchall()
        return [self._listed(*row) for row in rows]

    def find(self, name: str) -> Listed:
        """By its number or path. A UsageError where there is none."""
        path = str(Path(name).absolute())
        for listed in self.documents():
            if name == str(listed.id) or path == listed.entry.path:
                return listed
        raise UsageError(
            f"the run index has no document {name}", "`penstock runs list` lists numbers and paths"
        )

    def forget(self, ids: Sequence[int]) -> None:
        """The entries; documents are not touched."""
        with self._opened(writes=True) as database:
            database.executemany("DELETE FROM documents WHERE id = ?", [(number,) for number in ids])

    def _listed(self, number: int, entered: str, text: str) -> Listed:
        try:
            entry = Entry.model_validate_json(text)
        except ValidationError as error:
            raise PenstockError(f"entry {number} of {self.path} cannot be read", _REMEDY) from error
        return Listed(id=number, entered=entered, state=_state_of(entry), entry=entry)

    @contextmanager
    def _opened(self, writes: bool) -> Iterator[sqlite3.Connection]:
        """One transaction; what SQLite says becomes a PenstockError that names the file."""
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as database:
                database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                self._prepare(database, writes)
                yield database
                database.execute("COMMIT")
        except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
            raise PenstockError(
                f"cannot use the run index {self.path}: {_reason_of(error)}", _remedy_of(error)
            ) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_WAITS_S, isolation_level=None)

    def _prepare(self, database: sqlite3.Connection, writes: bool) -> None:
        """A PenstockError where it is somebody else's, or newer; an older one is brought up to date."""
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and tables:
            raise PenstockError(
                f"{self.path} is not a run index of Penstock", "name another file, or move it away"
            )
        if version > len(_STEPS):
            raise PenstockError(
                f"the run index {self.path} was written by a newer version of Penstock",
                "use that, or another file",
            )
        if version == len(_STEPS):
            return
        if not writes:
            database.execute("ROLLBACK")
            database.execute("BEGIN IMMEDIATE")
            self._prepare(database, writes=True)
            return
        for step in _STEPS[version:]:
            for statement in filter(str.strip, step.split(";")):
                database.execute(statement)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {len(_STEPS)}")


def _remedy_of(error: Exception) -> str:
    """Only what is damaged is to be moved away: others may be using it, or it is not ours to write."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another command is using it: try again when it has ended"
    is_refused = code is not None and code & 0xFF in _REFUSED
    if is_refused or (isinstance(error, OSError) and error.errno not in (errno.EIO, None)):
        return f"check its permissions and the free space, or name another file with {VARIABLE}"
    return _REMEDY


def _columns(entry: Entry) -> tuple[str | None, ...]:
    """In the order in which the statements name them."""
    text = entry.model_dump_json()
    return (
        entry.sha256,
        entry.started,
        entry.kind,
        entry.workload,
        entry.host,
        entry.validity,
        text,
        entry.path,
    )


def _conditions(wanted: Filter) -> tuple[str, list[str]]:
    parts, values = ["1"], []
    for name in ("kind", "workload", "host", "validity"):
        value = getattr(wanted, name)
        if name == "validity" and value == "incomplete":
            parts.append("json_extract(entry, '$.complete') = 0")
        elif value is not None:
            parts.append(f"{name} = ?")
            values.append(value)
    if wanted.since is not None:
        parts.append("started >= ?")
        values.append(wanted.since)
    if wanted.target is not None:
        folder = str(Path(wanted.target).absolute())
        path = "json_extract(target.value, '$.path')"
        parts.append(
            f"EXISTS (SELECT 1 FROM json_each(entry, '$.targets') AS target"
            f" WHERE {path} IN (?, ?, ?)"
            f" OR substr({path}, 1, length(?)) = ? OR substr({path}, 1, length(?)) = ?)"
        )
        below = folder.rstrip("/") + "/"
        # Of the network: HOST:PORT, HOST with any port, or local.
        address = f"tcp://{wanted.target}"
        ports = f"{address}:"
        values += [folder, address, wanted.target, below, below, ports, ports]
    return " AND ".join(parts), values


def _state_of(entry: Entry) -> State:
    """Only a file whose size or time is another one is read."""
    path = Path(entry.path)
    try:
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (entry.bytes, entry.modified_ns):
            return "there"
        if status.st_size != entry.bytes:
            return "changed"
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return "there" if digest == entry.sha256 else "changed"
    except OSError:
        return "missing"


def _reason_of(error: Exception) -> str:
    """Returns why it failed, without the words of SQLite."""
    if not isinstance(error, sqlite3.Error):
        return reason_of(error) if isinstance(error, OSError) else "its path is not valid"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    reasons = {
        sqlite3.SQLITE_BUSY: "it is locked by another command",
        sqlite3.SQLITE_LOCKED: "it is locked by another command",
        sqlite3.SQLITE_NOTADB: "it is not a database",
        sqlite3.SQLITE_CORRUPT: "it is corrupt",
        sqlite3.SQLITE_FULL: "no space left on the storage",
        sqlite3.SQLITE_READONLY: "it is read-only",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
        sqlite3.SQLITE_PERM: "permission denied",
        sqlite3.SQLITE_IOERR: "the storage reports an input/output error",
    }
    return reasons.get(code, f"the database reports error {code}")
