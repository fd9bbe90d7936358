"""MooseFS: a master with the metadata, chunk servers with the data; copies by a file's goal.

Facts from its manual pages: mfsmaster.cfg(5), mfschunkserver.cfg(5), mfsexports.cfg(5), mfsmount(8). A
master starts on a `metadata.mfs` with the text "MFSM NEW". Servers refuse addresses that begin with 127. A
write that finds no chunk server blocks for minutes, so that `start` waits until all are known.
"""

from typing import ClassVar

from pydantic import Field

from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions

_DEFAULT_GOAL = 2


class MooseFsOptions(SystemOptions):
    goal: int = Field(_DEFAULT_GOAL, ge=1, le=9, description="copies of each chunk")
    fsync: bool = Field(False, description="servers sync each chunk before they close it")
    trash_s: int = Field(
        0,
        ge=0,
        le=31_536_000,
        description="time in seconds that removed files are kept; MooseFS's default: 86400",
    )


class MooseFs(System[MooseFsOptions]):
    NAME = "moosefs"
    TITLE = "MooseFS"
    PROGRAMS = (
        Program("mfsmaster", "moosefs-master"),
        Program("mfschunkserver", "moosefs-chunkserver"),
        Program("mfsmount", "moosefs-client"),
        Program("mfscli", "moosefs-cli"),
    )
    FILE_SYSTEM = "fuse"
    SERVERS = 3
    OPTIONS: ClassVar[type[SystemOptions]] = MooseFsOptions

    def failures_max(self) -> int:
        return min(self.options.goal, len(self.site.servers)) - 1

    def start(self) -> None:
        meta = self.site.meta
        data = meta.folder / "metadata"
        data.mkdir()
        (data / "metadata.mfs").write_text("MFSM NEW")
        exports = meta.folder / "exports.cfg"
        exports.write_text("* / rw,alldirs,admin,maproot=0:0\n")
        (meta.folder / "topology.cfg").touch()
        settings = {
            "WORKING_USER": "root",
            "WORKING_GROUP": "root",
            "DATA_PATH": data,
            "EXPORTS_FILENAME": exports,
            "TOPOLOGY_FILENAME": meta.folder / "topology.cfg",
            "MATOML_LISTEN_HOST": meta.address,
            "MATOCS_LISTEN_HOST": meta.address,
            "MATOCL_LISTEN_HOST": meta.address,
            # The shortest loop, and high limits: small disks need the space of removed chunks soon.
            "CHUNKS_LOOP_MIN_TIME": 60,
            "CHUNKS_SOFT_DEL_LIMIT": 500,
            "CHUNKS_HARD_DEL_LIMIT": 1000,
            "LOCK_MEMORY": 0,
        }
        configuration = _write(meta, "master.cfg", settings)
        meta.start("mfsmaster", ["mfsmaster", "-f", "-c", configuration, "start"])
        for server in self.site.servers:
            self.start_server(server)
        self.site.wait_until(lambda: self._known_servers() >= len(self.site.servers), "a chunk server")

    def start_server(self, server: Node) -> None:
        data = server.folder / "state"
        data.mkdir(exist_ok=True)
        chunks = server.disk / "chunks"
        chunks.mkdir(exist_ok=True)
        disks = server.folder / "hdd.cfg"
        disks.write_text(f"{chunks}\n")
        settings = {
            "WORKING_USER": "root",
            "WORKING_GROUP": "root",
            "DATA_PATH": data,
            "HDD_CONF_FILENAME": disks,
            "MASTER_HOST": self.site.meta.address,
            "MASTER_RECONNECTION_DELAY": 1,
            "CSSERV_LISTEN_HOST": server.address,
            "HDD_LEAVE_SPACE_DEFAULT": "64MiB",
            "HDD_TEST_FREQ": 0,
            "HDD_FSYNC_BEFORE_CLOSE": int(self.options.fsync),
            "LOCK_MEMORY": 0,
        }
        configuration = _write(server, "chunkserver.cfg", settings)
        server.start("mfschunkserver", ["mfschunkserver", "-f", "-c", configuration, "start"])

    def mount(self, client: Node) -> None:
        client.start(
            "mfsmount",
            ["mfsmount", client.mount, "-f", "-H", self.site.meta.address, "-o", "allow_other"],
        )
        self.site.wait_until(client.mount.is_mount, "the mount")
        client.run("mfssettrashtime", str(self.options.trash_s), client.mount)
        if self.options.goal != _DEFAULT_GOAL:
            client.run("mfssetgoal", str(self.options.goal), client.mount)

    def has_healed(self) -> bool:
        """All servers are known, and no chunk has fewer copies than its goal (mfscli -SIC)."""
        return self._known_servers() == len(self.site.servers) and self._chunks_without_all_copies() == 0

    def _known_servers(self) -> int:
        return len(self._table("-SCS"))

    def _chunks_without_all_copies(self) -> int:
        lacking = {f"chunkclass {each}:" for each in ("missing", "endangered", "undergoal")}
        return sum(int(row[2]) for row in self._table("-SIC") if row[1] in lacking)

    def _table(self, what: str) -> list[list[str]]:
        meta = self.site.meta
        text = meta.run("mfscli", "-H", meta.address, "-p", "-s", "|", "-n", what, check=False)
        return [line.split("|") for line in text.splitlines() if "|" in line]


def _write(node: Node, name: str, settings: dict[str, object]) -> str:
    file = node.folder / name
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return str(file)
