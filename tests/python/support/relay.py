"""Something between clients and a recorder that loses connections so that the recorder does not notice."""

import contextlib
import select
import socket
import threading


class Relay:
    """Passes one connection after the other on to `address`; each ends for the client alone."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.passed = 0
        self._left: list[socket.socket] = []  # the recorder's ends of connections that are lost
        self._cut = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join()
        for each in [self._listener, *self._left]:
            each.close()

    def cut(self) -> None:
        """The client's connection is lost; the recorder's stays."""
        self._cut.set()
        assert self._idle.wait(10)

    def _run(self) -> None:
        self._listener.settimeout(0.05)
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                recorder = socket.create_connection(self._to)
                self._left.append(recorder)
                self._cut.clear()
                self._idle.clear()
                self.passed += 1
                with client, contextlib.suppress(OSError):
                    self._pump(client, recorder)
                self._idle.set()

    def _pump(self, client: socket.socket, recorder: socket.socket) -> None:
        while not self._closing and not self._cut.is_set():
            for ready in select.select([client, recorder], [], [], 0.05)[0]:
                data = ready.recv(1 << 16)
                if not data:
                    return
                (recorder if ready is client else client).sendall(data)
