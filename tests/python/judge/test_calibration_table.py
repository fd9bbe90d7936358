"""The table of benchmarks/calibrate.py that docs/explanation/measuring.md shows."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("calibrate", BENCHMARKS / "calibrate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def case(factor: float, answer: str, confidence: float | None = None) -> dict[str, Any]:
    named = {"kind": "plain", "factor": factor, "processors_in_use": 1.0, "answer": answer}
    return named if answer == "failed" else named | {"confidence": confidence}


def test_answers_are_counted_by_limit_and_failed_verdicts_in_their_own_column(calibrate: ModuleType) -> None:
    cases = [
        case(2, "yes", 0.95),
        case(0.8, "likely no", 0.75),
        case(2, "likely yes", 0.75),
        case(2, "failed"),
        case(0.8, "no", 0.95),
        case(0.8, "likely yes", 0.75),
        case(2, "cannot tell"),
        case(2, "no", 0.95),
        case(2, "invalid"),
    ]
    lines = list(calibrate.summarize(cases))
    assert lines[2:4] == ["| 0.8 | 3 | 1 | 1 | 1 | 0 | 0 |", "| 2 | 6 | 1 | 1 | 1 | 1 | 2 |"]
    assert "1 of 9 verdicts failed. What follows leaves them out." in lines
