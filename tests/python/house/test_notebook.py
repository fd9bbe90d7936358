"""The notebook of the how-to page computes what it says. The cells run here as Jupyter runs them."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import fabio
import matplotlib.pyplot
import nexus_series as sent
import numpy
import pytest
import tifffile

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "examples" / "look-at-a-file.ipynb"
CELLS: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def test_the_notebook_computes_with_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell with pyFAI runs where that is installed."""
    sent.record_series(tmp_path, missing=1).rename(tmp_path / "series.h5")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names: dict[str, Any] = {}
    for cell in CELLS:
        needs = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and all(importlib.util.find_spec(each) for each in needs):
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}: {cell['id']}", "exec"), names)
    matplotlib.pyplot.close("all")

    frames = sent.frames_of(0)[: sent.FRAMES - 1]
    known = (frames[0] < 65535) & (sent.mask() == 0)
    assert list(names["received"]) == list(range(sent.FRAMES - 1))
    assert (names["total"].mask == ~known).all()
    assert (names["total"].filled(0) == numpy.where(known, frames.astype(int), 0).sum(axis=0)).all()
    region = numpy.where(known, frames, 0)[:, names["rows"], names["columns"]]
    assert names["counts"] == list(region.sum(axis=(1, 2)))
    cbf = fabio.open(str(tmp_path / "series_00000.cbf"))
    assert (cbf.data == numpy.where(known, frames[0].astype("int32"), -1)).all()
    assert (tifffile.imread(tmp_path / "series_00000.tiff") == frames[0]).all()


def test_the_notebook_has_no_outputs() -> None:
    """They would change with each run, and fill the repository."""
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
