"""Figures of a network workload, out of its document alone."""

from collections.abc import Iterator
from typing import Literal

from penstock.bench.statistics.quantiles import percentiles
from penstock.model.bench.load import LoadDocument, NetworkPhase
from penstock.model.bench.network import NetworkSide
from penstock.model.bench.runs import NetworkFigures, RoundTrips, TransferFigures

_Name = Literal["up", "down", "both: up", "both: down"]


def network_figures(
    document: LoadDocument, interface: str = "", link_bytes_per_s: float | None = None
) -> NetworkFigures:
    """A ValueError where the document is not of a network workload."""
    if document.network is None:
        raise ValueError("the document is not of a network workload")
    phases = document.network.phases
    return NetworkFigures(
        interface=interface,
        link_bytes_per_s=link_bytes_per_s,
        round_trips=[
            RoundTrips(
                message_bytes=phase.message_bytes,
                count=phase.round_trips.count,
                round_trip_ms=percentiles(phase.round_trips),
            )
            for phase in phases
            if phase.round_trips is not None and phase.round_trips.count
        ],
        transfers=[figures for phase in phases for figures in _transfers(phase, link_bytes_per_s)],
    )


def _transfers(phase: NetworkPhase, link_bytes_per_s: float | None) -> Iterator[TransferFigures]:
    """None of what the other end received, where it gave no answer."""
    prefix = "both: " if phase.pattern == "both" else ""
    if phase.pattern in ("up", "both") and phase.server is not None:
        yield _direction(_name(prefix, "up"), phase, phase.client, phase.server, link_bytes_per_s)
    if phase.pattern in ("down", "both") and phase.server is not None:
        yield _direction(_name(prefix, "down"), phase, phase.server, phase.client, link_bytes_per_s)


def _name(prefix: str, way: Literal["up", "down"]) -> _Name:
    names: dict[str, _Name] = {"up": "up", "down": "down", "both: up": "both: up", "both: down": "both: down"}
    return names[prefix + way]


def _direction(
    name: _Name, phase: NetworkPhase, sender: NetworkSide, receiver: NetworkSide, link: float | None
) -> TransferFigures:
    count = sum(stream.received_bytes for stream in receiver.streams)
    rate = count / receiver.received_s if receiver.received_s else 0.0
    sent = sum(stream.after.bytes_sent - stream.before.bytes_sent for stream in sender.streams)
    again = sum(stream.after.bytes_sent_again - stream.before.bytes_sent_again for stream in sender.streams)
    # Both ways at once: a program sends and receives, and its time is that of both.
    moved = count if phase.pattern != "both" else _both_ways(sender)
    return TransferFigures(
        name=name,
        streams=phase.streams,
        bytes=count,
        seconds=receiver.received_s,
        bytes_per_s=rate,
        share_of_link=rate / link if link else None,
        sent_again_share=max(0, again) / sent if sent > 0 else 0.0,
        round_trip_ms=sum(stream.after.round_trip_us for stream in sender.streams) * 1e-3 / phase.streams,
        sender_busy_share=_busy_share(sender),
        receiver_busy_share=_busy_share(receiver),
        sender_s_per_gb=_seconds_per_gb(sender, moved),
        receiver_s_per_gb=_seconds_per_gb(receiver, moved),
    )


def _both_ways(side: NetworkSide) -> int:
    return sum(stream.sent_bytes + stream.received_bytes for stream in side.streams)


def _busy_share(side: NetworkSide) -> float:
    return max(stream.busy_s for stream in side.streams) / side.seconds if side.seconds else 0.0


def _seconds_per_gb(side: NetworkSide, moved: int) -> float:
    return (side.user_s + side.system_s) / moved * 1e9 if moved else 0.0
