"""Ports for the programs that a test starts."""

import socket


def free_ports(count: int) -> int:
    """The first of `count` neighbours that nobody listens on now."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
        try:
            for number in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        return port
