"""The pvAccess source beside a bare monitor: frames a second of one that records and one that counts."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from measure.blocks import Subject, interleaved
from measure.context import GIB, MIB, Context
from measure.machine import settle
from measure.process import BenchmarkError, Service, service
from measure.results import Result, Sample, beside_best

AT_LEAST = 0.9
SECONDS = 3.0
QUEUE_FRAMES = 32
# Little, so that what is measured goes through and does not pile up.
BUFFER_BYTES = 64 * MIB


@dataclass(frozen=True)
class Offer:
    """What the server posts."""

    name: str
    shape: tuple[int, int]
    codec: str
    rate: float


# What two cores carry that have a server, a source and a recorder to run, each with a copy of each byte.
OFFERS = (
    Offer("512 × 512 uint16", (512, 512), "", 500.0),
    Offer("2048 × 2048 uint16", (2048, 2048), "", 30.0),
    Offer("2048 × 2048 uint16, bslz4", (2048, 2048), "bslz4", 300.0),
)


def _ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket(type=socket.SOCK_DGRAM) as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


@contextlib.contextmanager
def _server(context: Context, offer: Offer) -> Iterator[tuple[Service, dict[str, Any]]]:
    port, broadcast_port = _ports()
    ports = {"port": port, "broadcast_port": broadcast_port}
    plan = {"mode": "serve", "shape": offer.shape, "codec": offer.codec, "rate": offer.rate, **ports}
    seconds = SECONDS / 3 if context.quick else SECONDS
    with service(context.peer("pva.py"), plan | {"seconds": seconds}) as server:
        server.wait_for("serves")
        yield server, ports


def _sample(posted: dict[str, Any], frames: int) -> Sample:
    if frames == 0:
        raise BenchmarkError("not a frame came over pvAccess")
    return {
        "frames_per_s": frames / posted["seconds"],
        "offered_per_s": posted["frames"] / posted["seconds"],
        "received": frames / posted["frames"],
    }


def _bare(context: Context, offer: Offer) -> Sample:
    settle()
    with _server(context, offer) as (server, ports):
        plan = {"mode": "monitor", "queue_frames": QUEUE_FRAMES, **ports}
        with service(context.peer("pva.py"), plan) as monitor:
            posted = server.wait_for("posted")
            monitor.finish(stop=True)
            return _sample(posted, monitor.wait_for("received")["frames"])


def _recorder_plan(context: Context, offer: Offer) -> dict[str, Any]:
    return {
        "folder": str(context.tmpfs),
        "file_name": "{series_unique_id}.h5",
        "overwrite": True,
        "sources": [{"kind": "tcp", "host": "127.0.0.1", "port": 0}],
        "codec": {"encoding": offer.codec or "none"},
        "threads": 1,
        "pool_bytes": GIB // 2,
        "end_timeout_s": 0.0,
    }


def _recorded(context: Context, offer: Offer) -> Sample:
    settle()
    recorder_command = [context.program("penstock-recorder"), "--plan", "-"]
    with (
        service(recorder_command, _recorder_plan(context, offer)) as recorder,
        _server(context, offer) as (server, ports),
    ):
        plan = {
            "channel": "BENCH:Pva1:Image",
            "to": recorder.wait_for("listening")["sources"][0],
            "name": "pva",
            "queue_frames": QUEUE_FRAMES,
            "buffer_bytes": BUFFER_BYTES,
        }
        with (
            _environment(ports),
            service([sys.executable, "-m", "penstock.pva", "--plan", "-"], plan) as source,
        ):
            posted = server.wait_for("posted")
            source.finish(stop=True)
            end = source.wait_for("source_series_end")
        recorder.finish(stop=True)
        (context.tmpfs / "pva.h5").unlink()
    if end["acknowledged"] != end["frames_sent"] or end["problem"]:
        raise BenchmarkError(f"not all frames are in the file: {end}")
    return _sample(posted, end["acknowledged"])


@contextlib.contextmanager
def _environment(ports: dict[str, Any]) -> Iterator[None]:
    """As EPICS wants to be told."""
    wanted = {
        "EPICS_PVA_ADDR_LIST": "127.0.0.1",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_SERVER_PORT": str(ports["port"]),
        "EPICS_PVA_BROADCAST_PORT": str(ports["broadcast_port"]),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def beside_monitor(context: Context) -> list[Result]:
    """Server, monitor or source, and recorder share the machine's cores, unbound."""
    context.need(context.tmpfs, 3 * GIB)
    results = []
    for offer in OFFERS:
        subjects: dict[str, Subject] = {
            "penstock": partial(_recorded, context, offer),
            "bare monitor": partial(_bare, context, offer),
        }
        samples = interleaved(f"pva {offer.name}", subjects, context.repetitions)
        shares = {name: sorted(each["received"] for each in found) for name, found in samples.items()}
        middle = {name: found[len(found) // 2] for name, found in shares.items()}
        results.append(
            beside_best(
                f"pva/{offer.name}",
                f"pvAccess source into a recorder on tmpfs, {offer.name}",
                samples["penstock"],
                {"p4p monitor that counts": samples["bare monitor"]},
                at_least=AT_LEAST,
                metric="frames_per_s",
                scale=1.0,
                unit="frames/s",
                remarks=(
                    f"of {offer.rate:g} frames/s offered at most; of those that were posted the source had"
                    f" {middle['penstock']:.0%}, the monitor {middle['bare monitor']:.0%}",
                ),
            )
        )
    return results
