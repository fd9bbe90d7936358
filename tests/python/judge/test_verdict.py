"""`penstock verdict` as a user runs it."""

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run as RunCommand
from jsonschema import Draft202012Validator
from test_bench import start, wait_for_files

from penstock.model.bench.runs import Run, Verdict

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "verdict.schema.json"
SMALL = ("--rows", "64", "--columns", "64", "--rate", "20")
# No figure of such short runs is worth anything; what is made of them is the same.
SHORT = ("--seconds", "2", "--search-time", "25", "--search-max", "2", "--soak", "2")


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def valid_verdict(text: str) -> Verdict:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return Verdict.model_validate_json(text)


def test_all_steps_of_a_small_detector_on_memory(run: RunCommand, memory: Path, tmp_path: Path) -> None:
    """A sixth of a megabyte a second: any storage takes that, and the runs are too short to be a yes."""
    output = tmp_path / "verdict.json"
    finished = run("verdict", "custom", str(memory), *SMALL, *SHORT, "--yes", "--output", str(output))
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert list(memory.iterdir()) == []
    assert list(tmp_path.iterdir()) == [output]
    assert finished.returncode == {"no": 1, "cannot tell": 3, "invalid": 4}[verdict.answer], finished.stderr
    assert verdict.needed_bytes_per_s == 64 * 64 * 2 * 20
    assert verdict.problem is None
    kinds = [step.kind for step in verdict.steps]
    assert kinds[0] == "rate"
    for shown in ("storage  ", "tmpfs on", "search  ", "soak  ", "takes  "):
        assert shown in finished.stderr
    if verdict.answer == "invalid":  # this machine was too busy for it
        return
    assert {"full speed", "search", "soak"} <= set(kinds)
    assert verdict.search is not None
    assert verdict.search.top_hz == 40
    assert finished.stdout.startswith("Does it sustain the ")
    assert finished.stdout.index("Why:") < finished.stdout.index("equivalent detectors")
    prefixes = [step.run.document.plan.prefix for step in verdict.steps]
    assert len(set(prefixes)) == len(prefixes), "files of two steps could be mistaken"


def test_a_quick_verdict_has_two_runs(run: RunCommand, memory: Path) -> None:
    finished = run("verdict", "custom", str(memory), *SMALL, "--seconds", "2", "--quick", "--yes", "--json")
    verdict = valid_verdict(finished.stdout)
    assert verdict.due in (40, 0)
    assert verdict.answer in ("cannot tell", "invalid"), verdict.reasons
    assert finished.returncode == {"cannot tell": 3, "invalid": 4}[verdict.answer]
    assert verdict.search is None
    if verdict.answer == "cannot tell":
        assert [step.kind for step in verdict.steps][-1] == "full speed"
        assert verdict.reasons[0] == "at the detector's rate, 20 Hz: none of 40 frames was lost"
        assert any("long enough" in reason for reason in verdict.reasons)
        assert any("storage, not memory" in reason and "tmpfs" in reason for reason in verdict.reasons)


def test_verdict_of_a_detector_that_is_too_fast(run: RunCommand, tmp_path: Path) -> None:
    """Twenty thousand files a second, each forced to storage, with room for a hundredth of a second."""
    finished = run(
        "verdict", "custom", str(tmp_path), "--rows", "64", "--columns", "64", "--rate", "20000",
        "--seconds", "2", "--buffer-seconds", "0.01", "--quick", "--yes", "--json",
    )  # fmt: skip
    verdict = valid_verdict(finished.stdout)
    assert verdict.lost > 0 or verdict.answer == "invalid"
    assert verdict.answer != "yes"
    assert finished.returncode == {"no": 1, "cannot tell": 3, "invalid": 4}[verdict.answer]
    assert any("frames were lost" in reason for reason in verdict.reasons) or verdict.answer == "invalid"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_what_was_measured_and_nothing_else(
    number: signal.Signals, tmp_path: Path
) -> None:
    target, output, page = tmp_path / "target", tmp_path / "verdict.json", tmp_path / "verdict.html"
    target.mkdir()
    options = ("--seconds", "600", "--yes")
    files = ("--output", str(output), "--report", str(page))
    with start("verdict", "custom", str(target), *SMALL, *options, *files) as process:
        wait_for_files(process, target, "rate-")
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem == "it was interrupted", log
    assert verdict.answer != "yes"
    assert process.returncode in (1, 3, 4)
    assert [step.kind for step in verdict.steps] == ["rate"]
    assert 0 < verdict.due < 12_000 or verdict.answer == "invalid"
    assert "Incomplete" in page.read_text(encoding="utf-8")
    assert list(target.iterdir()) == []


