"""S3 from OpenStack Swift: its proxy on the node `meta`, its storage servers on each server.

Facts from Swift's deployment guide and configuration references, and from the source of its middleware s3api
and tempauth. Swift reads /etc/swift, whatever its options are. Its programs take a second each to start, so
that those of a node are one process that forks. A ring (swift.common.ring.RingData) maps partitions
to servers: here in turn. A write succeeds with more than half of the copies (with one of two); replicators
make the others. Files of a server need extended attributes.
"""

import gzip
import ipaddress
import json
import os
import pwd
import secrets
import string
import struct
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from penstock.lab import http
from penstock.lab.ground import GROUND
from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import PenstockError, UsageError

_PORT, _CACHE_PORT = 8080, 11211
_KINDS = {"object": 6200, "container": 6201, "account": 6202}
_COPIES_MAX = 3
_BUCKET, _REGION = "lab", "us-east-1"
_PROBE = "first byte"
_DEVICE = "lab"
_USER = "nobody"
"""of the daemons where they cannot be root, because they change to a user and its groups"""
_DAEMONS = "swift"
_PARTITIONS_EACH = 8
_LISTEN = "0A"  # state of a socket in proc_net_tcp(5)
# Configuration, module, and the class of a daemon or the name of a server's application.
_OF_SERVER = (
    "object swift.obj.server object-server",
    "container swift.container.server container-server",
    "account swift.account.server account-server",
    "object swift.obj.replicator ObjectReplicator",
    "object swift.obj.updater ObjectUpdater",
    "container swift.container.replicator ContainerReplicator",
    "account swift.account.replicator AccountReplicator",
)
_OF_PROXY = ("proxy swift.proxy.server proxy-server",)
_PYTHON = "/usr/bin/python3"
# Libraries that are not used here take three quarters of the time to start.
_FAST = {"EVENTLET_NO_GREENDNS": "yes", "SETUPTOOLS_USE_DISTUTILS": "stdlib"}
_LAUNCHER = """\
import eventlet
# Swift does it later in each process, where it takes a second, as it goes through all objects.
eventlet.monkey_patch(all=False, socket=True, select=True, thread=True)
import importlib, os, sys
from swift.common import daemon, wsgi
from swift.common.middleware import tempauth

class Keyed(tempauth.TempAuth):
    # Its own keys have a colon, at which several clients separate key and secret.
    def __init__(self, app, conf):
        super().__init__(app, conf)
        self.users[conf["access_key"]] = self.users["lab:lab"]

def keyed(global_conf, **local_conf):
    return lambda app: Keyed(app, {**global_conf, **local_conf})

wanted = [each.split() for each in sys.argv[1:]]
modules = [importlib.import_module(module) for _, module, _ in wanted]
for (kind, _, name), module in zip(wanted, modules):
    if os.fork() == 0:
        file = os.path.abspath(kind + ".conf")
        if hasattr(module, name):
            daemon.run_daemon(getattr(module, name), file, verbose=True)
        else:
            more = {key: getattr(module, key) for key in ("global_conf_callback",) if hasattr(module, key)}
            wsgi.run_wsgi(file, name, verbose=True, **more)
        sys.exit(1)
os.wait()
"""
_COMMON = """\
[DEFAULT]
bind_ip = {address}
bind_port = {port}
workers = {workers}
user = {user}
devices = {devices}
mount_check = false
log_level = WARNING
log_address = {folder}/no-syslog
"""
_SERVER = """\
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
[{kind}-replicator]
interval = 5
rsync_module = {{replication_ip}}::{kind}
recon_cache_path = {folder}
[object-updater]
interval = 5
recon_cache_path = {folder}
"""
_PROXY = """\
[pipeline:main]
pipeline = catch_errors gatekeeper cache listing_formats bulk s3api tempauth copy slo dlo versioned_writes
    symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 3
error_suppression_interval = 2
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:cache]
use = egg:swift#memcache
memcache_servers = {address}:{cache_port}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = {region}
[filter:tempauth]
paste.filter_factory = __main__:keyed
access_key = {access}
user_lab_lab = {secret} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
[filter:symlink]
use = egg:swift#symlink
"""
_RSYNC = "use chroot = no\nuid = {user}\ngid = {group}\n" + "".join(
    f"[{each}]\npath = {{devices}}\nread only = no\nlock file = {{folder}}/{each}.lock\n" for each in _KINDS
)


