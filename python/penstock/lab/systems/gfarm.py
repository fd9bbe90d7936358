"""Gfarm: gfmd with the metadata in memory on the node `meta`, gfsd on each server, gfarm2fs on clients.

Facts from the manual pages gfarm2.conf(5), gfmd(8), gfsd(8), gfhost(1), gfncopy(1), gfwhere(1), gfarm2fs(1)
and nss_wrapper(1), and from gfmd itself, which needs no database with `metadb_db_access_type none`. Daemons
and clients prove who they are with a key in the home directory that /etc/passwd has for their user, whatever
HOME is: nss_wrapper gives them another one. A gfsd listens in /tmp as well. Each file is on one server; its
copies are made after it is closed, none of them on a server with less than `minimum_free_disk_space`.
"""

import pwd
import secrets
import shutil
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from penstock.lab.node import Node
from penstock.lab.packages import install
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError

_PORT, _SERVER_PORT = 601, 600
_USER = "_gfarmfs"
_NEVER_EXPIRES = 0x7FFFFFFF
_COPIES_MAX = 2
_COMMON = """\
metadb_server_host {meta}
metadb_server_port {port}
auth enable sharedsecret *
schedule_cache_timeout 2
minimum_free_disk_space 16M
"""
_METADATA = """\
metadb_db_access_type none
admin_user root
replica_check_minimum_interval 1
replica_check_host_down_thresh 10
"""


class GfarmOptions(SystemOptions):
    copies: int | None = Field(
        None, ge=1, le=9, description="copies of each file; by default 2, or 1 on a single server"
    )


class Gfarm(System[GfarmOptions]):
    NAME = "gfarm"
    TITLE = "Gfarm"
    NEEDS_ROOT = "gfsd needs a user _gfarmfs beside root"
    PROGRAMS = (
        Program("gfmd", "gfmd"),
        Program("gfsd", "gfsd"),
        Program("gfhost", "gfarm-client"),
        Program("gfarm2fs", "gfarm2fs"),
    )
    FILE_SYSTEM = "fuse"
    SERVERS = 3
    OPTIONS: ClassVar[type[SystemOptions]] = GfarmOptions

    @classmethod
    def lacks(cls) -> str:
        return "" if _wrapper() else "the package libnss-wrapper"

    @classmethod
    def install(cls) -> None:
        install(["libnss-wrapper"])

    def failures_max(self) -> int:
        return self._copies - 1

    @property
    def _copies(self) -> int:
        return self.options.copies or min(_COPIES_MAX, len(self.site.servers))

    def start(self) -> None:
        meta, count = self.site.meta, len(self.site.servers)
        if self._copies > count:
            raise UsageError(f"copies: requires {self._copies} servers, not {count}", "raise --servers")
        self._write_configuration()
        meta.start("gfmd", self._as_user("gfmd", "-d", "-L", "notice", "-f", self._folder / "gfmd.conf"))
        self.site.wait_until(lambda: "root" in self._tool("gfuser", "-l", check=False), "gfmd")
        self._tool("gfuser", "-c", _USER, "gfsd", "/", "")
        self._tool("gfgroup", "-a", "-m", "gfarmroot", "root")
        self._tool("gfgroup", "-c", "root", "root")
        self._tool("gfchown", "root:root", "/")
        self._tool("gfncopy", "-s", str(self._copies), "/")
        for server in self.site.servers:
            at = ["-a", "linux", "-p", str(_SERVER_PORT), "-n", "1", server.address]
            self._tool("gfhost", "-c", *at)
            self._start_daemon(server)
        self.site.wait_until(lambda: self._up_servers() == self._addresses, "a server")

    def start_server(self, server: Node) -> None:
        """Returns when gfmd knows it."""
        self._start_daemon(server)
        self.site.wait_until(lambda: server.address in self._up_servers(), "a server")

    def _start_daemon(self, server: Node) -> None:
        spool, seen, temporary = (
            server.disk.resolve() / "spool",
            server.folder / "spool",
            server.folder / "tmp",
        )
        for each in (spool, seen, temporary):
            each.mkdir(exist_ok=True)
        shutil.chown(spool, _USER, _USER)
        temporary.chmod(0o1777)
        own: list[str | Path] = [
            "-l",
            server.address,
            "-h",
            server.address,
            "-r",
            seen,
            "-f",
            self._folder / "gfarm2.conf",
        ]
        command = self._as_user("gfsd", "-d", "-L", "notice", *own)
        # It makes itself a process group, which the first process of a session cannot.
        command = ["sh", "-c", '"$@"; exit', "sh", *command]
        server.start("gfsd", command, covers={spool: seen, temporary: Path("/tmp")})

    def mount(self, client: Node) -> None:
        client.start("gfarm2fs", self._as_user("gfarm2fs", "-f", "-o", "allow_other", client.mount))
        self.site.wait_until(client.mount.is_mount, "the mount")

    def has_healed(self) -> bool:
        """Returns whether all servers are up, and no file has fewer copies there than it should."""
        if self._up_servers() != self._addresses:
            return False
        return self._copies == 1 or not self._tool("gfwhere", "-R", "-m", str(self._copies - 1), "/").strip()

    @property
    def _addresses(self) -> set[str]:
        return {server.address for server in self.site.servers}

    def _up_servers(self) -> set[str]:
        return set(self._tool("gfsched", "-M", check=False).split())

    def _write_configuration(self) -> None:
        homes = self._folder / "homes"
        homes.mkdir(parents=True)
        common = _COMMON.format(meta=self.site.meta.address, port=_PORT)
        (self._folder / "gfarm2.conf").write_text(common)
        (self._folder / "gfmd.conf").write_text(common + _METADATA)
        users = [pwd.getpwnam(name) for name in ("root", _USER)]
        for user in users:
            key = homes / user.pw_name / ".gfarm_shared_key"
            key.parent.mkdir()
            key.touch(mode=0o600)
            key.write_text(f"{_NEVER_EXPIRES:08x} {secrets.token_hex(32)}\n")
            shutil.chown(key, user.pw_uid, user.pw_gid)
        lines = [
            f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}::{homes / user.pw_name}:/bin/sh\n"
            for user in users
        ]
        (self._folder / "passwd").write_text("".join(lines))

    @property
    def _folder(self) -> Path:
        return self.site.folder / "gfarm"

    def _as_user(self, *command: str | Path) -> list[str | Path]:
        """Returns a command whose users have their home directories in the laboratory."""
        return [
            "env",
            f"LD_PRELOAD={_wrapper()}",
            f"NSS_WRAPPER_PASSWD={self._folder / 'passwd'}",
            "NSS_WRAPPER_GROUP=/etc/group",
            f"GFARM_CONFIG_FILE={self._folder / 'gfarm2.conf'}",
            *command,
        ]

    def _tool(self, *command: str | Path, check: bool = True) -> str:
        return self.site.meta.run(*self._as_user(*command), check=check)


def _wrapper() -> Path | None:
    return next(Path("/usr/lib").glob("*/libnss_wrapper.so"), None)
