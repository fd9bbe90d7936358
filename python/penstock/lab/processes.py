"""Who holds the processes of a node."""

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Processes(ABC):
    """Of one node, in the PID namespace of the supervisor."""

    @abstractmethod
    def make(self) -> None:
        """Before the first process."""

    @abstractmethod
    def joining(self, command: Sequence[str]) -> list[str]:
        """The command as one of them from its first instruction; it does not start outside."""

    @abstractmethod
    def limit_processors(self, count: float) -> None: ...

    @abstractmethod
    def limit_memory(self, size_bytes: int) -> None: ...

    @abstractmethod
    def limit_device(self, device: str, bytes_per_s: int) -> None:
        """`device`: its numbers, as 7:3. 0: no limit."""

    @abstractmethod
    def freeze(self, frozen: bool) -> None: ...

    @abstractmethod
    def processes(self) -> list[int]: ...

    @abstractmethod
    def usage(self) -> tuple[float, int] | None:
        """Returns seconds of processors and bytes of memory; None where the kernel does not count them."""

    @abstractmethod
    def kill(self) -> None:
        """Returns when no process is left. Raises PenstockError if the kernel keeps one."""
