"""HDFS: a NameNode on the node `meta`, a DataNode for each server, from Hadoop's jars.

Facts from core-default.xml and hdfs-default.xml of Hadoop. Debian has no package of it: Maven resolves the
jars into the user's cache folder. The NameNode looks for the folders of its web pages on the class path, and
does not start without them; web.xml in them may be empty. Its clients only append to files, one at a time.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import escape

from pydantic import Field

from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import PenstockError, UsageError
from penstock.model.units import Size

_VERSION = "3.4.1"
# The first decides on the version of what several need: hadoop-common would choose an old jackson-core.
_ARTIFACTS = ("hadoop-hdfs", "hadoop-hdfs-client", "hadoop-common")
_PORT, _NAME_NODE_HTTP, _DATA_NODE_HTTP = 8020, 9870, 9864
_COPIES_MAX = 3
_DATA_NODE = "datanode"
_SERVERS = "org.apache.hadoop.hdfs.server"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId>
  <artifactId>hadoop</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{name}</artifactId>"
    "<version>{version}</version></dependency>"
)
_LOG4J = """\
log4j.rootLogger=${lab.level},console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
_SHELL = """\
#!/bin/sh
# File system commands of Hadoop: sh {file} -ls /
exec {java} -Dlab.level=ERROR org.apache.hadoop.fs.FsShell "$@"
"""
_FETCH = r'exec 3<>"/dev/tcp/$1/$2" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$3" "$1" >&3 && cat <&3'


class HdfsOptions(SystemOptions):
    copies: int | None = Field(
        None, ge=1, le=9, description="copies of each block; by default 3, or 1 on each of fewer servers"
    )
    block_size: Size = Field(64 << 20, description="size of the blocks that files are cut into")


