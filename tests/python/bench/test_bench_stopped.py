"""A load generator that is stopped for a while is not what its storage is blamed for."""

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from penstock.bench.judge.checks import machine_checks
from penstock.bench.judge.generator_checks import graded_gap
from penstock.model.bench.load import LoadDocument
from penstock.programs.locate import find_program

STOPPED_S = 1.3
SLOW = {"kind": "null", "delay_s": 0.005}


def generator(plan: dict[str, Any]) -> subprocess.Popen[str]:
    command = [str(find_program("penstock-load")), "--plan", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    return process


def reports_progress(process: subprocess.Popen[str]) -> bool:
    """Waits until it has done a part of its work. False if it ended without a report of that."""
    assert process.stdout is not None
    return any(json.loads(line).get("done", 0) > 0 for line in process.stdout)


def interrupted_document_of(process: subprocess.Popen[str]) -> LoadDocument:
    process.send_signal(signal.SIGINT)
    document = document_of(process)
    assert document.interrupted
    assert document.problem is None
    return document


def document_of(process: subprocess.Popen[str]) -> LoadDocument:
    assert process.stdout is not None
    events = [json.loads(line) for line in process.stdout]
    process.wait(30)
    return LoadDocument.model_validate(events[-1]["document"])


def stop_for_a_while(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(process.pid, signal.SIGCONT)


def outcome_of(document: LoadDocument) -> str:
    (found,) = (
        c for c in machine_checks(document, document.active_seconds) if c.name == "generator on schedule"
    )
    return found.outcome


# Minutes of work; tests interrupt it.
WORKLOADS = [
    {"kind": "frames", "frames": 100_000, "frame_bytes": 1000, "rate_hz": 0, "buffer_frames": 2},
    {"kind": "stream", "threads": 2, "thread_bytes": 100_000_000, "transfer_bytes": 1000},
    {"kind": "metadata", "threads": 2, "items": 100_000, "files": False, "remove": False},
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: str(workload["kind"]))
def test_a_stopped_generator_is_noticed_without_a_rate(workload: dict[str, Any]) -> None:
    process = generator({"backend": SLOW, "workload": workload})
    assert reports_progress(process)
    stop_for_a_while(process)
    assert outcome_of(interrupted_document_of(process)) == "failed"


def network_ends(seconds: float) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """A server and a client that sends to it for this long."""
    host = "127.0.0.1"
    workload: dict[str, Any] = {"kind": "network_server", "host": host, "port": 0, "sessions": 1}
    server = generator({"backend": {"kind": "null"}, "workload": workload})
    assert server.stdout is not None
    (address,) = json.loads(server.stdout.readline())["sources"]
    workload = {
        "kind": "network",
        "host": host,
        "port": int(address.rpartition(":")[2]),
        "transfers": ["up"],
        "message_bytes": 65536,
        "seconds": seconds,
    }
    return server, generator({"backend": {"kind": "null"}, "workload": workload})


def test_a_stopped_end_of_a_network_is_noticed_at_the_other() -> None:
    """An interrupted phase has no metrics of the server, so the stop must come before the phase ends."""
    longest_s = 0.0
    for seconds in (2.0, 8.0, 30.0):  # a busy machine needs a longer phase
        server, client = network_ends(seconds)
        if not reports_progress(client):
            continue
        stop_for_a_while(server)
        document = document_of(client)
        assert server.stdout is not None
        server.stdout.read()
        assert server.wait(30) == 0
        assert document.problem is None
        assert document.network is not None
        (phase,) = document.network.phases
        assert phase.server is not None
        assert phase.server.gaps is not None
        longest_s = phase.server.gaps.longest_ns * 1e-9
        if longest_s > 1:
            break
    assert longest_s > 1
    assert outcome_of(document) == "failed"


@pytest.mark.parametrize(
    ("longest_s", "seconds", "outcome"),
    [
        (0.02, 0.1, "ok"),
        (0.06, 1.0, "warning"),
        (0.09, 100.0, "ok"),
        (0.11, 100.0, "warning"),
        (0.11, 1.0, "failed"),
        (1.01, 1000.0, "failed"),
        (0.5, 0.0, "warning"),
    ],
)
def test_how_long_a_generator_may_stand_still(longest_s: float, seconds: float, outcome: str) -> None:
    assert graded_gap(longest_s, seconds) == outcome


@pytest.mark.parametrize(
    ("longest_s", "all_s", "outcome"),
    [(0.09, 0.09, "ok"), (0.09, 0.5, "warning"), (0.09, 1.8, "failed"), (0.02, 0.0, "ok")],
)
def test_many_short_stops_are_a_long_one(longest_s: float, all_s: float, outcome: str) -> None:
    """Of ten seconds."""
    assert graded_gap(longest_s, 10.0, all_s) == outcome


def test_a_generator_that_is_stopped_again_and_again_is_noticed() -> None:
    """For less than a tenth of a second each time."""
    process = generator({"backend": SLOW, "workload": WORKLOADS[0]})
    assert reports_progress(process)
    for _ in range(20):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.08)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.02)
    document = interrupted_document_of(process)
    assert document.generator is not None
    assert document.generator.gaps is not None
    assert outcome_of(document) == "failed"
