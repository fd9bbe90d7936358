"""`penstock bench network` as a user runs it: two processes, on loopback and over a link of a known speed."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Run as RunCommand
from conftest import end_with_family
from network_namespaces import linked
from test_bench import valid_run

from penstock.bench.network import link_speed
from penstock.bench.network_figures import network_figures
from penstock.bench.values import values_of
from penstock.model.errors import UsageError
from penstock.model.network import parse_cpus, parse_link
from penstock.model.runs import Run

SHORT = ("--seconds", "0.3", "--latency", "8B,64KiB", "--latency-seconds", "0.1", "--yes", "--json")
TOKEN = "correct-horse-battery-staple"
HEAD = struct.Struct("<8sII")


class Listening:
    """`penstock bench network --listen` as a process."""

    def __init__(self, *options: str, before: tuple[str, ...] = (), token: str = "") -> None:
        command = [*before, sys.executable, "-m", "penstock", "bench", "network", "--listen", *options]
        environment = os.environ | ({"PENSTOCK_TOKEN": token} if token else {})
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("listening on tcp://"), line + self.process.stderr.read()
        self.address = line.strip().removeprefix("listening on tcp://")

    def end(self) -> tuple[str, str]:
        """What it wrote, once it has ended by itself."""
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out, err


Listen = Callable[..., Listening]


@pytest.fixture
def listen() -> Iterator[Listen]:
    started: list[Listening] = []

    def start(*options: str, before: tuple[str, ...] = (), token: str = "") -> Listening:
        started.append(Listening(*options, before=before, token=token))
        return started[-1]

    yield start
    for other in started:
        end_with_family(other.process)
        other.process.communicate(timeout=30)


def message(content: dict[str, object], version: int = 1, length: int | None = None) -> bytes:
    text = json.dumps(content).encode()
    return HEAD.pack(b"PENSTNET", version, len(text) if length is None else length) + text


def answer(peer: socket.socket) -> dict[str, object]:
    with peer.makefile("rb") as file:
        magic, _, length = HEAD.unpack(file.read(HEAD.size))
        assert magic == b"PENSTNET"
        found: dict[str, object] = json.loads(file.read(length))
        return found


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_both_ends_here(run: RunCommand) -> None:
    finished = run("bench", "network", "--local", "--streams", "2", *SHORT)
    result = valid_run(finished.stdout)
    assert result.network is not None
    assert result.document.network is not None
    assert [trips.message_bytes for trips in result.network.round_trips] == [8, 65536]
    assert [each.name for each in result.network.transfers] == ["up", "down", "both: up", "both: down"]
    assert network_figures(result.document, "lo") == result.network
    for trips, phase in zip(result.network.round_trips, result.document.network.phases, strict=False):
        assert phase.server is not None
        assert phase.round_trips is not None
        # Those to warm up are not among them.
        assert sum(count for *_, count in phase.round_trips.buckets) == trips.count
        for side in (phase.client, phase.server):
            assert side.streams[0].received_bytes == side.streams[0].sent_bytes
            assert side.streams[0].received_bytes == (trips.count + 16) * trips.message_bytes
    names = list(values_of(result))
    assert names[:4] == ["up", "down", "both: up", "both: down"]
    assert names[4:6] == ["round trip 8 B p50", "round trip 8 B p99"]
    # A third of a second tells nothing about a link.
    assert finished.returncode == 4
    assert {c.name: c.outcome for c in result.checks}["long enough (up)"] == "failed"


def test_every_byte_that_is_sent_is_counted_where_it_arrives(run: RunCommand) -> None:
    result = valid_run(run("bench", "network", "--local", "--streams", "3", *SHORT).stdout)
    assert result.document.network is not None
    for phase in result.document.network.phases:
        assert phase.server is not None
        for sender, receiver in ((phase.client, phase.server), (phase.server, phase.client)):
            assert [s.sent_bytes for s in sender.streams] == [s.received_bytes for s in receiver.streams]
            assert sum(receiver.received_series) == sum(s.received_bytes for s in receiver.streams)
            assert receiver.received_s <= receiver.seconds + 1e-6
            for stream in sender.streams:
                # What the kernel counts has the head of the stream, a hundred bytes, in front.
                again = stream.after.bytes_sent_again - stream.before.bytes_sent_again
                assert stream.after.bytes_sent - stream.before.bytes_sent - again >= stream.sent_bytes
        if phase.pattern == "up":
            assert phase.client.received_s == 0
            assert sum(phase.client.received_series) == 0


def test_threads_run_on_the_processors_that_were_asked_for(run: RunCommand, listen: Listen) -> None:
    """Seen from outside, at the other end, while it measures."""
    cpu = min(os.sched_getaffinity(0))
    other = listen("127.0.0.1:0", "--cpus", str(cpu), "--sessions", "1")
    (program,) = psutil.Process(other.process.pid).children()
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.01):
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{program.pid}/task").iterdir():
                    text = (task / "status").read_text()
                    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
                    if fields["Name"].startswith(("pen-net-rec", "pen-net-send", "pen-net-echo")):
                        seen.add(fields["Cpus_allowed_list"])

    watcher = threading.Thread(target=look)
    watcher.start()
    finished = run("bench", "network", other.address, "--cpus", str(cpu), *SHORT)
    done.set()
    watcher.join()
    assert seen == {str(cpu)}, finished.stderr
    assert valid_run(finished.stdout).network is not None


def test_the_other_end_ends_after_its_sessions(run: RunCommand, listen: Listen) -> None:
    other = listen("127.0.0.1:0", "--sessions", "2", "--json")
    for _ in range(2):
        result = valid_run(run("bench", "network", other.address, *SHORT).stdout)
        assert result.document.network is not None
        assert result.document.network.peer_host == socket.gethostname()
    out, log = other.end()
    assert json.loads(out) == {"sessions": 2, "refused": 0}
    assert log.count("is done") == 2


def test_the_other_end_ends_after_its_time(listen: Listen) -> None:
    out, _ = listen("127.0.0.1:0", "--for", "0.5", "--json").end()
    assert json.loads(out) == {"sessions": 0, "refused": 0}


def test_a_token_is_asked_for(run: RunCommand, listen: Listen, tmp_path: Path) -> None:
    other = listen("127.0.0.1:0", token=TOKEN)
    without = run("bench", "network", other.address, *SHORT)
    assert without.returncode == 1
    assert "a token is required" in without.stderr
    (tmp_path / "wrong").write_text("guess\n")
    wrong = run("bench", "network", other.address, "--token-file", str(tmp_path / "wrong"), *SHORT)
    assert wrong.returncode == 1
    assert "wrong token" in wrong.stderr
    (tmp_path / "right").write_text(TOKEN + "\n")
    right = run("bench", "network", other.address, "--token-file", str(tmp_path / "right"), *SHORT)
    assert valid_run(right.stdout).network is not None
    assert TOKEN not in right.stdout + right.stderr


def test_beyond_loopback_there_is_no_end_without_a_token(run: RunCommand) -> None:
    refused = run("bench", "network", "--listen", "0.0.0.0", "--for", "1")
    assert refused.returncode == 2
    assert "token" in refused.stderr


def test_a_taken_port_and_a_silent_one_are_told(run: RunCommand) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        nobody = run("bench", "network", address, *SHORT)
        assert nobody.returncode == 1
        assert "Connection refused" in nobody.stderr
        taken.listen()
        refused = run("bench", "network", "--listen", address)
        assert refused.returncode == 1
        assert "another program listens there" in refused.stderr


def test_another_version_is_named_on_both_sides(run: RunCommand, listen: Listen) -> None:
    other = listen("127.0.0.1:0")
    with connect(other.address) as peer:
        peer.sendall(message({"type": "session"}, version=7))
        said = answer(peer)
    assert said["type"] == "refused"
    assert "version 7" in str(said["text"])
    with socket.create_server(("127.0.0.1", 0)) as newer:
        address = f"127.0.0.1:{newer.getsockname()[1]}"

        def answer_once() -> None:
            peer, _ = newer.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(message({"type": "welcome", "session": "1", "more": 1}, version=2))
                with contextlib.suppress(ConnectionResetError):
                    peer.recv(4096)

        thread = threading.Thread(target=answer_once)
        thread.start()
        finished = run("bench", "network", address, *SHORT)
        thread.join(30)
    assert finished.returncode == 1
    assert "version 2" in finished.stderr


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        message({"type": "session"}, length=1 << 31),
        message({"type": "stream", "session": "0" * 32, "number": 3}),
        message({"type": "session", "token": "x", "surprise": 1}),
        message({"type": "session", "token": [1]}),
        HEAD.pack(b"PENSTNET", 1, 20) + b"[" * 20,
    ],
    ids=["http", "too long", "no such session", "unknown field", "wrong type", "no json"],
)
def test_hostile_greetings_are_answered_and_others_served(
    run: RunCommand, listen: Listen, sent: bytes
) -> None:
    other = listen("127.0.0.1:0", "--sessions", "1", "--json")
    with connect(other.address) as peer:
        peer.sendall(sent)
        assert answer(peer)["type"] == "refused"
        assert peer.recv(1) == b""
    assert valid_run(run("bench", "network", other.address, *SHORT).stdout).network is not None
    out, _ = other.end()
    assert json.loads(out) == {"sessions": 1, "refused": 1}


def test_a_session_of_hostile_orders_ends_and_the_next_one_is_served(run: RunCommand, listen: Listen) -> None:
    orders: list[dict[str, object]] = [
        {
            "type": "phase",
            "pattern": "up",
            "streams": 10**6,
            "message_bytes": 1,
            "seconds": 1,
            "interval_s": 1,
        },
        {
            "type": "phase",
            "pattern": "up",
            "streams": 1,
            "message_bytes": 1 << 40,
            "seconds": 1,
            "interval_s": 1,
        },
        {
            "type": "phase",
            "pattern": "up",
            "streams": 1,
            "message_bytes": 1,
            "seconds": 1e9,
            "interval_s": 1e8,
        },
        {
            "type": "phase",
            "pattern": "up",
            "streams": 1,
            "message_bytes": 1,
            "seconds": 1,
            "interval_s": 1e-9,
        },
        {
            "type": "phase",
            "pattern": "sideways",
            "streams": 1,
            "message_bytes": 1,
            "seconds": 1,
            "interval_s": 1,
        },
        {"type": "report"},
    ]
    other = listen("127.0.0.1:0", "--sessions", str(len(orders) + 1), "--json")
    for order in orders:
        with connect(other.address) as peer:
            peer.sendall(message({"type": "session"}))
            assert answer(peer)["type"] == "welcome"
            peer.sendall(message(order))
            assert answer(peer)["type"] == "refused", order
    assert valid_run(run("bench", "network", other.address, *SHORT).stdout).network is not None
    other.end()


def test_one_client_at_a_time(run: RunCommand, listen: Listen) -> None:
    other = listen("127.0.0.1:0")
    with connect(other.address) as first:
        first.sendall(message({"type": "session"}))
        assert answer(first)["type"] == "welcome"
        second = run("bench", "network", other.address, *SHORT)
    assert second.returncode == 1
    assert "another client measures" in second.stderr


def test_silence_ends_within_a_limit(listen: Listen) -> None:
    """Nobody who only connects, or begins a message and stops, stays for long."""
    other = listen("127.0.0.1:0")
    with connect(other.address) as silent, connect(other.address) as half:
        half.sendall(b"PENSTNET\x01")
        for peer in (silent, half):
            assert "came in time" in str(answer(peer)["text"])
            assert peer.recv(1) == b""


def _measuring(address: str, output: Path, seconds: str) -> "subprocess.Popen[str]":
    options = ("--seconds", seconds, "--latency", "8B", "--latency-seconds", "0.1", "--yes")
    command = [
        sys.executable,
        "-m",
        "penstock",
        "bench",
        "network",
        address,
        *options,
        "--output",
        str(output),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _until_it_transfers(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("network, up"):
            return
    raise AssertionError("it ended before its first transfer")


def test_a_killed_peer_leaves_what_was_measured(listen: Listen, tmp_path: Path) -> None:
    other, output = listen("127.0.0.1:0"), tmp_path / "run.json"
    process = _measuring(other.address, output, "600")
    _until_it_transfers(process)
    for program in psutil.Process(other.process.pid).children():
        program.kill()
    process.communicate(timeout=60)
    assert process.returncode == 1
    result = valid_run(output.read_text())
    assert result.validity == "invalid"
    assert result.document.problem is not None
    assert result.network is not None
    assert [trips.message_bytes for trips in result.network.round_trips] == [8]
    assert result.network.transfers == []
    assert result.document.network is not None
    assert result.document.network.phases[-1].pattern == "up"
    assert result.document.network.phases[-1].server is None


def test_an_interruption_leaves_what_was_measured(listen: Listen, tmp_path: Path) -> None:
    other, output = listen("127.0.0.1:0", "--sessions", "1"), tmp_path / "run.json"
    process = _measuring(other.address, output, "600")
    _until_it_transfers(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 1
    result = valid_run(output.read_text())
    assert result.document.interrupted
    assert result.network is not None
    assert len(result.network.round_trips) == 1
    other.end()  # it has heard of the end too


def over_a_link(listen: Listen, rate: str, *options: str) -> Run:
    with linked(rate) as link:
        other = listen(link.far_address, "--sessions", "1", before=tuple(link.far), token=TOKEN)
        finished = subprocess.run(
            [*link.near, sys.executable, "-m", "penstock", "bench", "network", other.address, *options],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=os.environ | {"PENSTOCK_TOKEN": TOKEN},
        )
        result = valid_run(finished.stdout)
        other.end()
    return result


def test_the_speed_of_a_link_is_what_was_set(listen: Listen) -> None:
    """A correctness check with wide margins: 40 Mbit/s of packets, of which 3.5 % are heads."""
    options = ("--seconds", "2", "--latency", "", "--link", "40Mb", "--yes", "--json", "--streams", "2")
    result = over_a_link(listen, "40mbit", *options)
    assert result.network is not None
    assert result.network.link_bytes_per_s == 5e6
    for transfer in result.network.transfers:
        assert transfer.share_of_link is not None
        assert 0.8 < transfer.share_of_link < 1.05, transfer


def test_a_round_trip_takes_what_the_link_takes(listen: Listen) -> None:
    """Half a megabyte each way at 40 Mbit/s: 0.1 s there and 0.1 s back, less what the bucket holds."""
    options = ("--seconds", "0.2", "--latency", "512KiB", "--latency-seconds", "1", "--yes", "--json")
    result = over_a_link(listen, "40mbit", *options)
    assert result.network is not None
    (trips,) = result.network.round_trips
    assert 160 < trips.round_trip_ms.p50 < 300


class Relay:
    """Passes on what comes, each byte a while after it came, both ways."""

    def __init__(self, address: str, delay_s: float) -> None:
        self._target, self._delay_s = address, delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = connect(self._target)
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self._delay_s)  # this is the delay that is measured
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


def test_a_round_trip_has_the_delay_of_both_ways(run: RunCommand, listen: Listen) -> None:
    other = listen("127.0.0.1:0")
    relay = Relay(other.address, 0.02)
    options = ("--seconds", "0.2", "--latency", "8B", "--latency-seconds", "1", "--yes", "--json")
    result = valid_run(run("bench", "network", relay.address, *options).stdout)
    relay.close()
    assert result.network is not None
    (trips,) = result.network.round_trips
    assert 40 <= trips.round_trip_ms.p50 < 80
    # The first sixteen are to warm up: at least one more is made, however long these took.
    assert trips.count >= 1


def test_wrong_options_are_named(run: RunCommand, tmp_path: Path) -> None:
    for options, words in (
        ((), "one of HOST, --listen and --local"),
        (("10.1.2.3", "--local"), "one of HOST, --listen and --local"),
        (("10.1.2.3:99999",), "port 99999"),
        (("--local", "--link", "fast"), '--link "fast"'),
        (("--local", "--cpus", "0,x"), "no list of processors"),
        (("--local", "--message", "1GiB"), "message_bytes is 1073741824"),
        (("--local", "--latency", "8B,64GiB"), "echo_bytes"),
        (("--local", "--output", str(tmp_path / "no" / "run.json")), "is in a folder that is not there"),
        (("10.1.2.3", "--token-file", str(tmp_path / "none")), "cannot be read"),
    ):
        finished = run("bench", "network", *options)
        assert finished.returncode == 2, options
        assert words in finished.stderr, options


def test_nothing_is_done_without_a_yes_or_in_a_dry_run(run: RunCommand) -> None:
    refused = run("bench", "network", "--local")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    shown = run("bench", "network", "127.0.0.1:9", "--dry-run", "--streams", "3")
    assert shown.returncode == 0
    assert "3 streams" in shown.stderr


def test_speeds_of_links(tmp_path: Path) -> None:
    assert parse_link("10Gb") == 1.25e9
    assert parse_link("100 Mbit/s") == 12.5e6
    assert parse_link("2.5Gbps") == 312.5e6
    for text in ("10", "10GB", "0Gb", "-1Gb", "1e9Gb", ""):
        with pytest.raises(UsageError, match="speed of a link"):
            parse_link(text)
    for content, expected in (("1000\n", 125e6), ("-1\n", None), ("", None), ("fast", None)):
        (tmp_path / "eth0").mkdir(exist_ok=True)
        (tmp_path / "eth0" / "speed").write_text(content)
        assert link_speed("eth0", tmp_path) == expected
    for name in ("", "..", "eth0/..", "none"):
        assert link_speed(name, tmp_path) is None


def test_lists_of_processors() -> None:
    first = min(os.sched_getaffinity(0))
    assert parse_cpus(f"{first},{first}-{first}") == [first]
    for text in ("", "a", "1-", "3-1", "65000", f"{first},"):
        with pytest.raises(UsageError, match="--cpus"):
            parse_cpus(text)
