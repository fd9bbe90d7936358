"""The recorder as an MPI job: real ranks of Open MPI and MPICH, one file."""

import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from plain_client import ACK, CLOSED, END, ERROR, IMAGE, RESUME, START, Client, image_fields, start_fields
from ports import free_ports
from warm_command import popen

from penstock.programs.locate import find_program

Run = Callable[..., "subprocess.CompletedProcess[str]"]
WAIT_S = 120
SMALL = ("--rows", "64", "--columns", "96", "--type", "uint16")


class Job:
    """`penstock record --ranks N`, its events in a queue."""

    def __init__(self, folder: Path, ranks: int, *options: str, port: int = 0) -> None:
        port = port or free_ports(ranks)
        self.ports = list(range(port, port + ranks))
        job = ("--folder", str(folder), "--ranks", str(ranks), "--listen", f"127.0.0.1:{port}", "--json")
        self.process = popen("record", *job, *options)
        self._events: queue.Queue[dict[str, object]] = queue.Queue()
        self.log: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_events, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        for _ in range(ranks):
            self.until("listening")

    def _read_events(self, pipe: IO[str]) -> None:
        for line in pipe:
            self._events.put(json.loads(line))
        self._events.put({"event": "end of events"})

    def _read_log(self, pipe: IO[str]) -> None:
        self.log.extend(pipe)

    @property
    def target(self) -> str:
        return "tcp://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def until(self, kind: str) -> dict[str, object]:
        while True:
            event = self._events.get(timeout=WAIT_S)
            assert event["event"] != "end of events", "".join(self.log)
            if event["event"] == kind:
                return event

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        for reader in self._readers:
            reader.join(10)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(ranks: int, *options: str, port: int = 0) -> Job:
        jobs.append(Job(tmp_path, ranks, *options, port=port))
        return jobs[-1]

    yield make
    for made in jobs:
        made.close()


