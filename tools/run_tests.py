"""Runs the whole test suite, step after step, and tells at the end what each step found and took.

A step that fails does not keep the later ones from running. Results are read from the JUnit files
that ctest and pytest write, never from their texts. What each step printed stays in
build/test-results/<step>.log. `--only STEP` (repeatable) runs some of the steps.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"
JOBS = str(os.environ.get("PENSTOCK_JOBS") or os.cpu_count() or 2)
# Tests wait now and then, for programs and for moments; those in Python for half of their time.
PROCESSES, PYTHON_PROCESSES = str(int(JOBS) + 1), str(2 * int(JOBS))
FUZZ_SECONDS_EACH = "5"
# A command of a step that takes longer hangs: it is ended, and the next step runs.
LIMIT_S = 1800
# Tests of one thread, which the address sanitizer has seen; and of threads one form for many.
ONE_THREAD = (
    "FlippedBit|ExtensibleArray|SparseIndex|Ratio[.]|Feed[.]Headroom|Simulation[.]|Scan[.]NamesWhatIsWrong"
    "|InFlight[.].*/(3|12)$"
)

# A sanitizer's finding must end the test with a failure, whatever the code under test catches.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions='{ROOT}/tests/native/lsan.supp':print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions='{ROOT}/tests/native/tsan.supp'",
}


# Of the failures that are told again at the very end.
FAILURES_SHOWN, FAILURE_LINES = 8, 8


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)  # the test's name, and the end of what it said

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


@dataclass
class Outcome:
    """What one step did: its commands in order with their time, and the tests that they counted."""

    step: str
    timings: list[tuple[str, float, bool]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def ok(self) -> bool:
        return self.counts.failed == 0 and all(ok for _, _, ok in self.timings)


def read_junit(path: Path) -> Counts:
    """Sums the test cases of a JUnit file; a missing or broken file counts as one failure."""
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError) as problem:
        print(f"run_tests: no results in {path}: {problem}", file=sys.stderr)
        return Counts(failed=1)
    counts = Counts()
    for case in tree.iter("testcase"):
        kinds = {child.tag for child in case}
        status = case.get("status", "run")
        if "failure" in kinds or "error" in kinds or status == "fail":
            counts.failed += 1
            counts.failures.append(failure_of(case))
        elif "skipped" in kinds or status in ("notrun", "disabled"):
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def failure_of(case: ElementTree.Element) -> str:
    """The test's name, and the lines that tell best what it found: E lines of pytest, else the last."""
    said = "\n".join(child.text or "" for child in case if child.tag in ("failure", "error", "system-out"))
    lines = [line for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("E ")] or lines[-FAILURE_LINES:]
    names = dict.fromkeys((case.get("classname", ""), case.get("name", "")))  # of ctest's they are the same
    name = "::".join(names)
    return "\n".join([name, *(f"    {line[:200]}" for line in told[:FAILURE_LINES])])


def end_group(process: subprocess.Popen[bytes], why: str) -> None:
    """Ends a command and what it started."""
    print(f"run_tests: {why}", flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Runner:
    """Runs the commands of one step, with their output on the terminal and in the step's log."""

    def __init__(self, step: str) -> None:
        self.outcome = Outcome(step)
        self.log = RESULTS / f"{step}.log"
        self.log.write_bytes(b"")

    def run(self, what: str, *command: str, environment: dict[str, str] | None = None) -> bool:
        print(f"\n== {self.outcome.step}: {what}", flush=True)
        started = time.monotonic()
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # whatever it starts can be ended with it
            )
            assert process.stdout is not None
            limit = threading.Timer(LIMIT_S, end_group, (process, f"hung: ended after {LIMIT_S} s"))
            limit.start()
            try:
                while piece := os.read(process.stdout.fileno(), 1 << 16):
                    log.write(piece)
                    log.flush()
                    sys.stdout.buffer.write(piece)
                    sys.stdout.buffer.flush()
            except KeyboardInterrupt:
                end_group(process, "interrupted")
                raise
            finally:
                limit.cancel()
        ok = process.wait() == 0
        self.outcome.timings.append((what, time.monotonic() - started, ok))
        if not ok:
            print(f"run_tests: {self.outcome.step}: {what} failed: {' '.join(command)}", flush=True)
        return ok

    def fail_without_tests(self) -> None:
        """A failure that no test case stands for (a build, a linter) counts as one."""
        if self.outcome.counts.failed == 0 and not self.outcome.ok:
            self.outcome.counts.failed = 1


