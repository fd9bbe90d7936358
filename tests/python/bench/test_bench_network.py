"""`penstock bench network` as a user runs it: two processes, on loopback and over a link of a known speed."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from conftest import Run as RunCommand
from network_ends import SHORT, TOKEN, Listen, connect
from network_namespaces import linked
from test_bench import valid_run

from penstock.bench.judge.network_checks import FAR_TOO_SHORT_S
from penstock.bench.run.network import link_speed
from penstock.bench.statistics.network_figures import network_figures
from penstock.bench.statistics.values import values_of
from penstock.model.bench.network import parse_cpus, parse_link
from penstock.model.bench.runs import Run
from penstock.model.errors import UsageError


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
    # A third of a second, if the machine does not make it longer, tells nothing about a link.
    too_short = result.network.transfers[0].seconds < FAR_TOO_SHORT_S
    assert ({c.name: c.outcome for c in result.checks}["long enough (up)"] == "failed") == too_short
    assert result.validity == "invalid" or not too_short
    assert finished.returncode == (4 if result.validity == "invalid" else 0)


def test_every_byte_that_is_sent_is_counted_where_it_arrives(run: RunCommand) -> None:
    result = valid_run(run("bench", "network", "--local", "--streams", "3", *SHORT).stdout)
    assert result.document.network is not None
    for phase in result.document.network.phases:
        assert phase.server is not None
        for sender, receiver in ((phase.client, phase.server), (phase.server, phase.client)):
            assert [s.sent_bytes for s in sender.streams] == [s.received_bytes for s in receiver.streams]
            assert sum(receiver.received_series) == sum(s.received_bytes for s in receiver.streams)
            assert receiver.received_s <= receiver.seconds + 1e-6
            # The server looks when its kernel may still have some to send; the client when all has arrived.
            for stream in phase.client.streams:
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
    finished = run("bench", "network", other.address, "--cpus", str(cpu), *SHORT, "--seconds", "1")
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
    assert log.count("finished") == 2


def test_the_other_end_ends_after_its_time(listen: Listen) -> None:
    out, _ = listen("127.0.0.1:0", "--seconds-max", "0.5", "--json").end()
    assert json.loads(out) == {"sessions": 0, "refused": 0}


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


@pytest.mark.slow
def test_the_speed_of_a_link_is_what_was_set(listen: Listen) -> None:
    """A correctness check with wide margins: 40 Mbit/s of packets, of which 3.5 % are heads."""
    options = ("--seconds", "4", "--latency", "", "--link", "40Mb", "--yes", "--json", "--streams", "2")
    result = over_a_link(listen, "40mbit", *options)
    assert result.network is not None
    assert result.network.link_bytes_per_s == 5e6
    for transfer in result.network.transfers:
        assert transfer.share_of_link is not None
        assert 0.5 < transfer.share_of_link < 1.05, transfer


@pytest.mark.slow
def test_a_round_trip_takes_what_the_link_takes(listen: Listen) -> None:
    """Half a megabyte each way at 40 Mbit/s: 0.1 s there and 0.1 s back, less what the bucket holds."""
    options = ("--seconds", "0.2", "--latency", "512KiB", "--latency-seconds", "1", "--yes", "--json")
    result = over_a_link(listen, "40mbit", *options)
    assert result.network is not None
    (trips,) = result.network.round_trips
    assert 160 < trips.round_trip_ms.p50 < 600


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


@pytest.mark.slow
def test_a_round_trip_has_the_delay_of_both_ways(run: RunCommand, listen: Listen) -> None:
    other = listen("127.0.0.1:0")
    relay = Relay(other.address, 0.02)
    options = ("--seconds", "0.2", "--latency", "8B", "--latency-seconds", "1", "--yes", "--json")
    result = valid_run(run("bench", "network", relay.address, *options).stdout)
    relay.close()
    assert result.network is not None
    (trips,) = result.network.round_trips
    # Less is not possible, and more is what this machine does meanwhile.
    assert 40 <= trips.round_trip_ms.p50 < 400
    # The first sixteen are to warm up: at least one more is made, however long these took.
    assert trips.count >= 1


def test_wrong_options_are_named(run: RunCommand, tmp_path: Path) -> None:
    for options, words in (
        ((), "one of HOST, --listen and --local"),
        (("10.1.2.3", "--local"), "one of HOST, --listen and --local"),
        (("10.1.2.3:99999",), "port 99999"),
        (("--local", "--link", "fast"), '--link "fast"'),
        (("--local", "--cpus", "0,x"), "not a list of processors"),
        (("--local", "--message", "1GiB"), "--message: 1 GiB exceeds the maximum of 16 MiB"),
        (("--local", "--latency", "8B,64GiB"), "--latency: 64 GiB"),
        (("--local", "--output", str(tmp_path / "no" / "run.json")), "does not exist"),
        (("10.1.2.3", "--token-file", str(tmp_path / "none")), "cannot read the token file"),
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
    assert "3 streams" in shown.stdout


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
