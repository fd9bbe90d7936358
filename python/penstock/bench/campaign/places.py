"""Where the targets of a campaign are: folders that are there, and laboratories that it brings up."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from penstock.bench.campaign.warm import warm
from penstock.lab.commands import run
from penstock.lab.storage import inside_of, name_of_laboratory, storage_at, storage_of
from penstock.lab.targets import held_target
from penstock.model.bench.campaigns import Target
from penstock.model.errors import PenstockError
from penstock.model.storage_url import Place

WARM = "penstock.bench.campaign.warm"


class Places:
    """One laboratory at a time is up. Use as a context manager: leaving it takes that down."""

    def __init__(self) -> None:
        self._up = ExitStack()
        self._laboratory, self._name = "", ""
        self._path: Place = Path()
        self._inside: list[str] = []
        self._problem: PenstockError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._up.close()

    def path_of(self, target: Target) -> Place:
        """Raises PenstockError where a laboratory does not come up; its other runs do not try again."""
        if not target.laboratory:
            return storage_at(target.path)
        if self._laboratory != target.laboratory:
            self._change_to(target.laboratory)
        if self._problem is not None:
            raise self._problem
        return self._path

    def inside_of(self, target: Target) -> list[str]:
        """Returns the prefix of a program that sees the path of `path_of`; empty: all programs do."""
        return self._inside if target.laboratory else []

    def laboratory_of(self, target: Target) -> str:
        """Returns the name under which the target's laboratory is up; empty: it is none."""
        return self._name if target.laboratory else name_of_laboratory(target.path)

    def _change_to(self, laboratory: str) -> None:
        self._up.close()
        self._laboratory, self._problem = laboratory, None
        try:
            state = self._up.enter_context(held_target(laboratory))
            self._name, self._inside = state.name, inside_of(state)
            if self._inside:
                self._path = Path(state.mount)
                run([*self._inside, sys.executable, "-m", WARM, state.mount])
                return
            self._path = storage_of(state)
            if isinstance(self._path, Path):
                warm(self._path)
        except PenstockError as error:
            self._problem = error
        except OSError as error:
            self._problem = PenstockError(f"lab:{laboratory}: {error}")
