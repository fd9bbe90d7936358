"""Skips tests that need MPICH if the programs are built for Open MPI alone (PENSTOCK_MPI, scripts/build)."""

import pytest

from penstock.model.errors import PenstockError
from penstock.programs.locate import find_program


def _mpich_is_built() -> bool:
    try:
        return find_program("penstock-recorder-mpich").is_file()
    except PenstockError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test needs MPICH if the text of one of its parameters names it."""
    if _mpich_is_built():
        return
    skip = pytest.mark.skip(reason="needs programs for MPICH: PENSTOCK_MPI=both make build")
    for item in items:
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        if any(isinstance(value, str) and "mpich" in value for value in values):
            item.add_marker(skip)
