"""What every test gets: its processor time in the results, and the marks that depend on its parameters."""

import gc
import resource
import signal
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from penstock.model.errors import PenstockError
from penstock.programs.locate import find_program

_BEGUN_S = pytest.StashKey[float]()

# A shell ignores SIGINT in what it starts with `&`. Programs would inherit that, but tests send it to them.
# They do not inherit a handler that does nothing.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


def _mpich_is_built() -> bool:
    try:
        return find_program("penstock-recorder-mpich").is_file()
    except PenstockError:
        return False


@pytest.hookimpl(tryfirst=True)  # ahead of `-m 'not slow'`
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    unused = _mark_slow_cases(items)
    config = session.config
    are_all_there = (
        "tests/python" in config.args and not config.getoption("lf", False) and not session.testsfailed
    )
    if are_all_there and unused:
        raise pytest.UsageError(f"tests/slow-cases.txt: no test has the case {', '.join(sorted(unused))}")
    _skip_without_mpich(items)


def _mark_slow_cases(items: list[pytest.Item]) -> set[str]:
    """Marks the cases in slow-cases.txt as slow. Returns the lines that name none of the tests."""
    lines = Path(__file__).with_name("slow-cases.txt").read_text("utf-8").splitlines()
    unused = {line for line in lines if not line.startswith("#")}
    cases: dict[str, list[tuple[str, str]]] = {}
    for line in unused:
        test, _, case = line.partition("[")
        cases.setdefault(test, []).append((case, line))
    for item in items:
        test, _, named = item.nodeid.partition("tests/python/")[2].partition("[")
        for case, line in cases.get(test, ()):
            if fnmatchcase(named.removesuffix("]"), case.removesuffix("]")):
                item.add_marker(pytest.mark.slow)
                unused.discard(line)
    return unused


def _skip_without_mpich(items: list[pytest.Item]) -> None:
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