def simulate(run: Run, target: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run("simulate", "custom", *SMALL, "--rate", "max", "--to", target, *arguments)


def detector(*arguments: str) -> "subprocess.Popen[str]":
    """One that goes on beside the test."""
    return popen("simulate", "custom", *SMALL, *arguments)


def check(run: Run, file: Path, frames: int, *, times: bool = True) -> dict[str, object]:
    """That the file holds all frames (and their times), by Penstock's own check and by plain h5py."""
    checked = run("check", str(file), "--against", "recorded", "--require-complete", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    report: dict[str, object] = json.loads(checked.stdout)
    assert (report["compared_frames"], report["different_frames"], report["missing"]) == (frames, 0, 0)
    findings = report["findings"]
    assert isinstance(findings, list)
    warnings = [finding["where"] for finding in findings if finding["level"] != "info"]
    assert warnings == [] or (not times and warnings == ["/entry/penstock/timing/written"]), findings
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.shape[0] == frames
        stamps = numpy.ascontiguousarray(data[:, 0, :4]).view("uint64").ravel()
        assert (content["/entry/penstock/frame_state"][...] == 1).all()
        assert not times or (content["/entry/penstock/timing/received"][...] > 0).all()
    assert list(stamps) == list(range(frames))
    return report


@pytest.mark.parametrize(
    ("mpi", "ranks", "codec", "number"),
    [
        ("openmpi", 2, "encoding: bslz4", 32008),
        ("mpich", 2, "filter: blosc", 32001),
        ("openmpi", 4, "filter: blosc2", 32026),
        ("mpich", 4, "encoding: bslz4", 32008),
    ],
)
def test_ranks_fill_one_file(
    job: Callable[..., Job], run: Run, tmp_path: Path, mpi: str, ranks: int, codec: str, number: int
) -> None:
    configuration = tmp_path / "c.yaml"
    configuration.write_text(f"codec: {{{codec}}}\n", encoding="utf-8")
    recorder = job(ranks, str(configuration), "--mpi", mpi, "--threads", "1", "--pool", "256MiB")
    for series in ("first", "second") if ranks == 2 else ("only",):
        sent = simulate(run, recorder.target, "--frames", "403", "--series-name", series)
        assert sent.returncode == 0, sent.stderr
        assert "403 acknowledged" in sent.stderr, "each rank has its own frames safe"
        end = recorder.until("series_end")
        assert (end["series_unique_id"], end["frames_received"], end["problem"]) == (series, 403, None)
        assert (end["missing"], end["duplicate"], end["lost"]) == (0, 0, 0)
        report = check(run, tmp_path / f"{series}.h5", 403)
        assert isinstance(report["segments"], int)
        assert report["segments"] >= ranks, "every rank wrote"
        with h5py.File(tmp_path / f"{series}.h5") as content:
            assert content["/entry/data/data"].id.get_create_plist().get_filter(0)[0] == number
            ended = datetime.fromisoformat(content["/entry/end_time"].asstr()[()]).timestamp()
            received = int(content["/entry/penstock/timing/received"][()].max())
            assert ended == pytest.approx(received / 1e9, abs=2e-6), "of the last frame, whoever took it"
    assert recorder.stop() == 0, "".join(recorder.log)


def test_a_rank_that_joins_late_and_one_that_gets_nothing(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    recorder = job(3)
    one, other, _ = recorder.ports
    sent = simulate(run, f"tcp://127.0.0.1:{other}", "--frames", "50", "--series-name", "elsewhere")
    assert sent.returncode == 0, sent.stderr
    assert recorder.until("series_end")["frames_received"] == 50
    check(run, tmp_path / "elsewhere.h5", 50)
    sent = simulate(run, f"tcp://127.0.0.1:{one}", "--frames", "50", "--series-name", "here")
    assert sent.returncode == 0, sent.stderr
    assert recorder.until("series_end")["frames_received"] == 50
    check(run, tmp_path / "here.h5", 50)
    assert recorder.stop() == 0, "".join(recorder.log)


def test_pulled_frames_find_the_series_that_started_elsewhere(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    """A PUSH socket hands the start message to one rank, and frames to all of them."""
    port = free_ports(1)
    recorder = job(3, "--zmq", f"tcp://127.0.0.1:{port}")
    sent = simulate(
        run, f"zmq://127.0.0.1:{port}", "--frames", "300", "--rate", "500", "--series-name", "pulled"
    )
    assert sent.returncode == 0, sent.stderr
    assert recorder.until("series_end")["frames_received"] == 300
    check(run, tmp_path / "pulled.h5", 300)
    assert recorder.stop() == 0, "".join(recorder.log)


@pytest.mark.slow
def test_frames_that_two_ranks_received_are_there_once(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    recorder = job(2)
    both = [
        detector(
            # Ten seconds: on a busy machine too both send at the same time.
            *("--rate", "20", "--frames", "200", "--series-name", "twice"),
            *("--to", f"tcp://127.0.0.1:{port}"),
        )
        for port in recorder.ports
    ]
    # The series is closed when all of its frames are complete. The slower sender is told so, or that what it
    # sent since then belongs to no series.
    errors = [sender.communicate(timeout=WAIT_S)[1] for sender in both]
    assert 0 in [sender.returncode for sender in both], errors
    for sender, error in zip(both, errors, strict=True):
        told = ("ended the series early", 'belongs to series "twice", which has not started')
        assert sender.returncode == 0 or any(text in error for text in told), error
    end = recorder.until("series_end")
    assert (end["frames_received"], end["missing"], end["problem"]) == (200, 0, None)
    # How many the slower sender brings before that is up to the machine.
    assert isinstance(end["duplicate"], int)
    assert end["duplicate"] > 0
    check(run, tmp_path / "twice.h5", 200)
    assert recorder.stop() == 0, "".join(recorder.log)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_what_was_acknowledged_survives_a_killed_rank(
    job: Callable[..., Job], run: Run, tmp_path: Path, victim: int
) -> None:
    recorder = job(2)
    many = ("--rate", "400", "--frames", "100000", "--series-name", "killed")
    sender = detector(*many, "--connect-timeout", "1", "--json", "--to", recorder.target)
    while int(str(recorder.until("progress")["frames_written"])) < 300:
        pass
    os.kill(_rank(recorder, victim), signal.SIGKILL)
    recorder.process.wait(WAIT_S)
    recorder.close()
    assert recorder.process.returncode == 1
    assert f"`penstock recover {tmp_path / 'killed.h5'}`" in "".join(recorder.log)
    events, _ = sender.communicate(timeout=WAIT_S)
    end = [json.loads(line) for line in events.splitlines() if '"series_end"' in line][-1]
    acknowledged = end["acknowledged"]
    assert acknowledged > 100

    done = run("recover", str(tmp_path / "killed.h5"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(tmp_path / "killed.h5") as content:
        states = content["/entry/penstock/frame_state"][...]
        received = numpy.flatnonzero(states == 1)
        data = content["/entry/data/data"]
        stamps = [int(numpy.ascontiguousarray(data[n, 0, :4]).view("uint64")[0]) for n in received]
    assert stamps == list(received), "no false frame"
    assert set(range(acknowledged)) <= set(received), "no acknowledged frame is lost"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_job_that_is_started_again_goes_on_in_its_file(
    job: Callable[..., Job], run: Run, tmp_path: Path, victim: int
) -> None:
    recorder = job(2, "--resume")
    many = ("--rate", "500", "--frames", "1000", "--series-name", "on", "--reconnect-timeout", "60")
    sender = detector(*many, "--to", recorder.target)
    while int(str(recorder.until("progress")["frames_written"])) < 200:
        pass
    os.kill(_rank(recorder, victim), signal.SIGKILL)
    recorder.process.wait(WAIT_S)
    again = job(2, "--resume", port=recorder.ports[0])
    before = again.until("series_start")["frames_before"]
    assert isinstance(before, int)
    assert before > 100
    end = again.until("series_end")
    assert (end["frames_received"], end["missing"], end["problem"]) == (1000, 0, None)
    _, log = sender.communicate(timeout=WAIT_S)
    assert sender.returncode == 0, log
    # Rows that the killed rank had not sent yet are gone with it; its frames are not.
    check(run, tmp_path / "on.h5", 1000, times=False)
    assert again.stop() == 0, "".join(again.log)


def _descends(process: int, ancestor: int) -> bool:
    while process not in (0, ancestor):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == ancestor


def _rank(recorder: Job, number: int) -> int:
    """The process id of that rank of a job."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes()
            if not _descends(int(process.name), recorder.process.pid):
                continue
        except OSError:
            continue
        if command[0].endswith((b"penstock-recorder", b"penstock-recorder-openmpi")) and re.search(
            rb"\0OMPI_COMM_WORLD_RANK=%d\0" % number, environment
        ):
            found.append(int(process.name))
    assert len(found) == 1, found
    return found[0]


def test_a_start_that_another_rank_refuses_is_a_refused_series(job: Callable[..., Job]) -> None:
    recorder = job(2)
    with Client(f"127.0.0.1:{recorder.ports[1]}") as client:
        client.send(START, start_fields("s", 1, (30, 40)) | {"image_dtype": "uint12"})
        assert "uint12" in client.until(ERROR)["message"]
        refused = recorder.until("series_refused")
    assert refused["series_unique_id"] == "s"
    assert "uint12" in str(refused["message"])
    assert recorder.stop() == 1, "".join(recorder.log)


def test_a_port_that_is_taken_ends_the_whole_job(run: Run, tmp_path: Path) -> None:
    port = free_ports(2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        ended = run("record", "--folder", str(tmp_path), "--ranks", "2", "--listen", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    assert f":{port + 1}: the port is in use" in ended.stderr, ended.stderr


@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.mpich"])
def test_a_launchers_own_job_completes_its_files_on_a_signal(run: Run, tmp_path: Path, launcher: str) -> None:
    """As the how-to guide says: SIGUSR1 to mpirun, which hands it on."""
    port = free_ports(2)
    shown = run("record", "--folder", str(tmp_path), "--listen", f"127.0.0.1:{port}", "--dry-run", "--json")
    (tmp_path / "plan.json").write_text(shown.stdout, encoding="utf-8")
    command = [launcher, *(["--oversubscribe", "--bind-to", "none"] if "openmpi" in launcher else [])]
    command += ["-n", "2", str(find_program("penstock-recorder")), "--plan", str(tmp_path / "plan.json")]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with (tmp_path / "events").open("w", encoding="utf-8") as events:
        job = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=events,
            stderr=subprocess.PIPE,
            env={**os.environ, **as_root},
        )
    try:
        target = f"tcp://127.0.0.1:{port},127.0.0.1:{port + 1}"
        sender = detector("--rate", "200", "--frames", "100000", "--series-name", "told", "--to", target)
        until(lambda: '"frames_written":1' in (tmp_path / "events").read_text(encoding="utf-8"))
        job.send_signal(signal.SIGUSR1)
        _, log = job.communicate(timeout=WAIT_S)
    finally:
        job.kill()
    sender.communicate(timeout=WAIT_S)
    assert job.returncode == 0, log
    checked = run("check", str(tmp_path / "told.h5"), "--json")
    assert checked.returncode == 0, checked.stdout
    with h5py.File(tmp_path / "told.h5") as content:
        assert content["/entry/end_time"][()]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_in_somebodys_job_is_no_rank_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mark in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.setenv(mark, "1")
    port = free_ports(1)
    sender = detector(
        "--frames", "3", "--rate", "max", "--series-name", "s", "--to", f"tcp://127.0.0.1:{port}"
    )
    recorded = run("record", "--folder", str(tmp_path), "--listen", f"127.0.0.1:{port}", "--series", "1")
    _, errors = sender.communicate(timeout=WAIT_S)
    assert (recorded.returncode, sender.returncode) == (0, 0), recorded.stderr + errors


def test_each_rank_serves_metrics_of_what_it_did(job: Callable[..., Job], run: Run, tmp_path: Path) -> None:
    port = free_ports(2)
    recorder = job(2, "--metrics", f"127.0.0.1:{port}")
    sent = simulate(run, recorder.target, "--frames", "200", "--series-name", "shared")
    assert sent.returncode == 0, sent.stderr
    end = recorder.until("series_end")

    def value(rank: int, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port + rank}/metrics", timeout=WAIT_S) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, flags=re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    for name, of_series in (
        ("penstock_images_received_total", end["frames_received"]),
        ("penstock_images_written_total", end["frames_written"]),
        ("penstock_received_bytes_total", end["raw_bytes"]),
        ("penstock_stored_bytes_total", end["stored_bytes"]),
    ):
        each = [value(rank, name) for rank in (0, 1)]
        assert all(each), "both ranks had frames"
        assert sum(each) == of_series
    assert recorder.stop() == 0


def test_values_that_do_not_fit_are_counted_on_every_rank(tmp_path: Path) -> None:
    """Whole numbers first, and halves on both ranks after that."""
    job = Job(tmp_path, 2, "--mpi", "openmpi", "--threads", "1", "--pool", "256MiB")
    shape = (4, 6)
    try:
        with Client(f"127.0.0.1:{job.ports[0]}") as lead, Client(f"127.0.0.1:{job.ports[1]}") as other:
            lead.start("s", 9, shape)
            other.start("s", 9, shape, RESUME)
            for number in range(9):
                client = lead if number % 3 == 0 else other
                told = {"user_data": {"dose": number if number == 0 else number + 0.5}}
                fields = image_fields(1, "s", number, list(shape), 48) | told
                client.send(IMAGE, fields, bytes(48))
                while number == 0 and client.until(ACK)["safe_below"] < 1:
                    pass
            for client in (lead, other):
                client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
            assert [client.until(CLOSED)["problem"] for client in (lead, other)] == [None, None]
        assert job.until("series_end")["frames_received"] == 9
    finally:
        job.close()
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/metadata/dose"].attrs["unfitting"] == 8
