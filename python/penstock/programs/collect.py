"""Takes values from any number of clients and appends them to a journal (docs/reference/values.md)."""

import asyncio
import contextlib
import hmac
import os
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cbor2

from penstock.client.crc32c import crc32c
from penstock.client.wire import HEADER_BYTES, Kind, message, self_described
from penstock.files.values.journal import JournalWriter
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of
from penstock.model.pva import ValuesPlan
from penstock.model.values import CHANNELS_MAX, MESSAGE_BYTES_MAX, BatchError, parse_batch
from penstock.programs.process import LogLine, Program
from penstock.programs.pva import require_p4p

_HEAD = struct.Struct("<4sHHIIQQII20xI")
_HELLO_BYTES_MAX, _HELLO_S, _SILENCE_S = 64 << 10, 2.0, 30.0
_CONNECTIONS_MAX = 256
# That have not said hello; beyond, the oldest of the address that has most is truncated.
_STRANGERS_MAX = 128
_READ_OVER_BYTES_MAX = 16 << 20
_TICK_S = 1.0
_SOURCE_S = 10.0  # for what it still holds
_AGAIN_FIRST_S, _AGAIN_LAST_S = 1.0, 60.0  # until a source that died is started anew


def _why_not_bound(error: OSError) -> str:
    """Returns the reason; asyncio replaces the system's text by its own."""
    return reason_of(OSError(error.errno, os.strerror(error.errno)) if error.errno else error)


class _GoneError(Exception):
    """The connection ends; the text goes to the client, where there is one.

    Before the answer to its hello, a client connects again after the codes `timed_out` and `no_place`.
    """

    def __init__(self, text: str = "", code: str = "refused") -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Counts:
    """Since the start."""

    connections: int = 0
    batches: int = 0
    values: int = 0
    refused: int = 0
    storage_problem: str = ""  # nothing more is taken
    channels_problem: str = ""  # values of EPICS channels are not there


