"""A laboratory as its supervisor has it: brings it up, and does what is asked of it until it ends.

Single-threaded: requests are served one after the other.
"""

import contextlib
import math
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.lab import network
from penstock.lab.disks import Disks, attach, make_image, mount_memory, mount_new, numbers_of, require_memory
from penstock.lab.ground import GROUND
from penstock.lab.network import Network
from penstock.lab.node import Node
from penstock.lab.place import Place
from penstock.lab.request import LabRequest, LabState, NodeState
from penstock.lab.system import Site, System, SystemOptions
from penstock.lab.systems.all import SYSTEMS, system_named
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import words_of
from penstock.model.text import counted
from penstock.model.units import human_size

_PROBE = ".penstock-probe"
_PROBE_BYTES = b"first byte\n"


class Laboratory:
    def __init__(self, place: Place, request: LabRequest) -> None:
        self.place, self.request = place, request
        self._kind = system_named(request.system)
        self._options = options_of(self._kind, request.options)
        self._begun = time.monotonic()
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._up_s: float | None = None
        self._size_bytes = self._free_bytes = 0
        self.network = Network(place.namespaces)
        self.site: Site | None = None
        self.system: System[Any] | None = None

    def up(self) -> None:
        """Raises PenstockError; what was made until then is for the sweep."""
        request = self.request
        GROUND.make(self.place)
        self.network.make_switch()
        meta = self._node("meta", network.META, None)
        servers = [
            self._node(f"server-{n + 1}", network.SERVERS + n, request.link_bytes_per_s)
            for n in range(request.servers)
        ]
        clients = [self._node(f"client-{n + 1}", network.CLIENTS + n, None) for n in range(request.clients)]
        for server in servers:
            self._limit(server)
        self._give_disks(servers)
        for server in servers:
            self._limit_disk(server, request.disk_bytes_per_s or 0.0)
        self.site = Site(self.place.folder, self.network, servers, meta, clients)
        self.system = self._kind(self.site, self._options)
        self.system.start()
        for client in clients:
            client.mount.mkdir(mode=0o555)  # nothing is written below the mount by mistake
            self.system.mount(client)
        if self._kind.is_mounted():
            _probe(clients[0].mount)
            self.site.wait_until(
                lambda: all(_has_size(each.mount) for each in clients), "the size of a mount"
            )
            room = os.statvfs(clients[0].mount)
            self._size_bytes, self._free_bytes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
        self._up_s = time.monotonic() - self._begun

    def state(self) -> LabState:
        site, system = self.site, self.system
        nodes = [] if site is None else [*site.server_nodes, *site.clients]
        mounted = self._kind.is_mounted() and site is not None
        return LabState(
            name=self.place.name,
            system=self._kind.NAME,
            title=system.title if system is not None else self._kind.TITLE,
            state="starting" if self._up_s is None else "up",
            mount=str(site.clients[0].mount) if mounted and site is not None else "",
            url=system.url() if system is not None else "",
            environment=system.environment() if system is not None else {},
            up_s=self._up_s,
            size_bytes=self._size_bytes,
            free_bytes=self._free_bytes,
            since=self._since,
            nodes=[_state_of(node, mounted) for node in nodes if node.daemons or node.name != "meta"],
            failures_max=system.failures_max() if system is not None else 0,
        )

    def fail(self, number: int) -> None:
        """Kills a server, or takes its disk out."""
        server = self._server(number)
        if not self._kind.can_fail():
            raise self._without_servers()
        assert self.system is not None
        self.system.fail_server(server)
        server.has_failed = True

    def heal(self, number: int) -> None:
        """Starts a server again that has failed or ended by itself, and takes limits off one that is slow."""
        server = self._server(number)
        server.group.freeze(False)
        assert self.system is not None
        assert self.site is not None
        if self.site.meta.ended():
            self.system.start_meta()
        if server.is_slow:
            self._limit_disk(server, self.request.disk_bytes_per_s or 0.0)
            self.network.limit(server.name, server.number, self.request.link_bytes_per_s or 0.0)
        if server.has_failed or server.ended():
            server.kill()  # what is left of it
            self.system.start_server(server)
            server.is_healing = True
        server.has_failed = server.is_slow = server.is_stalled = False

    def has_healed(self) -> bool:
        assert self.system is not None
        healed = self.system.has_healed()
        for server in self.site.servers if healed and self.site is not None else []:
            server.is_healing = False
        return healed

    def away(self) -> list[int]:
        """Returns the numbers of servers that fail, stall, or do not have all data yet after they failed."""
        servers = self.site.servers if self.site is not None else []
        if any(server.is_healing for server in servers):
            with contextlib.suppress(PenstockError):  # it has not healed
                self.has_healed()
        return [
            number
            for number, server in enumerate(servers, 1)
            if server.is_healing or server.state in ("failed", "stalled")
        ]

    def slow(
        self,
        number: int,
        disk_bytes_per_s: float | None = None,
        link_bytes_per_s: float | None = None,
        stalled: bool = False,
    ) -> None:
        """Holds a server's disk or link to a rate, or stops all its processes."""
        server = self._server_with_daemons(number) if stalled else self._server(number)
        if disk_bytes_per_s is not None:
            self._limit_disk(server, disk_bytes_per_s)
        if link_bytes_per_s is not None:
            self.network.limit(server.name, server.number, link_bytes_per_s)
        server.is_slow |= disk_bytes_per_s is not None or link_bytes_per_s is not None
        if stalled:
            server.group.freeze(True)
            server.is_stalled = True

    def _limit_disk(self, server: Node, bytes_per_s: float) -> None:
        """0: no limit. Only of a loop device: others use the device below a given folder."""
        if server.device is not None:
            numbers = numbers_of(server.device)
            assert numbers is not None
            # Of all nodes together: programs on a client use the device of a local file system.
            GROUND.processes(self.place, "").limit_device(numbers, round(bytes_per_s))
        elif bytes_per_s:
            raise UsageError(
                f"{server.name} stores in memory or in a given folder", "use --disks loop, or slow its link"
            )

    def _server_with_daemons(self, number: int) -> Node:
        server = self._server(number)
        if not server.daemons and not server.has_failed:
            raise self._without_servers()
        return server

    def _without_servers(self) -> UsageError:
        return UsageError(
            f"{self._kind.TITLE} has no servers that could fail", "slow its disk: penstock lab slow --disk"
        )

    def _server(self, number: int) -> Node:
        servers = self.site.servers if self.site is not None else []
        if not 1 <= number <= len(servers):
            raise UsageError(
                f"laboratory {self.place.name} has no server {number}", f"it has servers 1 to {len(servers)}"
            )
        return servers[number - 1]

    def _node(self, name: str, number: int, link_bytes_per_s: float | None) -> Node:
        folder = self.place.folder / name
        folder.mkdir()
        group = GROUND.processes(self.place, name)
        group.make()
        self.network.add(name, number, link_bytes_per_s)
        return Node(name, number, network.address_of(number), folder, group, self.network)

    def _limit(self, server: Node) -> None:
        if self.request.server_cpus is not None:
            server.group.limit_processors(self.request.server_cpus)
        if self.request.server_memory_bytes is not None:
            server.group.limit_memory(self.request.server_memory_bytes)

    def _give_disks(self, servers: list[Node]) -> None:
        disks = Disks.parse(self.request.disks)
        require_memory(disks, len(servers))
        images = self.request.folder
        if disks.kind == "loop":
            images = self.place.make_elsewhere(images)
        if disks.kind == "dir":
            self._give_folders(servers, disks.folders)
            return
        for server in servers:
            if disks.kind == "ram" and self._kind.DISK != "device":
                mount_memory(server.disk, disks.size_bytes)
                continue
            server.device = self._device(server, disks, images)
            if self._kind.DISK != "device":
                mount_new(server.device, server.disk, self._kind.DISK)

    def _device(self, server: Node, disks: Disks, folder: Path) -> Path:
        if disks.kind == "ram":
            folder = server.folder / "memory"
            mount_memory(folder, disks.size_bytes + (1 << 20))
        image = folder / f"{server.name}.img"
        make_image(image, disks.size_bytes)
        return attach(image)

    def _give_folders(self, servers: list[Node], folders: tuple[Path, ...]) -> None:
        if self._kind.DISK == "device":
            raise UsageError(f"{self._kind.TITLE} needs raw devices", "use --disks loop or ram")
        for index, server in enumerate(servers):
            own = folders[index % len(folders)] / f"{self.place.label}-{server.name}"
            server.disk.symlink_to(self.place.make_elsewhere(own))


