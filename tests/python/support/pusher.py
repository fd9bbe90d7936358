"""A detector's end of ZeroMQ: it binds PUSH, and may vanish and come back."""

from types import TracebackType
from typing import Self

import cbor2
import zmq


class Pusher:
    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PUSH)
        self.socket.setsockopt(zmq.SNDTIMEO, 20_000)  # a recorder that does not exist fails the test
        self.socket.setsockopt(zmq.LINGER, 10_000)
        self.socket.bind(endpoint)

    def send(self, *messages: dict[str, object]) -> None:
        """Stream V2."""
        for message in messages:
            self.socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))

    def parts(self, *messages: list[bytes]) -> None:
        """Stream V1."""
        for message in messages:
            self.socket.send_multipart(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is on its way is still sent."""
        self.socket.close()
        self.context.term()
