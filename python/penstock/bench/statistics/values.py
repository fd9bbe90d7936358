"""The single values of a run, by name, for whoever compares runs or puts them into tables and plots."""

import math
from dataclasses import dataclass
from typing import Literal

from penstock.model.bench.runs import FrameFigures, NetworkFigures, ProcessorCost, Run
from penstock.model.bench.science import ScienceUnit

Unit = Literal["s/GB"] | ScienceUnit


@dataclass(frozen=True)
class Reading:
    """What tables and plots of campaigns may show."""

    value: float
    unit: Unit


@dataclass(frozen=True)
class Value(Reading):
    """`better` is the direction in which a storage is better.

    `error` is what a single run leaves open because it counts and rounds: a standard deviation, in `unit`.
    """

    better: Literal["higher", "lower"]
    error: float = 0.0


PROCESSOR_TIME = "processor time"
_TICK_S, _COUNTERS = 0.01, 5
DIP, RETURN, CATCH_UP, HEALING, WRONG = "dip", "return", "catch-up", "healing", "wrong"
# Of runs with faults of servers, of any workload and of frames.
FAULT_VALUES, FRAMES_FAULT_VALUES = (HEALING,), (DIP, RETURN, CATCH_UP, HEALING, WRONG)
NEEDED, LINK, TOTAL = "needed", "link", "both: total"
TRANSFERS = ("up", "down", "both: up", "both: down")


def share_of_link_name(transfer: str) -> str:
    return f"{transfer} share of link"


# Of a network workload; those of a link only where its speed is known.
NETWORK_READINGS = (TOTAL, LINK, *(share_of_link_name(way) for way in (*TRANSFERS, TOTAL)))


def round_trip_names(message_bytes: int) -> tuple[str, str]:
    return f"round trip {message_bytes} B p50", f"round trip {message_bytes} B p99"


def values_of(run: Run) -> dict[str, Value]:
    """The most telling one is first. Of a run that is not invalid, what was too short is left out."""
    values: dict[str, Value] = {}
    if run.frames is not None:
        frames = run.frames
        values["throughput"] = _carried(frames)
        if frames.needed_hz:
            values["lost"] = _share(frames, frames.due - frames.written)
            values["late"] = _share(frames, frames.late)
        values["latency p50"] = _duration(frames.latency_ms.p50)
        values["latency p99"] = _duration(frames.latency_ms.p99)
        values["stall"] = Value(frames.stall_s, "s", "lower")
    for phase in run.streams:
        if phase.too_short and run.validity != "invalid":
            continue
        values[phase.phase] = Value(phase.bytes_per_s, "B/s", "higher")
    for operation in run.metadata:
        if operation.too_short and run.validity != "invalid":
            continue
        values[_operation_name(operation.operation)] = Value(operation.rate_mean, "1/s", "higher")
    values |= _fault_values(run)
    if run.network is not None:
        for transfer in run.network.transfers:
            values[transfer.name] = Value(transfer.bytes_per_s, "B/s", "higher")
        for trips in run.network.round_trips:
            half, most = round_trip_names(trips.message_bytes)
            values[half] = Value(trips.round_trip_ms.p50, "ms", "lower")
            values[most] = Value(trips.round_trip_ms.p99, "ms", "lower")
    if run.science is not None:
        values |= {
            each.name: Value(each.value, each.unit, each.better)
            for each in run.science.values
            if each.better is not None
        }
    if run.cost is not None:
        values[PROCESSOR_TIME] = _processor_time(run.cost)
        for name, share in (run.profile.shares if run.profile is not None else {}).items():
            time = Value(share * run.cost.machine_s_per_gb, "s/GB", "lower")
            values[f"{PROCESSOR_TIME}: {name}"] = time
    return values


def _fault_values(run: Run) -> dict[str, Value]:
    """Of the worst fault; what is not known of each of them is left out."""
    times = {
        DIP: [each.dip_s for each in run.faults],
        RETURN: [each.returned_s for each in run.faults],
        CATCH_UP: [each.caught_up_s for each in run.faults],
        HEALING: [each.healed_s for each in run.faults],
    }
    values = {}
    for name, each in times.items():
        known = [seconds for seconds in each if seconds is not None]
        if known and len(known) == len(each):
            values[name] = Value(max(known), "s", "lower")
    if run.stored is not None:
        values[WRONG] = Value(run.stored.wrong / max(1, run.stored.written), "share", "lower")
    return values


def too_short_of(run: Run) -> set[str]:
    """Names among `values_of`, whose phases or operations were too short for a figure."""
    phases = {phase.phase for phase in run.streams if phase.too_short}
    return phases | {_operation_name(each.operation) for each in run.metadata if each.too_short}


def derived_of(run: Run) -> dict[str, Reading]:
    """What was asked of a run, and what follows from its values: `penstock compare` learns nothing by it."""
    readings: dict[str, Reading] = {}
    if run.frames is not None and run.frames.needed_hz:
        readings[NEEDED] = Reading(run.frames.needed_bytes_per_s, "B/s")
    if run.network is not None:
        readings |= _network_readings(run.network)
    if run.science is not None:
        readings |= {
            each.name: Reading(each.value, each.unit) for each in run.science.values if each.better is None
        }
    return readings


def readings_of(run: Run) -> dict[str, Reading]:
    """All that a view may show."""
    return {**values_of(run), **derived_of(run)}


def _network_readings(network: NetworkFigures) -> dict[str, Reading]:
    """A link carries its speed in each direction, so both together are a share of twice that."""
    link = network.link_bytes_per_s
    rates = {transfer.name: transfer.bytes_per_s for transfer in network.transfers}
    readings: dict[str, Reading] = {}
    both = [rate for name, rate in rates.items() if name.startswith("both: ")]
    if len(both) == 2:
        readings[TOTAL] = Reading(sum(both), "B/s")
    if not link:
        return readings
    readings[LINK] = Reading(link, "B/s")
    for name, rate in rates.items():
        readings[share_of_link_name(name)] = Reading(rate / link, "share")
    if TOTAL in readings:
        readings[share_of_link_name(TOTAL)] = Reading(sum(both) / (2 * link), "share")
    return readings


def _processor_time(cost: ProcessorCost) -> Value:
    """The kernel counts in hundredths of a second: each of five counters is rounded before and after."""
    error_s = _TICK_S * math.sqrt(2 * _COUNTERS / 12)
    return Value(cost.machine_s_per_gb, "s/GB", "lower", error_s / (max(1, cost.moved_bytes) * 1e-9))


def _carried(frames: FrameFigures) -> Value:
    """At a rate it is as many frames as became due: where in its period the last one was done is chance."""
    carried = frames.carried_bytes_per_s
    error = carried / max(1, frames.due) / math.sqrt(12) if frames.needed_hz else 0.0
    return Value(carried, "B/s", "higher", error)


def _share(frames: FrameFigures, hits: int) -> Value:
    """One hit and one miss more than were seen: 0 of 100 is not a certainty."""
    due = max(1, frames.due)
    share = (hits + 1) / (due + 2)
    return Value(hits / due, "share", "lower", math.sqrt(share * (1 - share) / due))


def _duration(milliseconds: float) -> Value:
    """A bucket of the histogram is 0.4 % wide, and any place in it as probable as another."""
    return Value(milliseconds, "ms", "lower", 0.004 * milliseconds / math.sqrt(12))


def _operation_name(operation: str) -> str:
    """Returns "directory create" of folder_create, the name in documents."""
    return operation.replace("folder_", "directory_").replace("_", " ")