class S3Options(SystemOptions):
    copies: int | None = Field(
        None, ge=1, le=9, description="copies of each object; by default 3, or 1 on each of fewer servers"
    )


class S3(System[S3Options]):
    NAME = "s3"
    TITLE = "S3 (OpenStack Swift)"
    PROGRAMS = (
        Program("swift-proxy-server", "swift-proxy"),
        Program("swift-account-server", "swift-account"),
        Program("swift-container-server", "swift-container"),
        Program("swift-object-server", "swift-object"),
        Program("memcached", "memcached"),
        Program("rsync", "rsync"),
        Program("curl", "curl"),
    )
    SERVERS = 3
    OPTIONS: ClassVar[type[SystemOptions]] = S3Options

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        letters = string.ascii_uppercase + string.digits
        self._access = "LAB" + "".join(secrets.choice(letters) for _ in range(17))
        self._secret = secrets.token_hex(20)
        self._started = 0.0

    @classmethod
    def is_mounted(cls) -> bool:
        return False

    def failures_max(self) -> int:
        """Swift writes an object if half of its copies can be stored."""
        return self._copies // 2

    @property
    def _copies(self) -> int:
        return self.options.copies or min(_COPIES_MAX, len(self.site.servers))

    def url(self) -> str:
        return f"s3://{self.site.meta.address}:{_PORT}/{_BUCKET}"

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self._access,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ENDPOINT_URL": self._endpoint,
        }

    @property
    def _endpoint(self) -> str:
        return f"http://{self.site.meta.address}:{_PORT}"

    def start(self) -> None:
        count = len(self.site.servers)
        if self._copies > count:
            raise UsageError(f"copies: requires {self._copies} servers, not {count}", "raise --servers")
        for server in self.site.servers:
            _require_attributes(server)
        self._write_configuration()
        meta, user = self.site.meta, GROUND.as_user(_USER)
        meta.start(
            "memcached",
            [*user, "memcached", "-u", GROUND.user(_USER), "-l", meta.address, "-p", str(_CACHE_PORT)],
        )
        meta.start(_DAEMONS, self._launched(_OF_PROXY), environment=_FAST, covers=self._covers)
        for server in self.site.servers:
            self._start_daemons(server)
        self.site.wait_until(lambda: all(map(_listens, self.site.servers)), "a server")
        self.site.wait_until(self._has_bucket, "S3")
        self._require_object()

    def start_server(self, server: Node) -> None:
        """Returns when it accepts connections."""
        self._start_daemons(server)
        self.site.wait_until(lambda: _listens(server), "a server")

    def _start_daemons(self, server: Node) -> None:
        self._started = time.time()
        # The port of rsync is below those that a user other than root may listen on.
        server.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start")
        server.start(
            "rsync", [*GROUND.as_user(_USER), "rsync", "--daemon", "--no-detach", "--config", "rsyncd.conf"]
        )
        server.start(_DAEMONS, self._launched(_OF_SERVER), environment=_FAST, covers=self._covers)

    def _launched(self, daemons: tuple[str, ...]) -> list[str | Path]:
        return [*GROUND.as_user(_USER), _PYTHON, self._configuration / "daemons.py", *daemons]

    def _write_configuration(self) -> None:
        folder, meta = self._configuration, self.site.meta
        folder.mkdir()
        (folder / "daemons.py").write_text(_LAUNCHER)
        (folder / "swift.conf").write_text(
            f"[swift-hash]\nswift_hash_path_prefix = {self.site.folder.name}\n"
        )
        for kind, port in _KINDS.items():
            _write_ring(folder / f"{kind}.ring.gz", self.site.servers, port, self._copies)
        common = _COMMON.format(
            address=meta.address,
            port=_PORT,
            workers=os.cpu_count(),
            user=GROUND.user(_USER),
            devices="/",
            folder=meta.folder,
        )
        proxy = _PROXY.format(
            address=meta.address,
            cache_port=_CACHE_PORT,
            region=_REGION,
            access=self._access,
            secret=self._secret,
        )
        (meta.folder / "proxy.conf").write_text(common + proxy)
        for server in self.site.servers:
            _write_server(server)

    @property
    def _configuration(self) -> Path:
        return self.site.folder / "swift"

    @property
    def _covers(self) -> dict[Path, Path]:
        return {self._configuration: Path("/etc/swift")}

    def mount(self, client: Node) -> None:
        pass

    def has_healed(self) -> bool:
        """Returns whether all replicators have found all copies since the last server started."""
        return all(self._has_checked(server, kind) for server in self.site.servers for kind in _KINDS)

    def _has_checked(self, server: Node, kind: str) -> bool:
        if not server.daemons or server.ended():
            return False
        try:
            found = json.loads((server.folder / f"{kind}.recon").read_text())
            took_s = found["replication_time"] * (60 if kind == "object" else 1)
            since = found["replication_last"] - took_s
            return bool(found["replication_stats"]["failure"] == 0 and since > self._started)
        except (OSError, ValueError, KeyError):
            return False  # no pass yet

    def _has_bucket(self) -> bool:
        """Makes it. Another try after a late answer finds it there (409)."""
        status, _ = self._request("PUT", "")
        return status in ("200", "409")

    def _require_object(self) -> None:
        """Raises PenstockError if an object cannot be written and read back."""
        probe = self.site.folder / "probe"
        probe.write_text(_PROBE)
        key = f"/{probe.name}"
        self._request("PUT", key, "--upload-file", probe)
        status, text = self._request("GET", key)
        if text != _PROBE:
            raise PenstockError(f"{self.url()}{key} was not read back: {status} {text}")
        self._request("DELETE", key)
        probe.unlink()

    def _request(self, method: str, key: str, *more: str | Path) -> tuple[str, str]:
        """Returns status and text of the answer to a signed request."""
        signed = ["--aws-sigv4", f"aws:amz:{_REGION}:s3", "--user", f"{self._access}:{self._secret}"]
        url = f"{self._endpoint}/{_BUCKET}{key}"
        header = ["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
        return http.request(self.site.clients[0], url, "--request", method, *signed, *header, *more)


def _write_server(server: Node) -> None:
    devices = server.disk.resolve() / "devices"
    (devices / _DEVICE).mkdir(parents=True, exist_ok=True)
    for kind, port in _KINDS.items():
        common = _COMMON.format(
            address=server.address,
            port=port,
            workers=1,
            user=GROUND.user(_USER),
            devices=devices,
            folder=server.folder,
        )
        text = common + _SERVER.format(kind=kind, folder=server.folder)
        (server.folder / f"{kind}.conf").write_text(text)
    user = pwd.getpwnam(GROUND.user(_USER))
    (server.folder / "rsyncd.conf").write_text(
        _RSYNC.format(user=user.pw_uid, group=user.pw_gid, devices=devices, folder=server.folder)
    )


def _write_ring(file: Path, servers: Sequence[Node], port: int, copies: int) -> None:
    """Each partition has its first copy on the next server in turn, and its others on those after it."""
    power = (_PARTITIONS_EACH * len(servers) - 1).bit_length()
    devices = [
        {
            "id": index,
            "region": 1,
            "zone": index + 1,
            "weight": 1.0,
            "ip": server.address,
            "port": port,
            "replication_ip": server.address,
            "replication_port": port,
            "device": _DEVICE,
            "meta": "",
        }
        for index, server in enumerate(servers)
    ]
    head = {
        "devs": devices,
        "part_shift": 32 - power,
        "replica_count": copies,
        "byteorder": sys.byteorder,
        "version": 1,
    }
    text = json.dumps(head).encode()
    with gzip.open(file, "wb") as ring:
        ring.write(struct.pack("!4sHI", b"R1NG", 1, len(text)) + text)
        for copy in range(copies):
            ring.write(array("H", [(part + copy) % len(servers) for part in range(1 << power)]).tobytes())


def _require_attributes(server: Node) -> None:
    """Raises UsageError if files on its disk cannot have extended attributes."""
    try:
        os.setxattr(server.disk, "user.penstock", b"1")
    except OSError as error:
        raise UsageError(
            f"files on {server.disk.resolve()} cannot have extended attributes", "use --disks loop"
        ) from error


def _listens(server: Node) -> bool:
    """Returns whether all its servers listen, by the kernel's table: asking them would slow their start."""
    address = ipaddress.ip_address(server.address).packed[::-1].hex().upper()
    wanted = {f"{address}:{port:04X}" for port in _KINDS.values()}
    try:
        table = Path(f"/proc/{server.daemons[_DAEMONS].pid}/net/tcp").read_text()
    except OSError:
        return False
    rows = [line.split() for line in table.splitlines()[1:]]
    return wanted <= {row[1] for row in rows if row[3] == _LISTEN}