class Collector:
    """One journal. Everything happens on the event loop: storage that is slow holds the senders back."""

    def __init__(self, journal: JournalWriter, token: str | None, sync_s: float) -> None:
        self._journal, self._token, self._sync_s = journal, token, sync_s
        self._channels: set[str] = set()
        self._synced = time.monotonic()
        self.counts = Counts()
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], str] = {}  # with their addresses, the oldest first
        self._known = 0  # connections that have said hello

    async def run(
        self,
        host: str,
        port: int,
        on_listening: Callable[[int], None],
        on_progress: Callable[[Counts], None],
        on_tick: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        """Until SIGINT or SIGTERM, or the journal cannot be synced. The caller closes the journal. Progress
        is called if there is one; what `on_stop` ends, in a thread, may send until it has ended."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=1 << 20)
        except OSError as error:
            raise PenstockError(
                f"cannot listen on {host}:{port}: {_why_not_bound(error)}",
                "name another port with --listen",
            ) from error
        async with server:
            on_listening(server.sockets[0].getsockname()[1])
            reported = replace(self.counts)
            while not (stop.is_set() or self.counts.storage_problem):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), min(self._sync_s or _TICK_S, _TICK_S))
                if time.monotonic() - self._synced >= self._sync_s:
                    self._sync()
                on_tick()
                if reported != self.counts:
                    on_progress(self.counts)
                    reported = replace(self.counts)
            await asyncio.to_thread(on_stop)
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _sync(self) -> None:
        try:
            self._journal.sync()
            self._synced = time.monotonic()
        except OSError as error:
            # What was lost is not known: nothing more is acknowledged.
            since = time.monotonic() - self._synced
            self.counts.storage_problem = (
                f"{self._journal.path} could not be synced: {reason_of(error)}; values of the last"
                f" {since:.1f} s may be lost"
            )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        answer = _Answers(writer)
        self._make_room()
        self._strangers[task] = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            await self._hear_hello(reader)
            del self._strangers[task]
            if self._known >= _CONNECTIONS_MAX:
                raise _GoneError(f"the maximum of {_CONNECTIONS_MAX} connections is reached", "no_place")
            self._known += 1
            try:
                self.counts.connections += 1
                await self._converse(reader, answer)
            finally:
                self._known -= 1
        except _GoneError as problem:
            if str(problem):
                with contextlib.suppress(OSError, TimeoutError):
                    await answer.error(0, problem.code, str(problem))
        except asyncio.CancelledError:
            if task in self._strangers:
                return
            with contextlib.suppress(OSError, TimeoutError):
                await answer.send(Kind.BYE, {"type": "bye"})
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            self._tasks.discard(task)
            self._strangers.pop(task, None)
            writer.close()

    def _make_room(self) -> None:
        """Connections that say nothing keep nobody out who has the token."""
        if len(self._strangers) < _STRANGERS_MAX:
            return
        most, _ = Counter(self._strangers.values()).most_common(1)[0]
        next(task for task, address in self._strangers.items() if address == most).cancel()

    async def _hear_hello(self, reader: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(_HELLO_S):
                kind, _, text = await _message(reader, await reader.readexactly(HEADER_BYTES), hello=True)
        except TimeoutError as problem:
            raise _GoneError(f"no hello within {_HELLO_S:g} s", "timed_out") from problem
        self._greet(kind, text)

    async def _converse(self, reader: asyncio.StreamReader, answer: "_Answers") -> None:
        await answer.send(Kind.HELLO, {"type": "hello", "name": "penstock collect"})
        while True:
            head = await reader.readexactly(HEADER_BYTES)
            try:
                async with asyncio.timeout(_SILENCE_S):
                    kind, sequence, text = await _message(reader, head)
            except TimeoutError as problem:
                raise _GoneError(f"silence for {_SILENCE_S:g} s within a message") from problem
            if kind is Kind.BYE:
                return
            code, problem_text = self._take(kind, text)
            if code:
                self.counts.refused += 1
                await answer.error(sequence, code, problem_text)
            else:
                await answer.send(Kind.ACK, {"type": "ack", "sequence": sequence})

    def _greet(self, kind: Kind, text: bytes | str) -> None:
        if kind is not Kind.HELLO or isinstance(text, str):
            raise _GoneError("the first message must be hello")
        try:
            fields = cbor2.loads(text.removeprefix(b"\xd9\xd9\xf7"))
            given = fields.get("token") or ""
        except Exception as problem:  # whatever a decoder makes of hostile bytes
            raise _GoneError("the hello is not a map in CBOR") from problem
        if self._token is not None and not (
            isinstance(given, str)
            and hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())
        ):
            raise _GoneError("the token is wrong")

    def _take(self, kind: Kind, text: bytes | str) -> tuple[str, str]:
        """Appends a batch; what is wrong otherwise, as a code and a text."""
        if isinstance(text, str):
            return "malformed", text
        if kind is not Kind.VALUES:
            return "unsupported", f"a message {kind.name.lower()}; expected values or bye"
        try:
            batch = parse_batch(text)
        except BatchError as problem:
            return "malformed", str(problem)
        names = {name for group in batch.groups for name in group.columns} - self._channels
        if len(self._channels) + len(names) > CHANNELS_MAX:
            return "too_large", f"more than {CHANNELS_MAX} channels in a journal"
        if problem_text := self._append(text):
            return "storage", problem_text
        self._channels |= names
        self.counts.batches += 1
        self.counts.values += batch.values
        return "", ""

    def _append(self, text: bytes) -> str:
        """What keeps it from being in the journal; empty where it is."""
        if self.counts.storage_problem:
            return self.counts.storage_problem
        try:
            self._journal.append(text)
        except OSError as error:
            return f"{self._journal.path.name} cannot be written: {reason_of(error)}"
        if not self._sync_s:
            self._sync()
        return self.counts.storage_problem


class _Answers:
    """A client that does not read its answers is not read from."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer, self._sequence = writer, 0

    async def send(self, kind: Kind, fields: dict[str, Any]) -> None:
        self._writer.write(message(kind, self._sequence, self_described(fields)))
        self._sequence += 1
        async with asyncio.timeout(_SILENCE_S):
            await self._writer.drain()

    async def error(self, sequence: int, code: str, text: str) -> None:
        await self.send(
            Kind.ERROR, {"type": "error", "sequence": sequence, "code": code, "message": text[:1000]}
        )


async def _message(
    reader: asyncio.StreamReader, head: bytes, *, hello: bool = False
) -> tuple[Kind, int, bytes | str]:
    """Kind, sequence number, and the CBOR part, or what is wrong with it. _GoneError: framing is lost."""
    magic, version, kind, _, size, pixels, sequence, crc, _, head_crc = _HEAD.unpack(head)
    if magic != b"PNST" or crc32c(head[:60]) != head_crc:
        raise _GoneError("this is not a message of Penstock's protocol, or its header is corrupt")
    if version != 1 or kind not in Kind.__members__.values():
        raise _GoneError(f"a message of version {version} and kind {kind}")
    limit = _HELLO_BYTES_MAX if hello else MESSAGE_BYTES_MAX
    if hello and size + pixels > limit:
        raise _GoneError(f"a hello of {size + pixels} bytes; at most {limit} are possible")
    if size + pixels > _READ_OVER_BYTES_MAX:
        raise _GoneError(f"a message of {size + pixels} bytes; at most {limit} are possible")
    if size > limit or pixels:
        rest = size + pixels
        while rest:
            rest -= len(await reader.readexactly(min(rest, 1 << 16)))
        return (
            Kind(kind),
            sequence,
            f"{size} bytes and {pixels} of pixels; at most {limit} and 0 are possible",
        )
    text = await reader.readexactly(size)
    if crc32c(text) != crc:
        return Kind(kind), sequence, "the checksum of the message is wrong"
    return Kind(kind), sequence, text


class Epics:
    """The process that watches channels, where there are some. One that dies is started anew."""

    def __init__(self, channels: Sequence[str], token: str | None, counts: Counts, notify: LogLine) -> None:
        self._channels, self._token = list(dict.fromkeys(channels)), token
        self._counts, self._notify = counts, notify
        self._plan: ValuesPlan | None = None
        self._program: Program | None = None
        self._pause_s, self._again_at = _AGAIN_FIRST_S, 0.0

    def start(self, host: str, port: int) -> None:
        if not self._channels:
            return
        # A server on all addresses is reached at this one.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        to = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._plan = ValuesPlan(channels=self._channels, to=to, token=self._token)
        self._run(self._plan)

    def _run(self, plan: ValuesPlan) -> None:
        self._program = Program("penstock-pva", plan, on_log=self._notify, module="penstock.pva.values")

    def look(self) -> None:
        """Now and then: values of clients are taken whatever becomes of the channels."""
        if self._program is not None and self._program.has_ended:
            self._note_end(self._program.wait())
            self._notify(f"{self._counts.channels_problem}; retrying in {self._pause_s:g} s")
            self._program, self._again_at = None, time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _AGAIN_LAST_S)
        elif self._plan is not None and self._program is None and time.monotonic() >= self._again_at:
            self._run(self._plan)
            self._notify("watching EPICS channels again")

    def _note_end(self, code: int) -> None:
        assert self._program is not None
        now = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
        why = self._program.last_words(code)
        self._counts.channels_problem = f"EPICS channels were not watched since {now} UTC on: {why}"

    def stop(self) -> None:
        """What it holds goes out first, where there is still somebody to take it."""
        program, self._program, self._plan = self._program, None, None
        if program is None:
            return
        patience_s = 0.0 if self._counts.storage_problem else _SOURCE_S
        code = program.stop(patience_s)
        if code and patience_s:
            self._counts.channels_problem = (
                f"values of EPICS channels are incomplete: {program.last_words(code)}"
            )


def collect(
    folder: Path,
    host: str,
    port: int,
    token: str | None,
    sync_s: float,
    on_listening: Callable[[int, Path], None],
    on_progress: Callable[[Counts], None],
    notify: LogLine,
    channels: Sequence[str] = (),
) -> tuple[Path, Counts]:
    """Until SIGINT or SIGTERM; the journal and what is in it. `channels` are EPICS's, over pvAccess.

    `notify` is called with problems immediately.
    """
    if channels:
        require_p4p()
    journal = JournalWriter(folder)
    collector = Collector(journal, token, sync_s)
    counts = collector.counts
    epics = Epics(channels, token, counts, notify)

    def begin(bound: int) -> None:
        on_listening(bound, journal.path)
        epics.start(host, bound)

    try:
        asyncio.run(collector.run(host, port, begin, on_progress, epics.look, epics.stop))
    finally:
        epics.stop()
        _close(journal, counts)
    return journal.path, counts


def _close(journal: JournalWriter, counts: Counts) -> None:
    try:
        journal.close()
    except OSError as error:
        if not counts.storage_problem:
            text = f"{journal.path} could not be synced: {reason_of(error)}"
            raise PenstockError(text, "check the storage") from error
