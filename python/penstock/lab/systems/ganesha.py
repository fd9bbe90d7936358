"""NFS from nfs-ganesha, which exports the disk of a server.

Facts from ganesha-config(8), ganesha-core-config(8), ganesha-export-config(8) and rpcbind(8). Version 3 of
the protocol has to be registered with rpcbind, which keeps its files in /run. A kernel with an NFS client
mounts version 4.2; otherwise clients use libnfs (nfs-ls, nfs-cat, nfs-cp), of which release 4.0.0 writes with
version 3 only.
"""

from pathlib import Path

from penstock.lab.node import Node
from penstock.lab.packages import file_systems
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError

_PORT, _MOUNT_PORT = 2049, 20048
_PROBE = ".penstock-probe"
_CONFIGURATION = """\
NFS_CORE_PARAM {{
    Protocols = 3,4;
    Bind_addr = {address};
    NFS_Port = {port};
    MNT_Port = {mount_port};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Plugins_Dir = "{plugins}";
    mount_path_pseudo = true;
}}
NFSv4 {{
    Graceless = true;
    Minor_Versions = 0,1,2;
    RecoveryBackend = fs;
    RecoveryRoot = "{state}";
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1;
    Path = "{exported}";
    Pseudo = /exp;
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 3,4;
    Transports = TCP;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""


class Ganesha(System[SystemOptions]):
    NAME = "ganesha"
    TITLE = "NFS (nfs-ganesha)"
    NEEDS_ROOT = "the server opens files by their handles"
    PROGRAMS = (
        Program("ganesha.nfsd", "nfs-ganesha-vfs"),
        Program("rpcbind", "rpcbind"),
        Program("nfs-cat", "libnfs-utils"),
    )

    @classmethod
    def is_mounted(cls) -> bool:
        """Returns whether the kernel has an NFS client."""
        return _kernel_mounts()

    def start(self) -> None:
        if len(self.site.servers) > 1:
            raise UsageError(
                f"servers: {len(self.site.servers)} exceeds the maximum of 1", f"{self.TITLE} is one server"
            )
        self.start_server(self.site.servers[0])

    def start_server(self, server: Node) -> None:
        """Returns when it serves a file."""
        exported = server.disk.resolve() / "exported"
        exported.mkdir(exist_ok=True)
        probe = exported / _PROBE
        probe.write_text(_PROBE)
        self._start_daemons(server, exported)
        self.site.wait_until(lambda: server.run("nfs-cat", self._url(_PROBE), check=False) == _PROBE, "NFS")
        probe.unlink()

    def _start_daemons(self, server: Node, exported: Path) -> None:
        state = server.folder / "state"
        state.mkdir(exist_ok=True)
        (plugins,) = {each.parent for each in Path("/usr/lib").glob("*/ganesha/libfsalvfs.so")}
        configuration = server.folder / "ganesha.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                address=server.address,
                port=_PORT,
                mount_port=_MOUNT_PORT,
                plugins=plugins,
                state=state,
                exported=exported,
            )
        )
        covers = server.empty_run()
        socket = server.folder / "run" / "rpcbind.sock"
        socket.unlink(missing_ok=True)
        server.start("rpcbind", ["rpcbind", "-f", "-w"], covers=covers)
        self.site.wait_until(socket.exists, "rpcbind")
        server.start(
            "ganesha.nfsd",
            ["ganesha.nfsd", "-F", "-f", configuration, "-L", "/dev/stdout", "-p", server.folder / "pid"],
            covers=covers,
        )

    def mount(self, client: Node) -> None:
        if not _kernel_mounts():
            return
        address = self.site.servers[0].address
        given = f"vers=4.2,proto=tcp,port={_PORT},addr={address},clientaddr={client.address}"
        client.run("mount", "-i", "-t", "nfs4", "-o", given, f"{address}:/exp", client.mount)

    def url(self) -> str:
        return self._url()

    def _url(self, name: str = "") -> str:
        below = f"/{name}" if name else ""
        address = self.site.servers[0].address
        return f"nfs://{address}/exp{below}?version=3&nfsport={_PORT}&mountport={_MOUNT_PORT}"


def _kernel_mounts() -> bool:
    return "nfs" in file_systems()
