"""Files of a folder and of real servers are written, read and removed in the same way, and counted."""

import contextlib
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pytest
from laboratories import Run, free_name, requires, up

from penstock.bench.data.folder import BenchFolder, FileSet
from penstock.bench.run.jobs import Job as BenchJob
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import parameters_of
from penstock.bench.science.data.clean import find_stored
from penstock.bench.science.data.manifest import DataSpec
from penstock.bench.science.data.prepare import prepared, task
from penstock.bench.science.imaging import making
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.direct import DirectWriter, aligned
from penstock.bench.science.storage.open import require_storage, storage_for
from penstock.bench.science.storage.posix import PosixStorage
from penstock.bench.science.storage.remote import RemoteStorage
from penstock.bench.science.storage.storage import Storage
from penstock.lab.control import state_of
from penstock.lab.place import Place as Laboratory
from penstock.lab.storage import storage_of
from penstock.model.errors import PenstockError, UsageError
from penstock.model.storage_url import Place, StorageUrl, place_of

_SYSTEMS = [pytest.param(each, marks=requires(each)) for each in ("xrootd", "dav", "s3", "hdfs")]


class SlowServer(RemoteStorage):
    """Takes a file in pieces, and forgets it."""

    def __init__(self) -> None:
        super().__init__("slow://server/directory")
        self.pulses: list[int] = []

    def _store(self, name: str, source: IO[bytes], size: int) -> None:
        assert (name, size) == ("large.bin", 3000)
        while source.read(1000):
            self.pulses.append(self.counts.pulse())

    _entries = _size = _fetch = _delete = _make = _remove_folder = None  # type: ignore[assignment]


def test_pieces_of_an_upload_are_work() -> None:
    """They count as received when the server has all of them."""
    storage = SlowServer()
    with storage.create("large.bin") as file:
        file.write(bytes(3000))
    assert len(set(storage.pulses)) == 3
    assert (storage.counts.received_bytes, storage.counts.calls) == (3000, 1)


def test_a_sync_is_work_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, pulses = Counts(), []

    def fsync(_descriptor: int) -> None:
        pulses.append([counts.pulse(), counts.pulse()])

    monkeypatch.setattr(os, "fsync", fsync)
    storage = PosixStorage(tmp_path)
    storage.counts = counts
    storage.create("a.bin").close()
    DirectWriter(tmp_path / "b.bin", counts).finish()
    job = Job(0, storage, lambda _: None, threading.Event())
    with making._created(job, "c.h5"):
        pass
    assert [first < second for first, second in pulses] == [True, True, True]
    assert counts.pulse() == counts.pulse()
    monkeypatch.setattr("penstock.bench.science.storage.counts._SYNC_S", 0.0)
    with counts.syncing():
        assert counts.pulse() == counts.pulse()


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def use(place: Place) -> None:
    outcome = run_jobs([JobRequest("jobs_of_tests:uses_files", place, {})])
    assert outcome.problem is None
    ended = outcome.jobs[0].ended
    assert ended is not None
    found = ended.result
    missing = found.pop("missing")
    assert "no.bin" in missing
    # Swift sends part of a body after HEAD; the client takes it for the answer to its next request.
    is_swift = str(place).startswith("s3")
    assert "check the path of the URL" in missing or is_swift or isinstance(place, Path)
    assert "a.bin" in found.pop("beyond")
    # A store of objects has no directories.
    assert found.pop("not empty") or is_swift
    size = 300_000
    assert found == {
        "before": [],
        "names": ["a.bin", "empty.bin", "large.bin"],
        "sizes": [size, 0, 40 * size],
        "written": 41 * size,
        "seen": True,
        "parts": True,
        "received": 150_020,
        "checksum": True,
        "left": [],
    }


def use_by_web(place: StorageUrl) -> None:
    """A data node once refused a block with 403, the reason is not known: three directories are tried."""
    for number in range(3):
        try:
            return use(replace(place, text=f"{place}{number}"))
        except AssertionError as error:
            if number == 2 or "403" not in str(error):
                raise
    return None