def require_possible(request: LabRequest) -> None:
    """Raises UsageError if system, options, disks or number of servers are not possible."""
    kind = system_named(request.system)
    options_of(kind, request.options)
    if need := GROUND.need_of(kind):
        able = ", ".join(name for name, each in SYSTEMS.items() if not GROUND.need_of(each))
        raise UsageError(
            f"{kind.TITLE} requires root: {need}", f"use sudo; these systems work without root: {able}"
        )
    GROUND.require_possible(request)
    disks = Disks.parse(request.disks)
    if request.disk_bytes_per_s is not None and disks.kind != "loop" and kind.DISK != "device":
        raise UsageError(
            "a limit of the disks requires disks of kind loop", "use --disks loop:SIZE, or disks=loop:SIZE"
        )
    if disks.kind == "ram" and disks.size_bytes >= (request.server_memory_bytes or math.inf):
        raise UsageError(
            f"--server-memory {human_size(request.server_memory_bytes or 0)} includes the disk of the server,"
            f" {disks.option}: the kernel would kill the server when its disk fills",
            "use more --server-memory than the size of the disk, or --disks loop",
        )
    if request.servers < kind.SERVERS_MIN:
        least = counted(kind.SERVERS_MIN, "server")
        raise UsageError(f"{kind.TITLE} has at least {least}", "raise --servers")


