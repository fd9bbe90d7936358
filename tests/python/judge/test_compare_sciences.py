"""Runs of the sciences' workloads beside one another: options by name, and the value that says most."""

from pathlib import Path

import pytest
from comparable import science_run
from typer.testing import CliRunner

from penstock.cli import application
from penstock.model.bench.science import NamedValue


def compare(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(application, ["compare", *map(str, arguments)])
    return found.exit_code, " ".join(found.output.split())


def write_analysis(path: Path, day: int, events: float, **parameters: int) -> Path:
    values = [
        NamedValue(name="events", value=events, unit="1/min", better="higher"),
        NamedValue(name="throughput", value=1e6 * 10**day, unit="B/s", better="higher"),
    ]
    run = science_run(24 * 60 * day, "analysis", values, pattern="scan", **parameters)
    path.write_text(run.model_dump_json())
    return path


def test_the_option_that_differs_is_named_alone(tmp_path: Path) -> None:
    a = write_analysis(tmp_path / "a", 0, 100, read_ahead=0)
    b = write_analysis(tmp_path / "b", 1, 120, read_ahead=4 << 20)
    code, said = compare(a, b)
    assert code == 2
    assert "differ in --read-ahead: 0 B and 4 MiB what to do" in said
    code, said = compare(a, b, "--force")
    assert code == 3
    assert "B was 20 % faster (events, analysis, --read-ahead 0 B" in said
    assert not any(word in said for word in ("science", "{", "pattern"))


def test_sizes_that_are_shown_alike_differ(tmp_path: Path) -> None:
    a = write_analysis(tmp_path / "a", 0, 100, file_size=20_000_001)
    b = write_analysis(tmp_path / "b", 1, 100, file_size=20_000_002)
    assert "differ in --file-size: 20000001 B and 20000002 B" in compare(a, b)[1]


@pytest.mark.parametrize(("unit", "first", "second"), [("count", "2", "4"), ("share", "200 %", "400 %")])
def test_the_summary_of_counts_is_both_values(tmp_path: Path, unit: str, first: str, second: str) -> None:
    for day, number in enumerate((2.0, 4.0)):
        values = [
            NamedValue.model_validate({"name": "jobs", "value": number, "unit": unit, "better": "higher"}),
            NamedValue(name="delay alone", value=0.1, unit="s", better="lower"),
        ]
        run = science_run(24 * 60 * day, "acquire-and-analyse", values, int(number), detector="d")
        (tmp_path / str(day)).write_text(run.model_dump_json())
    code, said = compare(tmp_path / "0", tmp_path / "1")
    assert code == 3  # although the number of jobs, which was found, is in both
    assert f"{first} in A, {second} in B (jobs, acquire-and-analyse), in one run each" in said


def test_two_sciences_are_not_compared(tmp_path: Path) -> None:
    a = write_analysis(tmp_path / "a", 0, 100)
    (tmp_path / "b").write_text(science_run(1, "imaging", []).model_dump_json())
    assert "a is a run of analysis, " in compare(a, tmp_path / "b")[1]


def test_runs_that_differ_only_in_length_are_compared(tmp_path: Path) -> None:
    """The length is a condition, which is shown."""
    a = write_analysis(tmp_path / "a", 0, 100, seconds=10)
    b = write_analysis(tmp_path / "b", 1, 120, seconds=30)
    code, said = compare(a, b)
    assert code == 3
    assert "length 10 s 30 s" in said
    assert "differ in" not in said