def test_files_of_a_folder(tmp_path: Path) -> None:
    use(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("system", _SYSTEMS)
def test_files_of_a_server(run: Run, name: str, system: str) -> None:
    """Afterwards a data set is made, found, damaged, and removed, as on a file system."""
    require_files_of_a_server(run, name, system)


@pytest.mark.slow
@requires("xrootd")
def test_files_that_a_redirector_spreads(run: Run, name: str) -> None:
    require_files_of_a_server(run, name, "xrootd", "--servers", "2")
    assert list(Laboratory(name).folder.glob("server-*/disk/root/data/*")) == []


def require_files_of_a_server(run: Run, name: str, system: str, *options: str) -> None:
    up(run, system, name, *options)
    target = storage_of(state_of(Laboratory(name)))
    assert isinstance(target, StorageUrl)
    use(target / "new")
    if system == "hdfs":  # the same files, by the port of the name node's web interface
        use_by_web(replace(target, text=f"webhdfs://{urlsplit(str(target)).hostname}:9870/web"))
    spec = DataSpec(
        "things", {"size": 5000}, FileSet(prefix="thing-", count=3), "jobs_of_tests:makes_files", 15000
    )
    said: list[str] = []
    with prepared(target, spec, said.append) as data:
        assert [each.truth["byte"] for each in data.files] == [0, 1, 2]
    with prepared(target, spec, said.append, checksums=True) as again:
        assert (again, len(said)) == (data, 1)
    sets, doubts = find_stored(target)
    assert ([(each.place, each.files) for each in sets], doubts) == ([(data.place, 5)], [])
    done = run("bench", "clean", f"lab:{name}", "--yes")
    assert (done.returncode, "data set" in done.stdout) == (0, True), done.stderr
    assert find_stored(target) == ([], [])


@pytest.mark.parametrize(("url", "why"), [("nfs://h/e", "mount the export"), ("roots://h//e", "no TLS")])
def test_protocols_without_a_client_are_refused(url: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_storage(place_of(url))
    assert why in f"{refused.value}: {refused.value.remedy}"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.bench.science.storage.open.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="requires the Python package fsspec") as refused:
        require_storage(place_of("root://localhost//data"))
    assert refused.value.remedy == "pip install 'penstock[science]'"


@pytest.mark.parametrize(
    ("workload", "library", "remedy"),
    [("imaging", "pyFAI", "--process statistics"), ("seismic-sort", "segyio", "penstock[science]")],
)
def test_a_library_is_missing_before_files_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str, library: str, remedy: str
) -> None:
    monkeypatch.setattr(
        "penstock.bench.science.storage.open.find_spec", lambda name: None if name == library else name
    )
    job = parameters_of(workload, {}).job()
    assert isinstance(job, BenchJob)
    with BenchFolder.make(tmp_path) as folder, pytest.raises(UsageError, match=library) as refused:
        job.run(folder, Telling(lambda _: None, lambda _: None))
    assert remedy in str(refused.value.remedy)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(PenstockError, match=r"127\.0\.0\.1:9") as raised:
        task(place_of("http://127.0.0.1:9/data"), "find")
    assert raised.value.remedy == "check host and port of the URL, and whether the server runs"


def test_a_storage_that_cannot_be_opened_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(PenstockError, match="names no host and port") as raised:
        task(place_of("s3://bucket/x"), "find")
    assert raised.value.remedy.startswith("set AWS_ENDPOINT_URL")


class _Endless(http.server.BaseHTTPRequestHandler):
    """Ignores ranges, and answers whatever is asked with 300 MiB of a terabyte."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(10**12))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        with contextlib.suppress(OSError):
            for _ in range(300):
                self.wfile.write(bytes(1 << 20))

    def do_PROPFIND(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


_IN_PART = "the server sent more than was asked for: it must support reads of parts"
_IN_ANSWER = "the server's answer exceeds 67.1 MB"


@pytest.mark.parametrize(
    ("url", "ask", "words"),
    [
        ("http://{}/data", lambda storage: storage.open("file").read(10), _IN_PART),
        ("http://{}/data", lambda storage: storage.names(), _IN_ANSWER),
        ("s3://{}/bucket", lambda storage: storage.open("file").read(10), _IN_PART),
        ("s3://{}/bucket", lambda storage: storage.names(), _IN_ANSWER),
        ("webhdfs://{}/data", lambda storage: storage.names(), _IN_ANSWER),
    ],
)
def test_an_endless_answer_takes_no_memory(
    monkeypatch: pytest.MonkeyPatch, url: str, ask: Callable[[Storage], object], words: str
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        storage = storage_for(url.format(f"127.0.0.1:{server.server_port}"))
        with pytest.raises(PenstockError, match=words):
            ask(storage)
        server.shutdown()


class _BrokenDataNode(http.server.BaseHTTPRequestHandler):
    """A name node whose data node answers each read with an error of ten bytes."""

    def do_GET(self) -> None:
        content = b""
        if "op=GETFILESTATUS" in self.path:
            content = b'{"FileStatus": {"length": 1000, "type": "FILE", "pathSuffix": ""}}'
            self.send_response(200)
        elif "op=OPEN" in self.path:
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}/data")
        else:
            content = b"ten bytes!"
            self.send_response(500)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_an_error_of_a_data_node_is_not_data() -> None:
    pytest.importorskip("fsspec")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _BrokenDataNode) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        storage = storage_for(f"webhdfs://127.0.0.1:{server.server_port}/data")
        with pytest.raises(PenstockError, match="the data node answered 500"):
            storage.open("file").read(10)
        server.shutdown()


def test_a_short_write_counts_for_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, counts = os.pwrite, Counts()
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:4096], at))
    with DirectWriter(tmp_path / "file", counts) as writer:
        writer.write(memoryview(aligned(4 * 4096)))
    assert ((tmp_path / "file").stat().st_size, counts.received_bytes) == (4 * 4096, 4 * 4096)
