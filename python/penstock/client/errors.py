"""What can go wrong, as one family: every error of this package is a `ClientError`."""


class ClientError(Exception):
    """The text names what is wrong, with its value, and where there is one the remedy."""


class FrameError(ClientError, ValueError):
    """A frame or a description of the series that the caller has to change; nothing of it was sent."""


class ConnectionLostError(ClientError, ConnectionError):
    """Nobody answers at the address, and `connect_timeout` or `reconnect_timeout` is over."""


class RefusedError(ClientError):
    """The recorder will not have the connection (a wrong token, say) or the series; it would do so again."""


class ClientTimeoutError(ClientError, TimeoutError):
    """Something took longer than the caller allowed. The series goes on: the call may be made again."""


class SeriesProblemError(ClientError):
    """The recorder has closed the series, and not as a complete one, or before all frames were safe."""


class FramesRefusedError(ClientError):
    """The file is complete, but the recorder refused some of the frames: `Series.refused` has them."""
