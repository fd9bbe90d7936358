"""Measurements of the network for people."""

from collections.abc import Iterable

from penstock.bench.run.network import seconds_of
from penstock.model.bench.network import NetworkWorkload
from penstock.model.bench.runs import NetworkFigures, RoundTrips, TransferFigures
from penstock.model.events import Listening, NetworkSession
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent, human_rate, human_seconds, human_size


def network_plan_rows(workload: NetworkWorkload, target: str) -> dict[str, str]:
    """What will be done, before it is."""
    rows = {
        "to": target,
        "takes": f"{human_seconds(seconds_of(workload))}, and saturates the network meanwhile",
    }
    if workload.echo_bytes:
        sizes = ", ".join(human_size(size) for size in workload.echo_bytes)
        rows["round trips"] = f"messages of {sizes}; {human_seconds(workload.echo_seconds)} each"
    if workload.transfers:
        ways = ", ".join(workload.transfers)
        rows["transfers"] = (
            f"{ways}; {human_seconds(workload.seconds)} each, {counted(workload.streams, 'stream')},"
            f" {human_size(workload.message_bytes)} per call"
        )
    if workload.cpus:
        rows["processors"] = ", ".join(str(cpu) for cpu in workload.cpus)
    return rows


def network_rows(figures: NetworkFigures) -> dict[str, str]:
    link = f"{human_rate(figures.link_bytes_per_s)}" if figures.link_bytes_per_s else "speed unknown"
    rows = {"link": f"{link}, {figures.interface}" if figures.interface else link}
    rows |= {
        f"round trip, {human_size(trips.message_bytes)}": _round_trips(trips) for trips in figures.round_trips
    }
    return rows | _all(figures.transfers)


def _all(transfers: Iterable[TransferFigures]) -> dict[str, str]:
    rows: dict[str, str] = {}
    for transfer in transfers:
        share = f", {100 * transfer.share_of_link:.1f} % of the link" if transfer.share_of_link else ""
        gigabits = transfer.bytes_per_s * 8e-9
        rows[transfer.name] = f"{human_rate(transfer.bytes_per_s)} ({human_number(gigabits)} Gbit/s){share}"
        rows[f"{transfer.name}: retransmitted"] = human_percent(transfer.sent_again_share, 2)
        rows[f"{transfer.name}: processor time"] = (
            f"sender {human_number(transfer.sender_s_per_gb)} s/GB,"
            f" receiver {human_number(transfer.receiver_s_per_gb)} s/GB"
        )
    return rows


def _round_trips(trips: RoundTrips) -> str:
    values = trips.round_trip_ms
    named = (("p50", values.p50), ("p99", values.p99), ("p99.9", values.p999), ("max", values.max))
    texts = ", ".join(f"{name} {human_seconds(value * 1e-3)}" for name, value in named)
    return f"{texts} ({counted(trips.count, 'round trip')})"


def server_line(event: Listening | NetworkSession) -> str:
    """ "listening on tcp://127.0.0.1:9920", or "10.1.2.3:40112 ends: a peer that stopped"."""
    if isinstance(event, Listening):
        return f"listening on {', '.join(event.sources)}"
    words = {"begins": "started", "ends": "finished", "refused": "was rejected"}
    return f"{event.peer} {words[event.state]}" + (f": {event.text}" if event.text else "")
