"""Why something failed, for programs: decisions depend on the code and the path, never on a sentence."""

import errno
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

# Codes of the native programs, as native/base/result.hpp has them; those that a decision depends on.
ALREADY_EXISTS = "already_exists"
DISCONNECTED = "disconnected"
IO = "io"
MALFORMED = "malformed"
NO_SPACE = "no_space"
TIMED_OUT = "timed_out"

_OF_ERRNO = {
    errno.EEXIST: ALREADY_EXISTS,
    errno.ENOSPC: NO_SPACE,
    errno.EDQUOT: NO_SPACE,
    errno.ETIMEDOUT: TIMED_OUT,
}


class Failure(BaseModel):
    """What ended something before its time."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)

    code: str = Field(description="kind of the error: no_space, already_exists, timed_out, io, …")
    path: str = Field(
        "", description="file or directory, relative to that of the run; empty: none, or unknown"
    )
    detail: str = Field("", description="the sentence for people")


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception, or what it was made from, stands for."""
    codes = (_OF_ERRNO.get(each.errno or 0) for each in _causes(error) if isinstance(each, OSError))
    return Failure(code=next(filter(None, codes), IO), detail=str(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error itself first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
