"""What to do after a recorder died: advice that can be followed."""

import os
from pathlib import Path

import pytest

from penstock.model.configuration import Configuration
from penstock.programs.record import how_to_recover


@pytest.mark.parametrize("resume", [False, True])
def test_advice_names_only_files_that_exist(tmp_path: Path, resume: bool) -> None:
    plan = Configuration.model_validate({"folder": str(tmp_path), "resume": resume}).plan(os.environ)
    there, gone = tmp_path / "there.h5", tmp_path / "gone.h5"
    there.touch()
    advice = how_to_recover(plan, [str(gone), str(there)])
    if resume:
        assert advice.startswith("Start the same command again")
        assert "recover" not in advice
        return
    assert f"`penstock recover {there}`" in advice
    assert "gone.h5" not in advice
    assert how_to_recover(plan, [str(gone)]) == "It left no file: start the command again"
