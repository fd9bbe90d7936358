"""`penstock compare` of two rehearsals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_documents import a_rehearsal, a_run
from typer.testing import CliRunner, Result

from penstock.bench.compare.rehearsals import compare_rehearsals
from penstock.cli import application
from penstock.model.bench.comparisons import Answer
from penstock.model.bench.rehearsals import RehearsalComparison


def rehearsed(folder: Path, name: str, encoding: str = "bslz4", **changes: Any) -> Path:
    job = {"folder": f"/{name}", "threads": 4, "codec": {"encoding": encoding}}
    path = folder / f"{name}.json"
    document = a_rehearsal(configuration=job, configuration_file=f"{encoding}.yaml", **changes)
    path.write_text(document.model_dump_json(), encoding="utf-8")
    return path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["compare", *arguments], env={"COLUMNS": "200"})


def test_two_rehearsals_stand_side_by_side(tmp_path: Path) -> None:
    slow = rehearsed(
        tmp_path, "a", "bszstd", answer="no", sustained_hz=20.0, less_than_hz=21.0, narrowest="compress"
    )
    fast = rehearsed(tmp_path, "b")
    done = invoke(str(slow), str(fast))
    assert done.exit_code == 0, done.output
    first, *rest = done.output.splitlines()
    assert first == "B is not worse: B keeps up with the PILATUS 6M, A does not"
    table = "\n".join(" ".join(line.split()) for line in rest)
    assert "codec.encoding bszstd bslz4" in table
    assert "narrowest stage compress -" in table
    assert "at least 50 Hz" in table
    assert "folder" not in table
    worse = invoke(str(fast), str(slow), "--json")
    assert worse.exit_code == 1
    assert RehearsalComparison.model_validate(json.loads(worse.stdout)).answer == "worse"


@pytest.mark.parametrize(
    ("base", "other", "answer"),
    [
        ({}, {"sustained_hz": 30.0, "less_than_hz": 31.0}, "worse"),
        ({}, {"sustained_hz": 90.0, "less_than_hz": 95.0}, "nothing worse"),
        ({}, {"sustained_hz": 49.0, "less_than_hz": 51.0}, "nothing worse"),
        ({}, {"sustained_hz": 25.0, "less_than_hz": None}, "cannot tell"),
        ({}, {"answer": "cannot tell"}, "cannot tell"),
        ({"answer": "invalid"}, {}, "invalid"),
    ],
)
def test_answer_follows_from_answers_and_intervals(
    tmp_path: Path, base: dict[str, Any], other: dict[str, Any], answer: Answer
) -> None:
    paths = [rehearsed(tmp_path, "a", **base), rehearsed(tmp_path, "b", **other)]
    assert compare_rehearsals(paths).answer == answer


def test_rehearsals_of_different_needs_require_force(tmp_path: Path) -> None:
    paths = [str(rehearsed(tmp_path, "a")), str(rehearsed(tmp_path, "b", needed_hz=10.0))]
    refused = invoke(*paths)
    assert refused.exit_code == 2
    assert "needed (25 Hz and 10 Hz)" in refused.output
    forced = invoke(*paths, "--force")
    assert forced.exit_code == 0
    assert [line.split()[0] for line in forced.output.splitlines() if line.strip()].count("needed") == 1


def test_the_answer_of_different_needs_names_both_rates(tmp_path: Path) -> None:
    paths = [
        rehearsed(tmp_path, "a", answer="no"),
        rehearsed(tmp_path, "b", answer="yes", needed_hz=10.0),
    ]
    summary = compare_rehearsals(paths, force=True).summary
    assert re.fullmatch(r"B keeps up with the .* at 10 Hz, A does not at 25 Hz", summary)


def test_a_rate_in_the_name_of_the_detector_is_not_repeated(tmp_path: Path) -> None:
    paths = [
        rehearsed(tmp_path, "a", answer="no"),
        rehearsed(
            tmp_path, "b", answer="yes", needed_hz=10.0, detector="PILATUS 6M at 10 Hz; its maximum is 25 Hz"
        ),
    ]
    summary = compare_rehearsals(paths, force=True).summary
    assert summary == "B keeps up with the PILATUS 6M at 10 Hz; its maximum is 25 Hz, A does not at 25 Hz"


def test_rehearsal_and_another_document_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(a_run().model_dump_json(), encoding="utf-8")
    refused = invoke(str(rehearsed(tmp_path, "a")), str(run))
    assert refused.exit_code == 2
    assert "is a rehearsal, and" in " ".join(refused.output.split())