def failures_max(request: LabRequest) -> int:
    """Returns how many servers could be away while it stays in service. It does not have to be up."""
    kind = system_named(request.system)
    place = Place(request.name)
    net = Network(place.namespaces)
    group = GROUND.processes(place, "")
    servers = [Node(f"server-{n + 1}", n, "", place.folder, group, net) for n in range(request.servers)]
    site = Site(place.folder, net, servers, servers[0])
    return kind(site, options_of(kind, request.options)).failures_max()


def options_of(kind: type[System[Any]], given: dict[str, str]) -> SystemOptions:
    """Raises UsageError with the system's options for one that it does not have."""
    try:
        return kind.OPTIONS.model_validate(given)
    except ValidationError as error:
        problems = "; ".join(f"--option {each['loc'][0]}: {words_of(each)}" for each in error.errors())
        known = ", ".join(kind.OPTIONS.model_fields) or "none"
        raise UsageError(problems, f"options of {kind.TITLE}: {known}") from error


def _probe(at: Path) -> None:
    """A file written, forced to storage, and read back."""
    file = at / _PROBE
    with file.open("wb") as probe:
        probe.write(_PROBE_BYTES)
        os.fsync(probe.fileno())
    if file.read_bytes() != _PROBE_BYTES:
        raise PenstockError(f"{file} does not have what was written to it")
    file.unlink()


def _has_size(at: Path) -> bool:
    """Clients learn the free space from the servers; before that, they report none."""
    return os.statvfs(at).f_blocks > 0


def _state_of(node: Node, mounted: bool) -> NodeState:
    usage = node.group.usage()
    return NodeState(
        name=node.name,
        address=node.address,
        processes=len(node.group.processes()),
        state=node.state,
        mount=str(node.mount) if mounted and node.name.startswith("client") else "",
        cpu_s=usage[0] if usage else None,
        memory_bytes=usage[1] if usage else None,
    )
