"""The network of a laboratory: a switch, and a namespace with one address for each node.

Nothing of it is in the host's network. Namespaces are mounted files in the laboratory's folder (ip-netns(8)
keeps its own in /run/netns, for all users of a machine).
"""

from pathlib import Path

from penstock.lab.commands import run

SERVERS, META, CLIENTS = 1, 100, 101
"""last bytes of the first addresses of servers, of the node of metadata servers, and of clients"""
_NETWORK = "10.78.0"
_SWITCH = "switch"
_BURST_S, _BURST_BYTES_MIN, _BURST_BYTES_MAX = 0.002, 256 * 1024, 4 << 20


def address_of(number: int) -> str:
    return f"{_NETWORK}.{number}"


class Network:
    def __init__(self, folder: Path) -> None:
        """`folder`: of its namespaces."""
        self._folder = folder

    def namespace(self, node: str) -> Path:
        return self._folder / node

    def inside(self, node: str) -> list[str]:
        """Returns the prefix that runs a command in the node's network."""
        return ["nsenter", f"--net={self.namespace(node)}", "--"]

    def make_switch(self) -> None:
        self._folder.mkdir()
        self._make_namespace(_SWITCH)
        self._ip(_SWITCH, "link add br0 type bridge", "link set br0 up")

    def add(self, node: str, number: int, link_bytes_per_s: float | None) -> None:
        self._make_namespace(node)
        port = f"p{number}"
        self._ip(
            _SWITCH,
            f"link add {port} type veth peer name eth0 netns {self.namespace(node)}",
            f"link set {port} master br0 up",
        )
        self._ip(node, "link set lo up", f"address add {address_of(number)}/24 dev eth0", "link set eth0 up")
        if link_bytes_per_s is not None:
            self.limit(node, number, link_bytes_per_s)

    def limit(self, node: str, number: int, bytes_per_s: float) -> None:
        """Both directions; 0: no limit."""
        for namespace, device in ((_SWITCH, f"p{number}"), (node, "eth0")):
            control = [*self.inside(namespace), "tc", "qdisc"]
            if bytes_per_s == 0:
                run([*control, "delete", "dev", device, "root"], check=False)
                continue
            burst = round(min(max(bytes_per_s * _BURST_S, _BURST_BYTES_MIN), _BURST_BYTES_MAX))
            shape = f"tbf rate {round(8 * bytes_per_s)}bit burst {burst} latency 50ms"
            run([*control, "replace", "dev", device, "root", *shape.split()])

    def connect(self, number: int, connected: bool) -> None:
        """Pulls the node's cable out of the switch, or puts it in."""
        self._ip(_SWITCH, f"link set p{number} {'up' if connected else 'down'}")

    def _make_namespace(self, node: str) -> None:
        file = self.namespace(node)
        file.touch()
        run(["unshare", f"--net={file}", "true"])

    def _ip(self, node: str, *commands: str) -> None:
        run([*self.inside(node), "ip", "-batch", "-"], text="\n".join(commands) + "\n")