class Hdfs(System[HdfsOptions]):
    NAME = "hdfs"
    TITLE = "HDFS"
    PROGRAMS = (Program("java", "openjdk-17-jre-headless"), Program("mvn", "maven"))
    SERVERS = 3
    OPTIONS: ClassVar[type[SystemOptions]] = HdfsOptions

    @classmethod
    def is_mounted(cls) -> bool:
        return False

    def failures_max(self) -> int:
        return self._copies - 1

    @property
    def _copies(self) -> int:
        return self.options.copies or min(_COPIES_MAX, len(self.site.servers))

    @classmethod
    def lacks(cls) -> str:
        return "" if _jars().is_dir() else f"Hadoop {_VERSION} in {_jars()}"

    @classmethod
    def install(cls) -> None:
        new = _jars().with_name(f"{_jars().name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        dependencies = [_DEPENDENCY.format(name=each, version=_VERSION) for each in _ARTIFACTS]
        (new / "pom.xml").write_text(_POM.format(dependencies="".join(dependencies)), encoding="utf-8")
        command = ["mvn", "-B", "-ntp", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={new}"], cwd=new, check=False)
        if done.returncode != 0:
            raise PenstockError(f"`{' '.join(command)}` failed in {new}", "see its output above")
        new.rename(_jars())

    def start(self) -> None:
        meta = self.site.meta
        self._write_configuration()
        for server in self.site.servers:
            self._start_data_node(server)
        meta.run(*self._java(meta), f"{_SERVERS}.namenode.NameNode", "-format", "-nonInteractive")
        meta.start("namenode", [*self._java(meta), f"{_SERVERS}.namenode.NameNode"])
        self.site.wait_until(self.has_healed, "a DataNode")

    def start_server(self, server: Node) -> None:
        """Returns when the NameNode knows which blocks it has."""
        self._start_data_node(server)
        self.site.wait_until(lambda: self._is_registered(server), "a DataNode")

    def _start_data_node(self, server: Node) -> None:
        server.start(_DATA_NODE, [*self._java(server), f"{_SERVERS}.datanode.DataNode"])

    def _is_registered(self, server: Node) -> bool:
        text = self._bean(server, _DATA_NODE_HTTP, "DataNode", "DataNodeInfo").get("BPServiceActorInfo")
        return any(each["ActorState"] == "RUNNING" for each in json.loads(text or "[]"))

    def _write_configuration(self) -> None:
        count = len(self.site.servers)
        copies = self._copies
        if copies > count:
            raise UsageError(f"copies: requires {copies} servers, not {count}", "raise --servers")
        folder, meta = self._configuration, self.site.meta
        for kind in ("hdfs", "datanode"):
            page = folder / "webapps" / kind / "WEB-INF" / "web.xml"
            page.parent.mkdir(parents=True)
            page.write_text("<web-app/>\n")
        (folder / "log4j.properties").write_text(_LOG4J)
        _write(folder / "core-site.xml", {"fs.defaultFS": self.url(), "hadoop.tmp.dir": "${lab.folder}/tmp"})
        settings: dict[str, object] = {
            "dfs.replication": copies,
            "dfs.blocksize": self.options.block_size,
            "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": meta.folder / "names",
            "dfs.namenode.rpc-address": f"{meta.address}:{_PORT}",
            "dfs.namenode.http-address": f"{meta.address}:{_NAME_NODE_HTTP}",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.fs-limits.min-block-size": 4096,
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.redundancy.interval.seconds": "1s",
            # A copy that was a dead DataNode was ordered to make is ordered again.
            "dfs.namenode.reconstruction.pending.timeout-sec": 5,
            # A DataNode is avoided after 3 s of silence, and is dead after 14 s.
            "dfs.heartbeat.interval": "1s",
            "dfs.namenode.heartbeat.recheck-interval": 2000,
            "dfs.namenode.stale.datanode.interval": 3000,
            "dfs.namenode.avoid.read.stale.datanode": "true",
            "dfs.namenode.avoid.write.stale.datanode": "true",
            "dfs.datanode.hostname": "${lab.address}",
            "dfs.datanode.data.dir": "${lab.disk}/blocks",
            "dfs.datanode.http.address": f"0.0.0.0:{_DATA_NODE_HTTP}",
            "dfs.datanode.du.reserved": 0,
            "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": 0,
        }
        _write(folder / "hdfs-site.xml", settings)
        shell = self.site.folder / "hdfs"
        java = " ".join(map(str, self._java(self.site.clients[0])))
        shell.write_text(_SHELL.format(file=shell, java=java))

    def _java(self, node: Node) -> list[str | Path]:
        """Leaves no file outside of the node's folder."""
        return [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            # Halves the time to start. The rate rests on checksums, for which the processor has instructions.
            "-XX:TieredStopAtLevel=1",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Djava.io.tmpdir={node.folder}",
            "-Dlab.level=INFO",
            f"-Dlab.folder={node.folder}",
            f"-Dlab.disk={node.disk.resolve()}",
            f"-Dlab.address={node.address}",
            "-classpath",
            f"{self._configuration}:{_jars()}/*",
        ]

    def mount(self, client: Node) -> None:
        pass

    def url(self) -> str:
        return f"hdfs://{self.site.meta.address}:{_PORT}"

    def has_healed(self) -> bool:
        """Returns whether all DataNodes report, and no block lacks a copy."""
        known = self._bean(self.site.meta, _NAME_NODE_HTTP, "NameNode", "NameNodeInfo").get("LiveNodes")
        nodes = json.loads(known or "{}").values()
        # A DataNode has no capacity, and is given no block, until its first report.
        if sum(each["lastContact"] <= 2 and each["capacity"] > 0 for each in nodes) < len(self.site.servers):
            return False
        blocks = self._bean(self.site.meta, _NAME_NODE_HTTP, "NameNode", "FSNamesystem")
        lacking = ("MissingBlocks", "UnderReplicatedBlocks", "PendingReplicationBlocks")
        return bool(blocks) and not any(blocks[each] for each in lacking)

    def _bean(self, node: Node, port: int, service: str, name: str) -> dict[str, Any]:
        """Returns an empty dictionary if the daemon does not answer."""
        page = f"/jmx?qry=Hadoop:service={service},name={name}"
        # bash takes 5 ms for it; curl may not be there.
        answer = node.run("bash", "-c", _FETCH, "bash", node.address, str(port), page, check=False)
        text = answer.replace("\r\n", "\n").partition("\n\n")[2]
        try:
            beans = json.loads(text)["beans"]
        except ValueError:
            return {}
        return beans[0] if beans else {}

    @property
    def _configuration(self) -> Path:
        return self.site.folder / "hadoop"


def _jars() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "penstock", f"hadoop-{_VERSION}")


def _write(file: Path, settings: dict[str, object]) -> None:
    rows = [
        f"<property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in settings.items()
    ]
    file.write_text(f"<configuration>\n{''.join(rows)}</configuration>\n")
