"""Gaps of the catalogue's detectors lie between the modules of their grids, and guesses are named."""

from pathlib import Path

import pytest

from penstock.model.catalogue import Detector, read_detector
from penstock.programs.locate import detectors_folder

FILES = sorted(detectors_folder().glob("*.yaml"))
EIGER2_1M = {"rows": 1062, "columns": 1028, "type": "uint16"}
GRID = {
    "rows": 2,
    "columns": 1,
    "module_rows": 512,
    "module_columns": 1028,
    "gap_rows": 38,
    "gap_columns": 12,
}


def stripes(count: int, size: int, gap: int) -> set[tuple[int, int]]:
    """First pixel and width of the gaps between `count` modules in a row."""
    return {(n * size + (n - 1) * gap, gap) for n in range(1, count)} if gap else set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_gaps_lie_between_modules(path: Path) -> None:
    detector = read_detector(path)
    rows, columns, grid = detector.rows, detector.columns, detector.modules
    across = {(gap.row, gap.rows) for gap in detector.gaps if gap.columns == columns}
    down = {(gap.column, gap.columns) for gap in detector.gaps if gap.rows == rows}
    assert len(across) + len(down) == len(detector.gaps)
    if grid is None:
        assert not detector.gaps
        return
    assert rows == grid.rows * grid.module_rows + (grid.rows - 1) * grid.gap_rows
    assert columns == grid.columns * grid.module_columns + (grid.columns - 1) * grid.gap_columns
    assert across == stripes(grid.rows, grid.module_rows, grid.gap_rows)
    assert down == stripes(grid.columns, grid.module_columns, grid.gap_columns)


def test_modules_that_do_not_make_the_image_are_refused() -> None:
    fitting = Detector.model_validate({"name": "d", **EIGER2_1M, "modules": GRID})
    assert [(gap.row, gap.rows) for gap in fitting.gaps] == [(512, 38)]
    with pytest.raises(
        ValueError, match="the grid has 1062 x 1028 pixels, but rows and columns are 1063 x 1028"
    ):
        Detector.model_validate({"name": "d", **EIGER2_1M, "rows": 1063, "modules": GRID})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_detector_states_its_source_and_what_is_a_guess(path: Path) -> None:
    detector = read_detector(path)
    assert detector.source
    assert detector.vendor
    assert bool(detector.approximate_because) == detector.approximate
    assert detector.rate_hz or detector.approximate, "an unknown rate is explained"
