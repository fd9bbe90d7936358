"""What every test gets: its processor time in the results, and a skip if its MPI is not built."""

import gc
import resource
from collections.abc import Iterator

import pytest

from penstock.model.errors import PenstockError
from penstock.programs.locate import find_program

_BEGUN_S = pytest.StashKey[float]()


def _mpich_is_built() -> bool:
    try:
        return find_program("penstock-recorder-mpich").is_file()
    except PenstockError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test needs MPICH if the text of one of its parameters names it (PENSTOCK_MPI, scripts/build)."""
    if _mpich_is_built():
        return
    skip = pytest.mark.skip(reason="needs programs for MPICH: PENSTOCK_MPI=both make build")
    for item in items:
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        if any(isinstance(value, str) and "mpich" in value for value in values):
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """What is loaded lives as long as the process: no search for garbage goes through it again."""
    gc.freeze()


def _processor_s() -> float:
    """Of this process and the programs that it started and waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGUN_S] = _processor_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Adds the property `processor_s` to the JUnit file, for tools/budget.py."""
    yield
    used_s = _processor_s() - item.stash[_BEGUN_S]
    item.user_properties.append(("processor_s", f"{used_s:.3f}"))
