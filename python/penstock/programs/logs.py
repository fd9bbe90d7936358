"""What the native programs of this process log."""

from dataclasses import dataclass


@dataclass
class Logs:
    """What programs log: with `verbose` at least informational messages, and how they are started."""

    verbose: bool = False


LOGS = Logs()
