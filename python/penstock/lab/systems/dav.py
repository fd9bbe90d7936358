"""WebDAV from Apache httpd (mod_dav), which serves the disk of a server.

Facts from the reference of Apache httpd 2.4: core, mpm_event, mod_dav, mod_dav_fs and mod_unixd. Its worker
processes do not run as root. A PUT writes a temporary file next to its target and renames it, without fsync
(seen with strace). LimitRequestBody is 1 GiB by default.
"""

from pathlib import Path

from penstock.lab import http
from penstock.lab.ground import GROUND
from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import PenstockError, UsageError

_PORT = 8080
_MODULES = Path("/usr/lib/apache2/modules")
_USER = "www-data"
_PROBE = "first byte"
_CONFIGURATION = """\
ServerName {address}
Listen {address}:{port}
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/httpd.pid
ErrorLog /dev/stderr
LogLevel warn
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dav_module {modules}/mod_dav.so
LoadModule dav_fs_module {modules}/mod_dav_fs.so
User {user}
Group {user}
MaxKeepAliveRequests 0
LimitRequestBody 0
DavLockDB {locks}/locks
DocumentRoot {root}
<Directory />
    AllowOverride None
</Directory>
<Directory {root}>
    Require all granted
    Dav On
    DavDepthInfinity On
</Directory>
"""


class Dav(System[SystemOptions]):
    NAME = "dav"
    TITLE = "WebDAV (Apache httpd)"
    PROGRAMS = (Program("apache2", "apache2-bin"), Program("curl", "curl"))

    @classmethod
    def is_mounted(cls) -> bool:
        return False

    def start(self) -> None:
        if len(self.site.servers) > 1:
            raise UsageError(
                f"servers: {len(self.site.servers)} exceeds the maximum of 1", f"{self.TITLE} is one server"
            )
        self.start_server(self.site.servers[0])
        self._require_file()

    def start_server(self, server: Node) -> None:
        """Returns when it answers."""
        root, locks = server.disk.resolve() / "root", server.folder / "state"
        for each in (root / "data", locks):
            each.mkdir(parents=True, exist_ok=True)
            GROUND.hand_over(each, _USER)
        configuration = server.folder / "httpd.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                address=server.address,
                port=_PORT,
                folder=server.folder,
                modules=_MODULES,
                user=_USER,
                locks=locks,
                root=root,
            )
        )
        (server.folder / "httpd.pid").unlink(missing_ok=True)
        server.start("apache2", [*GROUND.as_user(_USER), "apache2", "-D", "FOREGROUND", "-f", configuration])
        client = self.site.clients[0]
        self.site.wait_until(lambda: http.request(client, self.url())[0] != http.NO_ANSWER, "WebDAV")

    def _require_file(self) -> None:
        """Raises PenstockError if a file cannot be written and read back."""
        client, url = self.site.clients[0], f"{self.url()}.penstock-probe"
        http.request(client, url, "--request", "PUT", "--data", _PROBE)
        status, text = http.request(client, url)
        if text != _PROBE:
            raise PenstockError(f"{url} was not read back: {status} {text}")
        http.request(client, url, "--request", "DELETE")

    def mount(self, client: Node) -> None:
        pass

    def url(self) -> str:
        return f"http://{self.site.servers[0].address}:{_PORT}/data/"
