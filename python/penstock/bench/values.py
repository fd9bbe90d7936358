"""The single values of a run, by name, for whoever compares runs or puts them into tables and plots."""

from dataclasses import dataclass
from typing import Literal

from penstock.model.runs import Run

Unit = Literal["B/s", "1/s", "ms", "s", "share", "s/GB"]


@dataclass(frozen=True)
class Value:
    """`better` is the direction in which a storage is better."""

    value: float
    unit: Unit
    better: Literal["higher", "lower"]


def values_of(run: Run) -> dict[str, Value]:
    """The most telling one is first."""
    values: dict[str, Value] = {}
    if run.frames is not None:
        frames = run.frames
        values["carried"] = Value(frames.carried_bytes_per_s, "B/s", "higher")
        if frames.needed_hz:
            values["lost"] = Value(frames.lost_share, "share", "lower")
            values["late"] = Value(frames.late / max(1, frames.due), "share", "lower")
        values["latency p50"] = Value(frames.latency_ms.p50, "ms", "lower")
        values["latency p99"] = Value(frames.latency_ms.p99, "ms", "lower")
        values["stall"] = Value(frames.stall_s, "s", "lower")
    for phase in run.streams:
        values[phase.phase] = Value(phase.bytes_per_s, "B/s", "higher")
    if run.network is not None:
        for transfer in run.network.transfers:
            values[transfer.name] = Value(transfer.bytes_per_s, "B/s", "higher")
        for trips in run.network.round_trips:
            values[f"round trip {trips.message_bytes} B p50"] = Value(trips.round_trip_ms.p50, "ms", "lower")
            values[f"round trip {trips.message_bytes} B p99"] = Value(trips.round_trip_ms.p99, "ms", "lower")
    if run.cost is not None:
        values["processor time"] = Value(run.cost.machine_s_per_gb, "s/GB", "lower")
    return values
