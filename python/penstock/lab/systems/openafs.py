"""OpenAFS: a cell without authentication; its databases on the node `meta`, a file server on the server.

Facts from the manual pages ptserver(8), vlserver(8), dafileserver(8), vos(1), pts(1), afsd(8), cacheinfo(5)
and NoAuth(5). File servers store in /vicepa of the root directory: each daemon has a root directory of its
own, which has the folders of this machine and /vicepa. A file server that starts before the ptserver has its
database tries again after 30 s. The access list of a new volume admits administrators alone, and no tool
makes the anonymous user one: a changed dump of the volume, restored, admits any user. Clients are afsd.fuse,
as the client in Debian's kernel needs a module that is built for it. They send data after a file is closed.
A killed server forgets which clients to notify of changes: each learns of it with its next request.
"""

import struct
from pathlib import Path

from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import PenstockError, UsageError

_CELL, _VOLUME, _PARTITION = "lab", "root.afs", "/vicepa"
_DAEMONS = Path("/usr/lib/openafs")
_DATABASES, _OF_SERVER = ("ptserver", "vlserver"), ("dafileserver", "davolserver", "salvageserver")
# In network byte order, as in the access list in a dump.
_ADMINISTRATORS, _ANY_USER = struct.pack("!i", -204), struct.pack("!i", -101)
# Runs a command with $1 as its root directory, in which the folder $2 is /vicepa.
_WITH_PARTITION = """
mount -t tmpfs -o mode=0755,size=1M root "$1" || exit 125
for each in /*; do
    if [ -L "$each" ]; then cp -P "$each" "$1$each"
    elif [ -d "$each" ]; then mkdir "$1$each" && mount --rbind "$each" "$1$each" || exit 125
    fi
done
mkdir -p "$1/vicepa" && mount --bind "$2" "$1/vicepa" || exit 125
root=$1
shift 2
exec chroot "$root" "$@"
"""


class OpenAfs(System[SystemOptions]):
    NAME = "openafs"
    TITLE = "OpenAFS"
    NEEDS_ROOT = "the servers need /vicepa and files of root"
    PROGRAMS = (
        Program("afsd.fuse", "openafs-fuse"),
        Program("vos", "openafs-client"),
        Program("bosserver", "openafs-fileserver"),
        Program("pt_util", "openafs-dbserver"),
    )
    FILE_SYSTEM = "fuse"

    def start(self) -> None:
        if len(self.site.servers) > 1:
            raise UsageError(
                f"servers: {len(self.site.servers)} exceeds the maximum of 1", f"{self.TITLE} is one server"
            )
        self._write_configuration()
        for name in _DATABASES:
            self._start_daemon(self.site.meta, name)
        self.site.wait_until(self._has_groups, "ptserver")
        self.start_server(self.site.servers[0])
        self.site.wait_until(self._has_volume, "a volume")
        self._admit_any_user()

    def start_server(self, server: Node) -> None:
        """Returns when its volume server answers."""
        for name in _OF_SERVER:
            self._start_daemon(server, name)
        self.site.wait_until(lambda: self._tool("vos", "status", server.address) != "", "a file server")

    def _start_daemon(self, node: Node, name: str) -> None:
        command: list[str | Path] = [_DAEMONS / name, "-logfile", node.log(name)]
        if node is not self.site.meta:
            root = node.folder / "root" / name
            root.mkdir(parents=True, exist_ok=True)
            command = ["sh", "-c", _WITH_PARTITION, "sh", root, node.disk.resolve(), *command]
        node.start(name, command, covers=self._covers(node))

    def _write_configuration(self) -> None:
        for folder in (self._configuration, self._configuration / "server"):
            folder.mkdir()
            (folder / "ThisCell").write_text(f"{_CELL}\n")
            (folder / "CellServDB").write_text(f">{_CELL}\n{self.site.meta.address} #meta\n")
        # Required, but options of afsd replace what it has.
        (self._configuration / "cacheinfo").write_text("/afs:/nonexistent:1000\n")
        for node in self.site.server_nodes:
            for each in ("db", "local", "logs"):
                (node.folder / "state" / each).mkdir(parents=True)
            (node.folder / "state" / "local" / "NoAuth").touch()

    def _covers(self, node: Node) -> dict[Path, Path]:
        return {
            self._configuration: Path("/etc/openafs"),
            node.folder / "state": Path("/var/lib/openafs"),
            node.folder / "state" / "logs": Path("/var/log/openafs"),
        }

    @property
    def _configuration(self) -> Path:
        return self.site.folder / "openafs"

    def _has_groups(self) -> bool:
        """Returns whether the ptserver has made its database, before which it answers."""
        return "system:administrators" in self._tool("pts", "listentries", "-groups")

    def _has_volume(self) -> bool:
        """Makes it. The vlserver accepts no changes before its database is there."""
        at = (self.site.servers[0].address, _PARTITION)
        self._tool("vos", "create", *at, _VOLUME, "-maxquota", "0")
        return _VOLUME in self._tool("vos", "listvol", *at)

    def _admit_any_user(self) -> None:
        """Raises PenstockError if the dump of an empty volume is not as expected."""
        dump = self.site.meta.folder / "volume"
        self._tool("vos", "dump", _VOLUME, "-file", dump, check=True)
        parts = dump.read_bytes().split(_ADMINISTRATORS)
        if len(parts) != 2:
            raise PenstockError(f"{dump} has {len(parts) - 1} entries of administrators, not 1")
        dump.write_bytes(_ANY_USER.join(parts))
        at = (self.site.servers[0].address, _PARTITION)
        self._tool("vos", "restore", *at, _VOLUME, "-file", dump, "-overwrite", "full", check=True)

    def _tool(self, *command: str | Path, check: bool = False) -> str:
        meta = self.site.meta
        return meta.run(*command, "-noauth", covers=self._covers(meta), check=check)

    def mount(self, client: Node) -> None:
        folders: list[str | Path] = [
            "-confdir",
            self._configuration,
            "-cachedir",
            client.folder,
            "-mountdir",
            client.mount,
        ]
        client.start("afsd.fuse", ["afsd.fuse", "-f", *folders, "-memcache", "-blocks", "65536"])
        self.site.wait_until(client.mount.is_mount, "the mount")