def test_a_command_that_is_killed_leaves_the_document_of_the_steps_before(tmp_path: Path) -> None:
    target, output = tmp_path / "target", tmp_path / "verdict.json"
    target.mkdir()
    options = ("--seconds", "2", "--soak", "600", "--search-time", "0", "--yes", "--output", str(output))
    with start("verdict", "custom", str(target), *SMALL, *options) as process:
        wait_for_document(process, output)
        process.kill()
        process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem is not None
    assert "was still running" in verdict.problem
    assert verdict.steps[0].kind == "rate"


def test_a_target_that_vanishes_between_steps_costs_no_figures(tmp_path: Path) -> None:
    target, output = tmp_path / "target", tmp_path / "verdict.json"
    target.mkdir()
    options = ("--seconds", "2", "--soak", "600", "--search-time", "0", "--yes", "--output", str(output))
    with start("verdict", "custom", str(target), *SMALL, *options) as process:
        wait_for_document(process, output)
        while target.exists():  # the generator makes files meanwhile
            shutil.rmtree(target, ignore_errors=True)
        shown, log = process.communicate(timeout=120)
    assert "Traceback" not in log
    assert process.returncode in (3, 5)  # between two steps, or within one
    assert "INCOMPLETE" in shown
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem is not None
    assert verdict.answer != "yes"
    assert verdict.steps[0].kind == "rate"


def test_a_verdict_whose_document_cannot_be_written_is_shown(
    run: RunCommand, memory: Path, tmp_path: Path
) -> None:
    """Somebody takes the place of the document while it measures: it stays theirs."""
    output, page = tmp_path / "verdict.json", tmp_path / "page.html"
    options = ("--seconds", "2", "--quick", "--yes", "--output", str(output), "--report", str(page))
    with start("verdict", "custom", str(memory), *SMALL, *options) as process:
        wait_for_files(process, memory, "rate-")
        output.write_text("mine")
        shown, log = process.communicate(timeout=60)
    assert process.returncode in (2, 5), log
    assert "exists already" in log
    assert "Does it sustain the custom detector" in shown
    told = page.read_text(encoding="utf-8")
    assert "Does this storage sustain the custom detector" in told
    assert "Source: a verdict that was not saved" in told
    assert output.read_text() == "mine"
    assert list(memory.iterdir()) == []


def test_somebodys_file_in_the_folder_takes_nothing_from_the_answer(memory: Path, tmp_path: Path) -> None:
    output = tmp_path / "verdict.json"
    options = ("--seconds", "2", "--quick", "--yes", "--output", str(output))
    with start("verdict", "custom", str(memory), *SMALL, *options) as process:
        wait_for_files(process, memory, "rate-")
        (folder,) = memory.iterdir()
        (folder / "mine").write_text("mine")
        shown, log = process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert process.returncode == {"no": 1, "cannot tell": 3, "invalid": 4}[verdict.answer], log
    assert "does not belong to this run" in log
    assert "Checks of the last run (" in shown
    assert (folder / "mine").read_text() == "mine"


def test_a_run_beside_another_one_on_the_same_target_says_so(tmp_path: Path) -> None:
    options = ("--frame-size", "4KiB", "--rate", "20", "--yes", "--json")
    with start("bench", "frames", str(tmp_path), *options, "--seconds", "600") as first:
        wait_for_files(first, tmp_path)
        with start("bench", "frames", str(tmp_path), *options, "--seconds", "2") as second:
            text, log = second.communicate(timeout=60)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    assert "another run works in" in log
    checks = {check.name: check for check in Run.model_validate_json(text).checks}
    assert checks["storage used exclusively"].outcome == "warning"
    assert "penstock-bench-" in checks["storage used exclusively"].actual
    assert list(tmp_path.iterdir()) == []