def native_step(preset: str) -> Callable[[Runner], None]:
    def step(runner: Runner) -> None:
        # Benchmarks are built by `make bench`.
        targets = ["programs", "native-tests"] if preset == "release" else ["native-tests"]
        if not runner.run("build", "scripts/build", preset, *targets):
            return
        junit = RESULTS / f"{preset}.xml"
        left_out = ("--exclude-regex", ONE_THREAD) if preset == "tsan" else ()
        # fmt: off
        runner.run(
            "tests", "ctest", "--test-dir", f"build/{preset}", "-j", PROCESSES, "--output-on-failure",
            "--progress", "--timeout", "300", "--no-tests=error", "--output-junit", str(junit), *left_out,
            environment=SANITIZER_OPTIONS,
        )
        # fmt: on
        runner.outcome.counts += read_junit(junit)

    return step


def python_step(runner: Runner) -> None:
    if not runner.run("build", "scripts/build", "release", "programs"):
        return
    junit = RESULTS / "python.xml"
    folders = [str(folder) for folder in ("tests/python", "tests/torture") if (ROOT / folder).is_dir()]
    # Fixtures belong to a file.
    runner.run(
        "tests",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        PYTHON_PROCESSES,
        "--dist",
        "loadfile",
        f"--junitxml={junit}",
        *folders,
    )
    runner.outcome.counts += read_junit(junit)


def fuzz_step(runner: Runner) -> None:
    if not runner.run("build", "scripts/build", "fuzz", "fuzz-targets"):
        return
    junit = RESULTS / "fuzz.xml"
    # fmt: off
    runner.run(
        "run", sys.executable, "tools/run_fuzz.py", "--seconds", FUZZ_SECONDS_EACH, "--junit", str(junit),
    )
    # fmt: on
    runner.outcome.counts += read_junit(junit)


def lint_step(runner: Runner) -> None:
    folders = ("python", "tests", "tools", "benchmarks", "docs", "requirements")
    python_folders = [name for name in folders if (ROOT / name).is_dir()]
    runner.run("configure", "scripts/build", "--configure-only", "tidy")
    runner.run("format", "scripts/format", "--check")
    runner.run("tidy", sys.executable, "tools/tidy.py")
    runner.run("ruff", sys.executable, "-m", "ruff", "check", *python_folders)
    runner.run("mypy", sys.executable, "-m", "mypy")
    runner.run("mypy tools", sys.executable, "-m", "mypy", "tools", environment={"MYPYPATH": "tools"})
    runner.run("layers", str(Path(sys.executable).parent / "lint-imports"))
    runner.run("headers", sys.executable, "tools/check_headers.py")
    runner.run("clang-tidy", sys.executable, "tools/run_clang_tidy.py")


STEPS: dict[str, Callable[[Runner], None]] = {
    "release": native_step("release"),
    "python": python_step,
    "lint": lint_step,
    "debug": native_step("debug"),
    "tsan": native_step("tsan"),
    "fuzz": fuzz_step,
}


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'step':<10} {'part':<12} {'seconds':>8}  result"]
    total = 0.0
    for outcome in outcomes:
        for what, seconds, ok in outcome.timings:
            total += seconds
            lines.append(f"{outcome.step:<10} {what:<12} {seconds:>8.1f}  {'ok' if ok else 'FAILED'}")
        lines.append(f"{outcome.step:<10} {'':<12} {'':>8}  {outcome.counts}")
    lines.append(f"{'all':<10} {'':<12} {total:>8.1f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=sorted(STEPS), help="run this step only; repeatable"
    )
    chosen = parser.parse_args().only or list(STEPS)

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    outcomes = []
    for name in chosen:
        runner = Runner(name)
        STEPS[name](runner)
        runner.fail_without_tests()
        outcomes.append(runner.outcome)

    counts = sum((outcome.counts for outcome in outcomes), Counts())
    print(f"\n{table(outcomes)}\n")
    failed = [outcome.step for outcome in outcomes if not outcome.ok]
    for failure in counts.failures[:FAILURES_SHOWN]:
        print(failure)
    if failed:
        print("failed: " + ", ".join(f"{step} (build/test-results/{step}.log)" for step in failed))
    (RESULTS / "closing-line").write_text(f"{counts}\n")
    print(counts, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
