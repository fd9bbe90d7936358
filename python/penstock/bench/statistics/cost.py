"""What moving bytes costs in processor time: of the machine, and of the generator itself."""

from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import ProcessorCost

# As /proc/stat names them.
_USER, _SYSTEM = ("user", "nice"), ("system", "irq", "softirq")


def moved_bytes(document: LoadDocument) -> int:
    """Written and read; over a network sent and received, as the client saw it."""
    frames = document.frames.bytes if document.frames is not None else 0
    streams = sum(phase.bytes for phase in document.phases or [])
    network = sum(
        stream.sent_bytes + stream.received_bytes
        for phase in (document.network.phases if document.network is not None else [])
        for stream in phase.client.streams
    )
    return frames + streams + network


def processor_cost(document: LoadDocument) -> ProcessorCost | None:
    """None where nothing was moved, or the kernel does not report it."""
    before, after = document.machine["before"], document.machine["after"]
    moved = moved_bytes(document)
    if not moved or not before.get("processor_seconds") or not before.get("own"):
        return None
    gigabytes = moved * 1e-9
    spent = {
        name: (after["processor_seconds"][name] - seconds) / gigabytes
        for name, seconds in before["processor_seconds"].items()
    }
    own = {name: (after["own"][name] - before["own"][name]) / gigabytes for name in ("user_s", "system_s")}
    return ProcessorCost(
        moved_bytes=moved,
        user_s_per_gb=sum(spent[name] for name in _USER),
        system_s_per_gb=sum(spent[name] for name in _SYSTEM),
        steal_s_per_gb=spent["steal"],
        own_user_s_per_gb=own["user_s"],
        own_system_s_per_gb=own["system_s"],
    )
