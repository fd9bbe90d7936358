"""`penstock verdict` as a user runs it."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from conftest import Run as RunCommand
from jsonschema import Draft202012Validator
from test_bench import wait_for_files
from warm_command import popen

from penstock.model.bench.runs import Run, Verdict
from penstock.programs.locate import find_program

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "verdict.schema.json"
SMALL = ("--rows", "64", "--columns", "64", "--rate", "20")
CODES = {"yes": 0, "likely yes": 0, "no": 1, "likely no": 1, "cannot tell": 3, "invalid": 4}
# No figure of such short runs is worth anything; what is made of them is the same.
SHORT = ("--seconds", "2", "--search-time", "25", "--search-max", "2", "--soak", "2")


def valid_verdict(text: str) -> Verdict:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return Verdict.model_validate_json(text)


@pytest.mark.slow
def test_all_steps_of_a_small_detector_on_memory(run: RunCommand, memory: Path, tmp_path: Path) -> None:
    """A sixth of a megabyte a second: any storage takes that, and the runs are too short to be a yes."""
    output = tmp_path / "verdict.json"
    finished = run("verdict", "custom", str(memory), *SMALL, *SHORT, "--yes", "--output", str(output))
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert list(memory.iterdir()) == []
    assert list(tmp_path.iterdir()) == [output]
    assert finished.returncode == CODES[verdict.answer], finished.stderr
    assert verdict.answer not in ("yes", "likely yes"), "it is memory"
    assert verdict.needed_bytes_per_s == 64 * 64 * 2 * 20
    assert verdict.problem is None
    kinds = [step.kind for step in verdict.steps]
    assert kinds[0] in ("probe", "full speed")
    for shown in ("storage  ", "tmpfs on", "search  ", "soak  ", "takes  "):
        assert shown in finished.stderr
    if verdict.answer == "invalid":  # this machine was too busy for it
        return
    assert {"full speed", "rate", "search", "soak"} <= set(kinds)
    assert verdict.search is not None
    assert verdict.search.top_hz == 40
    assert finished.stdout.startswith("Does it sustain the ")
    assert finished.stdout.index("equivalent detectors") < finished.stdout.index("Why:")
    prefixes = [step.run.document.plan.prefix for step in verdict.steps]
    assert len(set(prefixes)) == len(prefixes), "files of two steps could be mistaken"


@pytest.mark.slow
def test_a_quick_verdict_has_two_runs(run: RunCommand, memory: Path) -> None:
    finished = run("verdict", "custom", str(memory), *SMALL, "--seconds", "2", "--quick", "--yes", "--json")
    verdict = valid_verdict(finished.stdout)
    assert verdict.due in (40, 80, 0)
    assert finished.returncode == CODES[verdict.answer]
    assert verdict.search is None
    assert [step.kind for step in verdict.steps][-1] == "rate"
    if verdict.steps[-1].outcome == "held":
        assert verdict.answer == "cannot tell"
        assert "none of 40 frames was lost" in verdict.reasons[0]
        assert any("storage, not memory" in reason and "tmpfs" in reason for reason in verdict.reasons)
        assert any("long enough" in note for note in verdict.notes)


@pytest.mark.slow
def test_verdict_of_a_detector_that_is_too_fast(run: RunCommand, tmp_path: Path) -> None:
    """Twenty thousand files a second, each forced to storage, with room for a hundredth of a second."""
    finished = run(
        "verdict", "custom", str(tmp_path), "--rows", "64", "--columns", "64", "--rate", "20000",
        "--seconds", "2", "--buffer-seconds", "0.01", "--quick", "--yes", "--json",
    )  # fmt: skip
    verdict = valid_verdict(finished.stdout)
    assert verdict.lost > 0
    assert verdict.answer in ("no", "likely no", "cannot tell")
    assert finished.returncode == CODES[verdict.answer]
    assert any("frames were lost" in reason for reason in verdict.reasons)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_what_was_measured_and_nothing_else(
    number: signal.Signals, tmp_path: Path, memory: Path
) -> None:
    target, output, page = memory, tmp_path / "verdict.json", tmp_path / "verdict.html"
    options = ("--seconds", "8", "--yes")
    files = ("--output", str(output), "--report", str(page))
    with popen("verdict", "custom", str(target), *SMALL, *options, *files) as process:
        wait_for_files(process, target, "rate-")
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem == "it was interrupted", log
    assert verdict.answer not in ("yes", "no")
    assert process.returncode == (CODES[verdict.answer] if verdict.answer == "likely no" else 5)
    assert [step.kind for step in verdict.steps][-1] == "rate"
    assert 0 < verdict.due < 160 or verdict.steps[-1].outcome == "invalid"
    assert "Incomplete" in page.read_text(encoding="utf-8")
    assert list(target.iterdir()) == []


def filled(pipe: int) -> None:
    """A description of its own: that of the command stays one that blocks."""
    end = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(end, bytes(size))
    os.close(end)


def wait_until_blocked(process: subprocess.Popen[str]) -> None:
    """Until it has slept for a second, and not for a child: one that starts has not."""
    found, deadline = psutil.Process(process.pid), time.monotonic() + 60
    asleep_since = time.monotonic()
    while time.monotonic() < asleep_since + 1:
        assert time.monotonic() < deadline
        if found.status() != psutil.STATUS_SLEEPING or found.children():
            asleep_since = time.monotonic()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["from the start", "while it measures", "at the end"])
def test_a_signal_is_heard_though_nobody_reads_the_output(when: str, tmp_path: Path, memory: Path) -> None:
    """As of `penstock verdict 2>&1 | sleep 1000`: the pipe is full. A disk may be long at removing files."""
    target, output = memory, tmp_path / "verdict.json"
    reading, writing = os.pipe()
    if when == "from the start":
        filled(writing)
    seconds = "1" if when == "at the end" else "8"
    options = ("--quick", "--seconds", seconds, "--yes", "--output", str(output))
    process = popen("verdict", "custom", str(target), *SMALL, *options, stdout=writing, stderr=writing)
    try:
        if when == "from the start":
            wait_until_blocked(process)
        else:
            wait_for_files(process, target, "rate-")
            filled(writing)
            time.sleep(5)  # its first line of progress comes after 2 s
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        code = process.wait(20)
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)
    assert list(target.iterdir()) == []
    if when == "from the start":
        assert (code, output.exists()) == (5, False)
        return
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.steps[-1].kind == "rate"
    if when == "at the end" and verdict.problem is None:  # it came to its answer, and could not print that
        assert code == 5
        return
    assert verdict.problem == "it was interrupted"
    assert code == (1 if verdict.answer in ("no", "likely no") else 5)


def test_a_command_that_is_killed_leaves_the_document_of_the_steps_before(tmp_path: Path) -> None:
    target, output = tmp_path / "target", tmp_path / "verdict.json"
    target.mkdir()
    options = ("--seconds", "2", "--soak", "600", "--search-time", "0", "--yes", "--output", str(output))
    with popen("verdict", "custom", str(target), *SMALL, *options) as process:
        wait_for_document(process, output)
        process.kill()
        process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem is not None
    assert "was still running" in verdict.problem
    assert verdict.steps[0].kind in ("probe", "full speed")


def test_a_target_that_vanishes_between_steps_costs_no_figures(tmp_path: Path) -> None:
    target, output = tmp_path / "target", tmp_path / "verdict.json"
    target.mkdir()
    options = ("--seconds", "2", "--soak", "600", "--search-time", "0", "--yes", "--output", str(output))
    with popen("verdict", "custom", str(target), *SMALL, *options) as process:
        wait_for_document(process, output)
        while target.exists():  # the generator makes files meanwhile
            shutil.rmtree(target, ignore_errors=True)
        shown, log = process.communicate(timeout=120)
    assert "Traceback" not in log
    assert process.returncode == 5
    assert "INCOMPLETE" in shown
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert verdict.problem is not None
    assert verdict.answer != "yes"
    assert verdict.steps[0].kind in ("probe", "full speed")


def test_a_verdict_whose_document_cannot_be_written_is_shown(
    run: RunCommand, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the place of the document while it measures: it stays theirs."""
    output, page = tmp_path / "verdict.json", tmp_path / "page.html"
    generator = tmp_path / "bin" / "penstock-load"
    generator.parent.mkdir()
    first = f"[ -e '{output}' ] || printf mine >'{output}'"
    generator.write_text(f'#!/bin/sh\n{first}\nexec {find_program(generator.name)} "$@"\n')
    generator.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(generator.parent))
    options = ("--seconds", "2", "--quick", "--yes", "--output", str(output), "--report", str(page))
    finished = run("verdict", "custom", str(memory), *SMALL, *options)
    log, shown = finished.stderr, finished.stdout
    assert finished.returncode in (2, 5), log
    assert "exists already" in log
    assert "Does it sustain the custom detector" in shown
    told = page.read_text(encoding="utf-8")
    assert "Does this storage sustain the custom detector" in told
    assert "Source: a verdict that was not saved" in told
    assert output.read_text() == "mine"
    assert list(memory.iterdir()) == []


