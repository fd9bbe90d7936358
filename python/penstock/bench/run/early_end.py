"""A measurement of several steps that ends before its time: what was measured until then is its result."""

from collections.abc import Callable, Sequence

from penstock.model.errors import PenstockError

INTERRUPTED = "it was interrupted"


def problem_of(take_all: Callable[[], object], steps: Sequence[object]) -> str | None:
    """Takes all steps, and returns what ended them early; None: nothing did.

    Raises the PenstockError or KeyboardInterrupt if there is no step yet.
    """
    try:
        take_all()
    except KeyboardInterrupt:
        problem = INTERRUPTED
        if not steps:
            raise
    except PenstockError as error:
        problem = error.message
        if not steps:
            raise
    else:
        return None
    return problem
