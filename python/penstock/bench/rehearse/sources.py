"""Where the recorder of a rehearsal gets its frames from."""

import secrets
import socket
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from penstock.bench.data.marks import FILE_MODE
from penstock.bench.rehearse.request import RehearsalRequest, rehearsed
from penstock.files.storage import storage_facts
from penstock.model.configuration import TcpSource, ZmqSource
from penstock.model.errors import UsageError
from penstock.model.layout.find import load_layout
from penstock.model.layout.nodes import DEFAULT
from penstock.model.plans import RecorderPlan, TcpSourcePlan
from penstock.model.units import is_loopback, split_address
from penstock.programs.locate import layouts_folder
from penstock.programs.ssh import network_name

_TOKEN_BYTES = 16
_PORTS = range(1024, 65536)
_KERNELS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ALL_INTERFACES = ("0.0.0.0", "::", "*")


def rehearsal_plan(request: RehearsalRequest, folder: Path, environment: Mapping[str, str]) -> RecorderPlan:
    """Returns the recorder's job: the user's configuration, with the rehearsal's folder and sources.

    Raises UsageError if the sender could not reach it.
    """
    sources = _sources(request)
    configuration = rehearsed(request.configuration, folder, sources)
    chosen = None if configuration.layout == DEFAULT else load_layout(configuration.layout, layouts_folder())
    token = secrets.token_hex(_TOKEN_BYTES) if request.sender else None
    # A source that others reach has a token; this one's lives as long as the rehearsal.
    plan = configuration.plan(
        environment if token is None else {**environment, "PENSTOCK_TOKEN": token},
        storage_facts(folder),
        chosen,
    )
    own = [
        source.model_copy(update={"token": token}) if isinstance(source, TcpSourcePlan) else source
        for source in plan.sources
    ]
    return plan.model_copy(update={"sources": own, "file_mode": f"{FILE_MODE:04o}"})


def _sources(request: RehearsalRequest) -> list[TcpSource | ZmqSource]:
    zmq = [source for source in request.configuration.sources if isinstance(source, ZmqSource)]
    if zmq and not any(isinstance(source, TcpSource) for source in request.configuration.sources):
        return _over_zmq(request, zmq)
    return [TcpSource(listen=_listen(request))]


def _listen(request: RehearsalRequest) -> str:
    """Returns the address on which the recorder listens for the sender."""
    if not request.sender:
        return "127.0.0.1:0"
    own = [source.listen for source in request.configuration.sources if isinstance(source, TcpSource)]
    reachable = (each for each in own if _is_one(each) and not is_loopback(split_address(each, 0)[0]))
    address = request.listen or next(reachable, "")
    if not address or not _is_one(address):
        raise UsageError(
            f"--from {request.sender} requires an address of this machine that it can reach",
            "add --listen HOST:PORT, for example the address of the interface that the detector uses",
        )
    return address


def _is_one(address: str) -> bool:
    """An address to connect to: all interfaces together are none."""
    host = split_address(address, 0)[0].strip("[]")
    return bool(host) and host not in _ALL_INTERFACES


def _port_of(endpoint: str) -> int:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not endpoint.startswith("tcp://") or not host or not port.isdecimal():
        raise UsageError(
            f"--from requires ZeroMQ sources with a TCP port, but the configuration has {endpoint}",
            "give its `endpoint` as tcp://HOST:PORT",
        )
    return int(port)


def _over_zmq(request: RehearsalRequest, sources: list[ZmqSource]) -> list[TcpSource | ZmqSource]:
    """The sender binds as a detector does: here on free ports, elsewhere on those of the configuration."""
    elements = [source for source in sources if source.element is not None]
    used = elements or sources[:1]
    if request.sender:
        ports = [_port_of(source.endpoint) for source in used]
        host = network_name(request.sender)
    else:
        ports, host = _free_ports(len(used)), "127.0.0.1"
    return [
        source.model_copy(update={"endpoint": f"tcp://{host}:{port}", "bind": False})
        for source, port in zip(used, ports, strict=True)
    ]


def _free_ports(count: int) -> list[int]:
    """Returns ports that nobody uses at the moment.

    If it can, one that the kernel gives to no connection before the sender binds to it: one that is outside
    ip_local_port_range (Linux, networking/ip-sysctl)."""
    kernels, first = _ports_of_the_kernel(), secrets.randbelow(len(_PORTS))
    ports = [*_PORTS[first:], *_PORTS[:first]]
    ports.sort(key=lambda port: port in kernels)
    return list(islice(filter(_is_free, ports), count))


def _ports_of_the_kernel() -> range:
    try:
        lowest, highest = map(int, _KERNELS_PORTS.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return range(0)
    return range(lowest, highest + 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
