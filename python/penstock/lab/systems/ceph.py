"""CephFS: monitor, manager and metadata server on the node `meta`, an OSD on the device of each server.

Facts from the manual pages ceph-mon(8), ceph-osd(8), ceph-mds(8) and ceph-fuse(8), and from Ceph's
documentation of options, pools and file layouts. Options replace all directories in /etc and /var.
Authentication is off. The monitor speaks version 2 of the protocol only: with version 1, a daemon may send a
command before it knows the cluster's ID, and is refused ("wrong fsid"). Each server is a host in the CRUSH
map, so that each copy of an object lies on another server. Clients that need a failed OSD wait until the
others have reported it, for up to 20 s.
"""

import json
import os
import uuid
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError
from penstock.model.units import Size

_DAEMON = "ceph-osd"
_COPIES_MAX = 3
_FILE_SYSTEM = "lab"
_ERASURE_CODED = "coded"
_CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = v2:{monitor}:3300
mon initial members = a
public network = {monitor}/24
ms bind ipv4 = true
auth cluster required = none
auth service required = none
auth client required = none
keyring = /dev/null
run dir = {folder}
crash dir = {folder}
log file =
osd crush update on start = true
osd pool default pg autoscale mode = off
osd pool default size = {copies}
osd memory target = 1Gi
mon allow pool size one = true
mon data = {folder}/mon
mon cluster log to file = false
mon warn on insecure global id reclaim allowed = false
mon data avail warn = 2
mon data avail crit = 1
mgr data = {folder}/mgr
mgr initial modules =
mds data = {folder}/mds
"""
_OSD = """\
set -e
if [ ! -e "$DATA/ready" ]; then
    ceph -c "$CONFIGURATION" osd new "$UUID" "$ID" < /dev/null
    ceph-osd -c "$CONFIGURATION" -i "$ID" --osd-data "$DATA" --mkfs --osd-uuid "$UUID" \\
        --bluestore-block-path "$DEVICE"
