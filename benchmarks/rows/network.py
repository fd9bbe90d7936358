"""Measuring a network, beside iperf3: over loopback, and over a link of a known rate."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

from measure.blocks import Subject, interleaved
from measure.context import Context
from measure.links import LOOPBACK, Ends, link
from measure.machine import settle
from measure.process import BenchmarkError, service
from measure.results import Result, Sample, beside_best
from peers import iperf3

MESSAGE_BYTES = 128 << 10
SECONDS = 4.0
AT_LEAST = 0.97
PEER_PORT = 5297


def _penstock(context: Context, ends: Ends, streams: int, way: str, seconds: float) -> Sample:
    settle()
    program, token = context.program("penstock-load"), secrets.token_hex()
    common = {"host": ends.address, "token": token}
    server = {"kind": "network_server", "port": 0, "sessions": 1, **common}
    command = [*ends.far, program, "--plan", "-"]
    with service(command, {"backend": {"kind": "null"}, "workload": server}) as other:
        port = int(other.wait_for("listening")["sources"][0].rpartition(":")[2])
        workload = {
            "kind": "network",
            "port": port,
            "streams": streams,
            "message_bytes": MESSAGE_BYTES,
            "seconds": seconds,
            "transfers": [way],
            **common,
        }
        phase = _phase(ends, program, {"backend": {"kind": "null"}, "workload": workload})
        other.finish(stop=False)
    receiver = phase["server" if way == "up" else "client"]
    received = sum(stream["received_bytes"] for stream in receiver["streams"])
    return {"bytes_per_s": received / receiver["received_s"]}


def _phase(ends: Ends, program: str, plan: dict[str, Any]) -> dict[str, Any]:
    with service([*ends.near, program, "--plan", "-"], plan) as client:
        document = client.wait_for("result")["document"]
        client.finish(stop=False)
    if document["problem"]:
        raise BenchmarkError(f"penstock-load: {document['problem']}")
    phase: dict[str, Any] = document["network"]["phases"][0]
    return phase


def _iperf3(ends: Ends, streams: int, way: str, seconds: float) -> Sample:
    settle()
    return iperf3.transfer(
        ends.near,
        ends.far,
        ends.address,
        PEER_PORT,
        streams=streams,
        message_bytes=MESSAGE_BYTES,
        seconds=seconds,
        down=way == "down",
    )


def _compared(context: Context, name: str, what: str, ends: Ends) -> list[Result]:
    seconds = SECONDS / 4 if context.quick else SECONDS
    results = []
    for streams in (1, 4):
        for way in ("up", "down"):
            subjects: dict[str, Subject] = {
                "penstock": partial(_penstock, context, ends, streams, way, seconds),
                "iperf3": partial(_iperf3, ends, streams, way, seconds),
            }
            samples = interleaved(f"network {name} {way} {streams}", subjects, context.repetitions)
            results.append(
                beside_best(
                    f"network/{name}/{way}/{streams}",
                    f"{what}, {way}, streams: {streams}, 128 KiB a call",
                    samples["penstock"],
                    {"iperf3": samples["iperf3"]},
                    at_least=AT_LEAST,
                )
            )
    return results


def over_loopback(context: Context) -> list[Result]:
    return _compared(context, "loopback", "loopback", LOOPBACK)


def over_a_link(context: Context) -> list[Result]:
    with link("1gbit", "256kb") as ends:
        return _compared(context, "link", "two namespaces, a link of 1 Gbit/s", ends)
