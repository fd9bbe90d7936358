"""GlusterFS: one glusterd for each server, a brick on each server's disk, one volume over all of them.

Facts from the manual pages glusterd(8), gluster(8) and glusterfs(8). A glusterd and its command insist on
files in /run (among them /run/glusterd.socket), /var/lib/glusterd and /var/log/glusterfs, in spite of options
for other places, so that each server has its own of them. Without the settings of keepalive, a probe of a
peer never ends. Servers refuse addresses that begin with 127.
"""

import shutil
from pathlib import Path
from typing import ClassVar, Literal
from xml.etree import ElementTree

from pydantic import Field

from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError

_VOLUME = "lab"
_GLUSTERD_VOL = """\
volume management
    type mgmt/glusterd
    option transport-type socket
    option transport.socket.bind-address {address}
    option transport.socket.listen-port 24007
    option transport.address-family inet
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.read-fail-log off
    option transport.tcp-user-timeout 0
    option ping-timeout 0
    option event-threads 1
end-volume
"""
# A glusterd runs gsyncd 20 times when it starts, and each command once more; it is a Python program.
_NO_GSYNCD = "#!/bin/sh\necho gsyncd\n"


class GlusterOptions(SystemOptions):
    kind: Literal["distribute", "replicate", "disperse"] = Field(
        "replicate",
        description="where a file goes: to one server, to several as copies, or erasure coded to all",
    )
    copies: int | None = Field(
        None,
        ge=2,
        le=9,
        description="copies of each file (kind=replicate); by default 3 or 2, whichever divides the number "
        "of servers",
    )
    redundancy: int = Field(
        1, ge=1, le=8, description="servers that may fail without data loss (kind=disperse)"
    )
    shard: bool = Field(False, description="store files in pieces of 64 MiB (features.shard)")


class Gluster(System[GlusterOptions]):
    NAME = "gluster"
    TITLE = "GlusterFS"
    NEEDS_ROOT = "bricks need attributes named trusted.*"
    PROGRAMS = (
        Program("glusterd", "glusterfs-server"),
        Program("gluster", "glusterfs-cli"),
        Program("glusterfs", "glusterfs-client"),
    )
    FILE_SYSTEM = "fuse"
    SERVERS = 3
    OPTIONS: ClassVar[type[SystemOptions]] = GlusterOptions

    def failures_max(self) -> int:
        """Most copies must be there to be written (cluster.quorum-type)."""
        layout = self._layout()
        if not layout:
            return 0
        return self.options.redundancy if layout[0] == "disperse" else int(layout[1]) // 2

    def start(self) -> None:
        layout = self._layout()
        first, *others = self.site.servers
        for server in self.site.servers:
            self.start_server(server)
        self.site.wait_until(lambda: all(map(_answers, self.site.servers)), "glusterd")
        for other in others:
            _gluster(first, "peer", "probe", other.address)
        self.site.wait_until(lambda: _peers(first) == len(others), "a peer")
        bricks = [f"{server.address}:{server.disk}/brick" for server in self.site.servers]
        _gluster(first, "volume", "create", _VOLUME, *layout, "transport", "tcp", *bricks, "force")
        if self.options.shard:
            _gluster(first, "volume", "set", _VOLUME, "features.shard", "on")
        _gluster(first, "volume", "start", _VOLUME)
        self.site.wait_until(self._all_serve, "a brick")

    def _layout(self) -> list[str]:
        """Raises UsageError if the number of servers does not allow it."""
        count, options = len(self.site.servers), self.options
        if options.kind == "disperse":
            least = 2 * options.redundancy + 1
            if count < least:
                raise UsageError(
                    f"redundancy: {options.redundancy} requires at least {least} servers", "raise --servers"
                )
            return ["disperse", str(count), "redundancy", str(options.redundancy)]
        if options.kind == "distribute" or (count == 1 and options.copies is None):
            return []
        copies = options.copies or next((each for each in (3, 2) if count % each == 0), 2)
        if count % copies:
            raise UsageError(
                f"copies: {count} servers is not a multiple of {copies}",
                "change --servers, or use --option kind=distribute or kind=disperse",
            )
        return ["replica", str(copies)]

    def start_server(self, server: Node) -> None:
        # A boot would empty /run. A PID file left there lets glusterd take another process for its brick.
        shutil.rmtree(server.folder / "run" / "gluster", ignore_errors=True)
        state = server.folder / "state"
        (server.folder / "log" / "bricks").mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
        volume_file = server.folder / "glusterd.vol"
        volume_file.write_text(_GLUSTERD_VOL.format(address=server.address))
        stub = server.folder / "gsyncd"
        stub.write_text(_NO_GSYNCD)
        stub.chmod(0o755)
        server.start(
            "glusterd",
            ["glusterd", "-N", "-f", volume_file, "-l", "/dev/stdout", "-p", server.folder / "glusterd.pid"],
            covers=_covers(server),
        )

    def mount(self, client: Node) -> None:
        sources = [f"--volfile-server={server.address}" for server in self.site.servers]
        client.start(
            "glusterfs",
            ["glusterfs", "-N", "-l", "/dev/stdout", *sources, f"--volfile-id={_VOLUME}", client.mount],
        )
        self.site.wait_until(client.mount.is_mount, "the mount")

    def has_healed(self) -> bool:
        """Returns whether all bricks and heal daemons run, and no brick lists a file to be healed."""
        if not self._all_serve():
            return False
        if not self._layout():
            return True
        answer = _gluster(self.site.servers[0], "volume", "heal", _VOLUME, "info", check=False)
        return _texts(answer, "numberOfEntries") == ["0"] * len(self.site.servers)

    def _all_serve(self) -> bool:
        """Returns whether each server runs its brick, and its heal daemon if the volume is redundant."""
        answer = _gluster(self.site.servers[0], "volume", "status", _VOLUME, check=False)
        wanted = len(self.site.servers) * (2 if self._layout() else 1)
        # Servers that are down are not in the answer.
        return _texts(answer, "status").count("1") == wanted


def _covers(server: Node) -> dict[Path, Path]:
    """Replaces the directories that all glusterd of a machine, and their command, would share."""
    covers = {
        **server.empty_run(),
        server.folder / "state": Path("/var/lib/glusterd"),
        server.folder / "log": Path("/var/log/glusterfs"),
    }
    for gsyncd in Path("/usr/lib").glob("*/glusterfs/gsyncd"):
        covers[server.folder / "gsyncd"] = gsyncd
    return covers


def _gluster(server: Node, *command: str, check: bool = True) -> str:
    """Returns the answer as XML."""
    return server.run("gluster", "--mode=script", "--xml", *command, check=check, covers=_covers(server))


def _texts(answer: str, tag: str) -> list[str]:
    try:
        return [each.text or "" for each in ElementTree.fromstring(answer).iter(tag)]
    except ElementTree.ParseError:
        return []


def _answers(server: Node) -> bool:
    return "0" in _texts(_gluster(server, "pool", "list", check=False), "opRet")


def _peers(server: Node) -> int:
    """Returns the number of peers that are connected and have joined (state 3)."""
    peers = _gluster(server, "peer", "status", check=False)
    return min(_texts(peers, "connected").count("1"), _texts(peers, "state").count("3"))
