"""What ends a verdict or a rehearsal early is in its document, unless nothing was measured."""

import ast
from pathlib import Path

import pytest

from penstock.bench.run.early_end import problem_of
from penstock.model.errors import PenstockError

BENCH = Path(__file__).parents[3] / "python" / "penstock" / "bench"
ENDS = {
    "it was interrupted": KeyboardInterrupt("SIGTERM"),
    "the storage is full": PenstockError("the storage is full", "free space"),
}


@pytest.mark.parametrize("words", ENDS)
def test_what_ends_it_early_is_its_problem_after_a_step(words: str) -> None:
    steps: list[str] = []

    def take_all(makes_step: bool) -> None:
        if makes_step:
            steps.append("unpaced")
        raise ENDS[words]

    with pytest.raises(type(ENDS[words])):
        problem_of(lambda: take_all(makes_step=False), steps)
    assert problem_of(lambda: take_all(makes_step=True), steps) == words
    assert problem_of(lambda: None, steps) is None


@pytest.mark.parametrize("name", ["rehearse/course.py", "run/stages.py"])
def test_errors_of_steps_are_handled_in_one_place(name: str) -> None:
    tree = ast.parse((BENCH / name).read_text("utf-8"))
    caught = [
        ast.unparse(each.type) for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler) and each.type
    ]
    assert "KeyboardInterrupt" not in caught
