"""The one error that a user may see, and the exit codes."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What every command answers with."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    CANNOT_TELL = 3
    INVALID = 4
    UNANSWERED = 5
    """no answer, of commands that answer a question: they failed, where 1 is an answer, or what they measured
    says nothing"""
    INTERRUPTED = 130
    """of commands that read files: SIGINT (Ctrl-C) came before their end"""
    TERMINATED = 143
    """as INTERRUPTED, of SIGTERM"""

    @classmethod
    def of_signal(cls, name: str) -> "ExitCode":
        """Of SIGINT or SIGTERM, as shells expect: 128 and the signal's number."""
        return cls.TERMINATED if name == "SIGTERM" else cls.INTERRUPTED


class PenstockError(Exception):
    """Something that the user can act on: what is wrong, and what to do about it."""

    def __init__(self, message: str, remedy: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code


class UsageError(PenstockError):
    """The options or the configuration are wrong."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy, ExitCode.USAGE)


class OutputError(PenstockError):
    """Standard output cannot be written."""


SYSTEM_ERRORS = (OSError, UnicodeError, MemoryError)
"""what no command handles itself: `problems.in_words` has the words"""


class RemediableValueError(ValueError):
    """Of a validator that knows what to do about the value."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class InterruptedRunError(PenstockError):
    """Somebody ended it before its time."""