@pytest.mark.slow
def test_somebodys_file_in_the_folder_takes_nothing_from_the_answer(memory: Path, tmp_path: Path) -> None:
    output = tmp_path / "verdict.json"
    options = ("--seconds", "2", "--quick", "--yes", "--output", str(output))
    with popen("verdict", "custom", str(memory), *SMALL, *options) as process:
        wait_for_files(process, memory, "rate-")
        (folder,) = memory.iterdir()
        (folder / "mine").write_text("mine")
        shown, log = process.communicate(timeout=60)
    verdict = valid_verdict(output.read_text(encoding="utf-8"))
    assert process.returncode == CODES[verdict.answer], log
    assert "does not belong to this run" in log
    assert "Does it sustain" in shown
    assert (folder / "mine").read_text() == "mine"


@pytest.mark.slow
def test_a_run_beside_another_one_on_the_same_target_says_so(tmp_path: Path) -> None:
    options = ("--frame-size", "4KiB", "--rate", "20", "--yes", "--json")
    with popen("bench", "frames", str(tmp_path), *options, "--seconds", "600") as first:
        wait_for_files(first, tmp_path)
        with popen("bench", "frames", str(tmp_path), *options, "--seconds", "2") as second:
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
    for words in ("a new directory in", "search", "1500 frames", "each takes at most"):
        assert words in shown.stdout
    assert not any(line.endswith(" ") for line in shown.stdout.splitlines()), "lines are padded"
    # 2 s, 60 s, the search's 120 s, the unpaced runs, and what is around each.
    assert "about 4 min" in shown.stdout
    refused = run("verdict", "pilatus-6m", str(tmp_path), "--ratio", "80", "--seconds", "2")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_plan_of_a_detector_that_compresses_names_its_typical_ratio(
    run: RunCommand, tmp_path: Path
) -> None:
    shown = run("verdict", "eiger2-16m", str(tmp_path), "--space", "2GB", "--quick", "--dry-run")
    plan = " ".join(shown.stdout.split())
    assert "4.7 GB/s are needed without compression" in plan
    assert "typical ratio (--ratio 7) it needs 672 MB/s" in plan
    for options in (("--ratio", "1"), ("--format", "cbf")):
        stated = run("verdict", "eiger2-16m", str(tmp_path), "--space", "2GB", "--dry-run", *options)
        assert "typical ratio" not in " ".join(stated.stdout.split())


