"""Damaged files of all kinds: check, info and recover neither hang nor crash; each error is for the user."""

import functools
import random
from collections import Counter
from pathlib import Path

import pytest
from damage import LAYOUTS, SILENCE_S, damaged, make_specimens, try_all, try_check, try_info
from rounds import long_run, rounds, say, seed

from penstock.files import aside
from penstock.model.plans import RecoverPlan
from penstock.programs import recover as recovery

FILES_A_ROUND = 25  # of kill -9: 200 rounds are 5000 damaged files


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "SILENCE_S", SILENCE_S)
    monkeypatch.setattr(recovery, "RecoverPlan", functools.partial(RecoverPlan, index_timeout_s=SILENCE_S))


def _torture(folder: Path, files: int, layouts: tuple[str, ...]) -> None:
    specimens = make_specimens(folder / "specimens", layouts)
    places: dict[Path, list[int]] = {}
    ends: Counter[str] = Counter()
    for number in range(files):
        dice = random.Random(f"{seed()} {number}")
        with damaged(specimens[number % len(specimens)], folder, places, dice) as (path, said):
            try:
                end = try_all(path)
                if number % 10 == 0:  # what a recovery left
                    end += f", then {try_info(path)}, {try_check(path)}"
            except BaseException:
                print(f"TORTURE_SEED={seed()}, file {number}: {said}", flush=True)
                raise
        ends[end] += 1
        if number % 500 == 499:
            say(f"{number + 1} damaged files")
    for end, count in ends.most_common():
        say(f"{count:6} {end}")


@pytest.mark.slow
def test_damaged_files_of_two_layouts(tmp_path: Path) -> None:
    _torture(tmp_path, 20, ("plain", "split"))


@long_run
@pytest.mark.timeout(0)
def test_damaged_files_of_all_layouts(tmp_path: Path) -> None:
    _torture(tmp_path, FILES_A_ROUND * rounds(200), tuple(LAYOUTS))
