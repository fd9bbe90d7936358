"""XRootD: one server, or a redirector on the node `meta` with several of them.

Facts from the references of the configuration of XRootD and of its cluster management service. Servers refuse
to run as root, and go by the address that /etc/hosts has for the machine's name. A redirector asks all
servers for a file that it does not know, and waits for their answers (`cms.delay lookup`, at least 1 s)
before it lets a client create the file. Each file is on one server. XrdHttp serves the same files
over HTTP at the same port; clients follow its redirections.
"""

import shutil
import socket
from pathlib import Path
from typing import Literal

from penstock.lab.ground import GROUND
from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions

Role = Literal["manager", "server"]
_PORT, _CLUSTER_PORT = 1094, 1213
_USER = "daemon"
_IMPATIENT = ("env", "XRD_CONNECTIONWINDOW=1", "XRD_CONNECTIONRETRY=1", "XRD_REQUESTTIMEOUT=5")
_EXPORTED = "/data"
_CMSD_SOCKETS: dict[Role, str] = {"manager": "olbd.nimda", "server": "olbd.admin"}
_CONFIGURATION = """\
all.export {exported}
all.adminpath {folder}/admin
all.pidpath {folder}/pid
oss.localroot {root}
xrd.network nodnr
"""
_SERVER = """\
xrd.port {port}
xrd.protocol http:{port} libXrdHttp.so
"""
_CLUSTER = """\
all.role {role}
all.manager {manager}:{cluster_port}
cms.delay startup 1 servers 1 service 1 lookup 1 hold 20 drop 1 suspend 1
cms.ping 1
cms.space min 64m 32m
if exec cmsd
    xrd.port {cluster_port}
else
    xrd.port {port}
    xrd.protocol http:{port} libXrdHttp.so
fi
"""


class XRootD(System[SystemOptions]):
    NAME = "xrootd"
    TITLE = "XRootD"
    PROGRAMS = (
        Program("xrootd", "xrootd-server"),
        Program("cmsd", "xrootd-server"),
        Program("xrdfs", "xrootd-client"),
        Program("xrdcp", "xrootd-client"),
    )

    @classmethod
    def is_mounted(cls) -> bool:
        return False

    def start(self) -> None:
        if self._is_cluster:
            self._start_daemons(self.site.meta, self.site.meta.folder / "root", "manager")
        for server in self.site.servers:
            self._start_daemons(server, server.disk.resolve() / "root", "server")
        self.site.wait_until(self.has_healed, "a server")

    def start_server(self, server: Node) -> None:
        """Returns when it serves again, though the redirector may not know yet."""
        self._start_daemons(server, server.disk.resolve() / "root", "server")
        self.site.wait_until(lambda: server.address in self._located_by(server), "XRootD")

    def _start_daemons(self, node: Node, root: Path, role: Role) -> None:
        folder = node.folder / "state"
        shutil.rmtree(folder, ignore_errors=True)
        for each in (folder, root / _EXPORTED.lstrip("/")):
            each.mkdir(parents=True, exist_ok=True)
            GROUND.hand_over(each, _USER)
        parts = [_CONFIGURATION, _CLUSTER if self._is_cluster else _SERVER]
        configuration = node.folder / "xrootd.cfg"
        configuration.write_text(
            "".join(parts).format(
                exported=_EXPORTED,
                folder=folder,
                root=root,
                role=role,
                manager=self.site.meta.address,
                port=_PORT,
                cluster_port=_CLUSTER_PORT,
            )
        )
        hosts = node.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{node.address} {socket.gethostname()}\n")
        covers, user = {hosts: Path("/etc/hosts")}, GROUND.as_user(_USER)
        # Without a file for their process IDs, they leave one for their environment in /tmp.
        options: list[str | Path] = ["-R", _USER, "-c", configuration]
        pids = folder / "pid"
        if self._is_cluster:
            node.start("cmsd", [*user, "cmsd", *options, "-s", pids / "cmsd.pid"], covers=covers)
            # Without it, xrootd would try again 10 s later.
            self.site.wait_until((folder / "admin" / ".olb" / _CMSD_SOCKETS[role]).exists, "cmsd")
        node.start("xrootd", [*user, "xrootd", *options, "-s", pids / "xrootd.pid"], covers=covers)

    def mount(self, client: Node) -> None:
        pass

    def url(self) -> str:
        return f"root://{self._entrance.address}:{_PORT}/{_EXPORTED}"

    def environment(self) -> dict[str, str]:
        return {"PENSTOCK_LAB_HTTP_URL": f"http://{self._entrance.address}:{_PORT}{_EXPORTED}/"}

    def has_healed(self) -> bool:
        """Returns whether clients find each server."""
        located = self._located_by(self._entrance)
        return all(server.address in located for server in self.site.servers)

    def _located_by(self, node: Node) -> list[str]:
        """Returns the addresses of servers that a server or the redirector names."""
        at = f"{node.address}:{_PORT}"
        where = f"*{_EXPORTED}" if node is self.site.meta else _EXPORTED
        listed = node.run(*_IMPATIENT, "xrdfs", at, "locate", where, check=False)
        # [::10.78.0.1]:1094 Server ReadWrite; "ServerPending" where the redirector has lost it
        found = [line.split() for line in listed.splitlines()]
        return [address.rpartition("]:")[0].lstrip("[:") for address, kind, *_ in found if kind == "Server"]

    @property
    def _entrance(self) -> Node:
        return self.site.meta if self._is_cluster else self.site.servers[0]

    @property
    def _is_cluster(self) -> bool:
        return len(self.site.servers) > 1