def wait_for_document(process: "subprocess.Popen[str]", output: Path) -> None:
    """Until it has something in it: whoever makes it puts whole versions there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if output.exists() and output.stat().st_size > 0:
            return
        time.sleep(0.02)
    raise AssertionError(f"no document was written: {process.communicate(timeout=60)}")


def test_the_plan_shows_what_will_be_written_and_writes_nothing(run: RunCommand, tmp_path: Path) -> None:
    shown = run("verdict", "pilatus-6m", str(tmp_path), "--ratio", "80", "--seconds", "2", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    for words in ("a new directory in", "search", "1500 frames", "each writes at most"):
        assert words in shown.stderr
    # 2 s, 60 s, the search's 180 s, the unpaced run, and what is around each: more than 4 min.
    assert "about 5 min" in shown.stderr
    refused = run("verdict", "pilatus-6m", str(tmp_path), "--ratio", "80", "--seconds", "2")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_quick_plan_includes_what_is_around_the_runs(run: RunCommand, tmp_path: Path) -> None:
    shown = run("verdict", "pilatus-6m", str(tmp_path), "--ratio", "80", "--quick", "--dry-run")
    assert "about 48 s" in shown.stderr, "30 s and 10 s of frames, the ceiling, and a longer unpaced run"


def test_the_search_is_limited_by_the_space_that_there_is(run: RunCommand, tmp_path: Path) -> None:
    """Ten thousand times 100 MB/s, for ten seconds: nobody has ten petabytes free."""
    options = ("--rows", "1000", "--columns", "1000", "--rate", "50", "--search-max", "10000")
    shown = run("verdict", "custom", str(tmp_path), *options, "--seconds", "1", "--soak", "1", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "limited by the free space" in shown.stderr


@pytest.mark.parametrize("longest", ["--seconds", "--soak"])
def test_a_step_that_does_not_fit_is_refused_before_anything_is_written(
    longest: str, run: RunCommand, tmp_path: Path
) -> None:
    finished = run("verdict", "pilatus-6m", str(tmp_path), longest, "1000000", "--yes")
    assert finished.returncode == 5
    assert "free" in finished.stderr
    assert f"reduce {longest}" in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-detector", "."], ["no-such-detector"]),
        (["custom", ".", "--rows", "8", "--columns", "8"], ["rate", "--rate"]),
        (["pilatus-6m", ".", "--report", "mine.html"], ["mine.html", "exists already"]),
        (["pilatus-6m", ".", "--output", "mine.html"], ["mine.html", "exists already"]),
        (["pilatus-6m", ".", "--report", "absent/a.html"], ["absent/a.html", "does not exist"]),
        (["pilatus-6m", ".", "--report", "a.html", "--output", "a.html"], ["--report", "--output"]),
        (["pilatus-6m", ".", "--search-max", "1"], ["--search-max"]),
        (
            ["pilatus-6m", ".", "--rate", "1e6", "--soak", "2000000"],
            ["2000000000000 exceeds the maximum of 1000000000", "--rate"],
        ),
        (["pilatus-6m", "/proc/sys/kernel", "--yes"], ["into the target /proc/sys/kernel"]),
        (["pilatus-6m", "absent", "--yes"], ["absent", "does not exist"]),
        (["pilatus-6m", ".", "--seconds", "nan"], ["--seconds"]),
        (["pilatus-6m", ".", "--soak", "nan"], ["--soak"]),
        (["pilatus-6m", ".", "--late-after", "nan"], ["--late-after"]),
        (["pilatus-6m", ".", "--seconds", "inf"], ["finite"]),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], words: list[str], run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.html").write_text("mine")
    finished = run("verdict", *arguments)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"]
    assert (tmp_path / "mine.html").read_text() == "mine"
