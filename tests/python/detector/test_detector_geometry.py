"""The gaps of the catalogue's detectors are those between the modules of its grids."""

from pathlib import Path

import pytest
import yaml

from penstock.programs.locate import detectors_folder

FILES = sorted(detectors_folder().glob("*.yaml"))


def stripes(count: int, size: int, gap: int) -> set[tuple[int, int]]:
    """First pixel and width of the gaps between `count` modules in a row."""
    return {(n * size + (n - 1) * gap, gap) for n in range(1, count)} if gap else set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_gaps_lie_between_modules(path: Path) -> None:
    detector = yaml.safe_load(path.read_text())
    rows, columns = detector["rows"], detector["columns"]
    across = {(gap["row"], gap["rows"]) for gap in detector.get("gaps", []) if gap["columns"] == columns}
    down = {(gap["column"], gap["columns"]) for gap in detector.get("gaps", []) if gap["rows"] == rows}
    assert len(across) + len(down) == len(detector.get("gaps", []))
    if "modules" not in detector:
        assert not detector.get("gaps")
        return
    grid = detector["modules"]
    assert rows == grid["rows"] * grid["module_rows"] + (grid["rows"] - 1) * grid["gap_rows"]
    assert columns == grid["columns"] * grid["module_columns"] + (grid["columns"] - 1) * grid["gap_columns"]
    assert across == stripes(grid["rows"], grid["module_rows"], grid["gap_rows"])
    assert down == stripes(grid["columns"], grid["module_columns"], grid["gap_columns"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_guess_says_what_it_is(path: Path) -> None:
    detector = yaml.safe_load(path.read_text())
    assert ("approximate_because" in detector) == detector.get("approximate", False)
    assert path.read_text().startswith("# Source: ")