def test_a_quick_plan_includes_what_is_around_the_runs(run: RunCommand, tmp_path: Path) -> None:
    shown = run("verdict", "pilatus-6m", str(tmp_path), "--ratio", "80", "--quick", "--dry-run")
    assert "about 49 s" in shown.stdout, "30 s of frames, the ceiling, and the unpaced runs"


def test_the_plan_has_what_is_written_in_all_beside_what_is_there_at_once(
    run: RunCommand, tmp_path: Path
) -> None:
    options = ("--rows", "1000", "--columns", "1000", "--rate", "50", "--space", "100MB", "--soak", "60")
    shown = run("verdict", "custom", str(tmp_path), *options, "--search-time", "30", "--dry-run")
    plan = " ".join(shown.stdout.split())
    assert "files take at most 96.1 MB" in plan
    # 90 s at 100 MB/s; 30 s of search, and 8 s unpaced after preliminary runs.
    assert "writes in all 9 GB at the detector's rate" in plan
    assert "in about 49 s: 49 GB at 1 GB/s" in plan
    assert "at most 30 s and 3 steps of 10 s" in plan


def test_any_duration_fits_into_the_space(run: RunCommand, tmp_path: Path) -> None:
    """Ten thousand times 100 MB/s, and a soak of ten days."""
    options = ("--rows", "1000", "--columns", "1000", "--rate", "50", "--search-max", "10000")
    long = ("--soak", "864000", "--space", "100MB")
    shown = run("verdict", "custom", str(tmp_path), *options, *long, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "of which the newest stay" in shown.stdout
    assert "100 MB" in shown.stdout


def test_space_that_is_not_there_or_too_small_is_refused_before_anything_is_written(
    run: RunCommand, tmp_path: Path
) -> None:
    finished = run("verdict", "pilatus-6m", str(tmp_path), "--soak", "1e6", "--space", "1PB", "--yes")
    assert finished.returncode == 5
    assert "free" in finished.stderr
    assert "what to do: use --space " in finished.stderr
    small = run("verdict", "pilatus-6m", str(tmp_path), "--space", "10MB", "--yes")
    assert small.returncode == 2
    assert "use at least --space" in small.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_lacks_space_is_refused_by_the_plan(run: RunCommand, tmp_path: Path) -> None:
    """Ten thousand times 100 MB/s for 10 s; the other steps take 200 MB."""
    options = ("--rows", "1000", "--columns", "1000", "--rate", "50", "--search-max", "10000")
    short = ("--seconds", "2", "--soak", "2", "--space", "1PB")
    refused = run("verdict", "custom", str(tmp_path), *options, *short, "--dry-run")
    assert refused.returncode == 5
    assert "the search writes" in refused.stderr
    assert re.search(r"what to do: use --space [0-9.]+[kMGT]B, reduce --search-max, or", refused.stderr)


def test_the_plan_of_a_target_in_memory_has_the_answer(run: RunCommand, memory: Path) -> None:
    shown = run("verdict", "custom", str(memory), *SMALL, *SHORT, "--dry-run")
    plan = " ".join(shown.stdout.split())
    assert '"cannot tell" at best: tmpfs keeps files in memory' in plan
    assert "name a directory on the storage to measure" in plan


@pytest.mark.slow
def test_a_ring_keeps_within_its_space(run: RunCommand, tmp_path: Path) -> None:
    """40 MB in 4 MB, with a file a frame and with a file a writer."""
    target = tmp_path / "target"
    target.mkdir()
    for layout in ("file_a_frame", "file_a_writer"):
        output = tmp_path / f"{layout}.json"  # nobody reads its output while the sizes are looked at
        options = ("--rows", "128", "--columns", "128", "--rate", "400", "--seconds", "3", "--quick")
        with popen(
            "verdict", "custom", str(target), *options, "--space", "4MB", "--layout", layout,
            "--writers", "2", "--yes", "--output", str(output),
        ) as process:  # fmt: skip
            most = 0
            while process.poll() is None:
                listed = list(
                    target.rglob("*.bin")
                )  # those of them that are there afterwards were all there now
                most = max(most, sum(size_of(path) for path in listed))
                time.sleep(0.02)
            _, log = process.communicate(timeout=60)
        verdict = valid_verdict(output.read_text(encoding="utf-8"))
        assert verdict.steps[-1].run.frames is not None, log
        assert verdict.steps[-1].run.frames.due >= 1200
        assert 0 < most <= 4_000_000
        assert list(target.iterdir()) == []


def size_of(path: Path) -> int:
    """0 of one that is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


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
        (["pilatus-6m", "/proc/sys/kernel", "--yes"], ["write into /proc/sys/kernel"]),
        (["pilatus-6m", "absent", "--yes"], ["absent", "does not exist"]),
        (["pilatus-6m", ".", "--seconds", "nan"], ["--seconds"]),
        (["pilatus-6m", ".", "--soak", "nan"], ["--soak"]),
        (["pilatus-6m", ".", "--soak", "5", "--minutes", "1"], ["--minutes 1", "--soak 5"]),
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