fi
exec ceph-osd -f -c "$CONFIGURATION" -i "$ID" --osd-data "$DATA" --crush-location "root=default host=$NAME"
"""


class CephOptions(SystemOptions):
    copies: int | None = Field(
        None,
        ge=1,
        le=9,
        description="copies of each object (pool size); by default 3, or 1 on each of fewer servers",
    )
    erasure: str | None = Field(
        None,
        pattern=r"^[0-9]{1,2}\+[0-9]{1,2}$",
        description="erasure code of file data, K+M: K data and M coding pieces, each on another server",
    )
    object_size: Size | None = Field(
        None, description="size of the objects that files are cut into, such as 4MiB"
    )
    stripe_unit: Size | None = Field(
        None, description="bytes of a file in one object before the next, such as 1MiB"
    )
    stripe_count: int | None = Field(None, ge=1, description="number of objects that a file is striped over")


class Ceph(System[CephOptions]):
    NAME = "ceph"
    TITLE = "CephFS"
    NEEDS_ROOT = "not tried in a user namespace"
    PROGRAMS = (
        Program("ceph", "ceph-common"),
        Program("ceph-mon", "ceph-mon"),
        Program("ceph-mgr", "ceph-mgr"),
        Program("ceph-osd", "ceph-osd"),
        Program("ceph-mds", "ceph-mds"),
        Program("ceph-fuse", "ceph-fuse"),
    )
    FILE_SYSTEM = "fuse"
    SERVERS = 3
    DISK = "device"
    OPTIONS: ClassVar[type[SystemOptions]] = CephOptions

    def failures_max(self) -> int:
        """Half of the copies and, of erasure-coded data, K + 1 pieces must be there (min_size of a pool)."""
        by_copies = self._copies // 2
        erasure = self.options.erasure
        return min(by_copies, int(erasure.partition("+")[2]) - 1) if erasure else by_copies

    @property
    def _copies(self) -> int:
        return self.options.copies or min(_COPIES_MAX, len(self.site.servers))

    def start(self) -> None:
        meta, count = self.site.meta, len(self.site.servers)
        copies = self._copies
        pieces = [int(each) for each in (self.options.erasure or "").split("+") if each]
        required = max(copies, sum(pieces))
        if required > count:
            raise UsageError(
                f"{'erasure' if pieces else 'copies'}: requires {required} servers, not {count}",
                "raise --servers",
            )
        fsid = str(uuid.uuid4())
        self._configuration.write_text(
            _CONFIGURATION.format(fsid=fsid, monitor=meta.address, folder=meta.folder, copies=copies)
        )
        for each in ("mon", "mgr", "mds"):
            (meta.folder / each).mkdir()
        monitors = meta.folder / "monmap"
        address = f"[v2:{meta.address}:3300]"
        meta.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monitors)
        meta.run("ceph-mon", "-c", self._configuration, "--mkfs", "-i", "a", "--monmap", monitors)
        self._start_meta("mon")
        self._start_meta("mgr")
        for server in self.site.servers:
            self.start_server(server)
        self._ceph("osd", "pool", "create", "metadata", "8")
        self._ceph("osd", "pool", "create", "data", "32")
        self._ceph("fs", "new", _FILE_SYSTEM, "metadata", "data")
        if pieces:
            self._add_coded_pool(*pieces)
        self._start_meta("mds")
        self.site.wait_until(lambda: self._up_servers() == count, "an OSD", 120)
        self.site.wait_until(self._has_active_mds, "the metadata server", 120)

    def _start_meta(self, kind: str) -> None:
        self.site.meta.start(f"ceph-{kind}", [f"ceph-{kind}", "-d", "-c", self._configuration, "-i", "a"])

    def _add_coded_pool(self, data: int, coding: int) -> None:
        profile = [f"k={data}", f"m={coding}", "crush-failure-domain=host"]
        self._ceph("osd", "erasure-code-profile", "set", _ERASURE_CODED, *profile)
        self._ceph("osd", "pool", "create", _ERASURE_CODED, "32", "32", "erasure", _ERASURE_CODED)
        self._ceph("osd", "pool", "set", _ERASURE_CODED, "allow_ec_overwrites", "true")
        self._ceph("fs", "add_data_pool", _FILE_SYSTEM, _ERASURE_CODED)

    def start_server(self, server: Node) -> None:
        data = server.folder / "osd"
        data.mkdir(exist_ok=True)
        given = {
            "CONFIGURATION": self._configuration,
            "DATA": data,
            "DEVICE": server.device,
            "ID": server.number - 1,
            "NAME": server.name,
            "UUID": uuid.uuid4(),
        }
        environment = {key: str(value) for key, value in given.items()}
        server.start(_DAEMON, ["sh", "-c", _OSD], environment=environment)

    def mount(self, client: Node) -> None:
        client.start("ceph-fuse", ["ceph-fuse", "-f", "-c", self._configuration, client.mount])
        self.site.wait_until(client.mount.is_mount, "the mount")
        if client is self.site.clients[0]:
            for name, value in self._layout().items():
                os.setxattr(client.mount, f"ceph.dir.layout.{name}", value.encode())

    def _layout(self) -> dict[str, str]:
        options = self.options
        given = {
            "pool": _ERASURE_CODED if options.erasure else None,
            "object_size": options.object_size,
            "stripe_unit": options.stripe_unit,
            "stripe_count": options.stripe_count,
        }
        return {name: str(value) for name, value in given.items() if value is not None}

    def has_healed(self) -> bool:
        """Returns whether all OSDs are up, and since then all placement groups active and clean."""
        osds = self._json("osd", "dump").get("osds", [])
        # The monitor knows a killed OSD as up for a while. The nonce in an address is a process ID.
        known = {each["public_addrs"]["addrvec"][0]["nonce"] for each in osds if each["up"]}
        servers = self.site.servers
        if known != {server.daemons[_DAEMON].pid for server in servers if server.daemons} or len(known) < len(
            servers
        ):
            return False
        since = {each["osd"]: each["up_from"] for each in osds}
        groups = self._json("pg", "dump", "pgs").get("pg_stats", [])
        return bool(groups) and all(
            each["state"] == "active+clean"
            and int(each["reported_epoch"]) >= max(since[osd] for osd in each["acting"])
            for each in groups
        )

    def _up_servers(self) -> int:
        return int(self._json("osd", "stat").get("num_up_osds", 0))

    def _has_active_mds(self) -> bool:
        return "up:active" in self._ceph("mds", "stat", check=False)

    @property
    def _configuration(self) -> Path:
        return self.site.folder / "ceph.conf"

    def _json(self, *command: str) -> dict[str, Any]:
        """Returns an empty dictionary if the monitor does not answer."""
        text = self._ceph(*command, "--format", "json", check=False)
        return json.loads(text) if text.strip() else {}

    def _ceph(self, *command: str, check: bool = True) -> str:
        return self.site.meta.run("ceph", "-c", self._configuration, *command, check=check)
