"""`penstock bench network` with peers that lie, stop, are of another version, or are not welcome."""

import contextlib
import json
import signal
import socket
import subprocess
import threading
from pathlib import Path

import psutil
import pytest
from conftest import Run as RunCommand
from network_ends import HEAD, SHORT, TOKEN, Listen, answer, connect, message
from test_bench import valid_run
from warm_command import popen


def test_a_token_is_asked_for(run: RunCommand, listen: Listen, tmp_path: Path) -> None:
    other = listen("127.0.0.1:0", token=TOKEN)
    without = run("bench", "network", other.address, *SHORT)
    assert without.returncode == 1
    assert "a token is required" in without.stderr
    (tmp_path / "wrong").write_text("guess\n")
    (tmp_path / "wrong").chmod(0o600)
    wrong = run("bench", "network", other.address, "--token-file", str(tmp_path / "wrong"), *SHORT)
    assert wrong.returncode == 1
    assert "wrong token" in wrong.stderr
    (tmp_path / "right").write_text(TOKEN + "\n")
    (tmp_path / "right").chmod(0o600)
    right = run("bench", "network", other.address, "--token-file", str(tmp_path / "right"), *SHORT)
    assert valid_run(right.stdout).network is not None
    assert TOKEN not in right.stdout + right.stderr


def test_beyond_loopback_there_is_no_end_without_a_token(run: RunCommand) -> None:
    refused = run("bench", "network", "--listen", "0.0.0.0", "--seconds-max", "1")
    assert refused.returncode == 2
    assert "token" in refused.stderr


def test_a_taken_port_and_a_silent_one_are_told(run: RunCommand) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        nobody = run("bench", "network", address, *SHORT)
        assert nobody.returncode == 1
        assert "connection refused" in nobody.stderr
        taken.listen()
        refused = run("bench", "network", "--listen", address)
        assert refused.returncode == 1
        assert "is in use" in refused.stderr


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
                peer.sendall(message({"type": "welcome", "session": "1", "more": 1}, version=9))
                with contextlib.suppress(ConnectionResetError):
                    peer.recv(4096)

        thread = threading.Thread(target=answer_once)
        thread.start()
        finished = run("bench", "network", address, *SHORT)
        thread.join(30)
    assert finished.returncode == 1
    assert "version 9" in finished.stderr


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
    assert "another client is measuring" in second.stderr


@pytest.mark.slow
def test_silence_ends_within_a_limit(listen: Listen) -> None:
    """Nobody who only connects, or begins a message and stops, stays for long."""
    other = listen("127.0.0.1:0")
    with connect(other.address) as silent, connect(other.address) as half:
        half.sendall(b"PENSTNET\x01")
        for peer in (silent, half):
            assert "arrived in time" in str(answer(peer)["text"])
            assert peer.recv(1) == b""


def _measuring(address: str, output: Path, seconds: str) -> "subprocess.Popen[str]":
    options = ("--seconds", seconds, "--latency", "8B", "--latency-seconds", "0.1", "--yes")
    return popen("bench", "network", address, *options, "--output", str(output))


def _until_it_transfers(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("network, up"):
            return
    raise AssertionError("it ended before its first transfer")


@pytest.mark.slow
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


@pytest.mark.slow
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
