"""Runs the whole test suite, step after step, and tells at the end what each step found and took.

Tests wait now and then, for programs and for moments. What needs nothing but the processors - the
sanitizers' builds and lint - runs beside them in that time, in one row, and gives way at once to
whatever else is ready to run. A step that fails does not keep the later ones from running. Results
are read from the JUnit files that ctest and pytest write, never from their texts. What each step
printed stays in build/test-results/<step>.log. `--only STEP` (repeatable) runs some of the steps.
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


@dataclass(frozen=True)
class Timing:
    """Of one command of a step."""

    what: str
    seconds: float
    processor_seconds: float  # of all that it started and waited for
    ok: bool


@dataclass
class Outcome:
    """What one step did: its commands in order with their time, and the tests that they counted."""

    step: str
    timings: list[Timing] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def ok(self) -> bool:
        return self.counts.failed == 0 and all(timing.ok for timing in self.timings)


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


# Ahead of a command that runs beside the tests. It is scheduled when nothing else is, also where the
# kernel shares the processors between sessions first.
GIVING_WAY = ("sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 "$@"', "sh")


def end_group(process: subprocess.Popen[bytes], why: str) -> None:
    """Ends a command and what it started."""
    print(f"run_tests: {why}", flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def show(printed: bytes) -> None:
    sys.stdout.buffer.write(printed)
    sys.stdout.buffer.flush()


class Runner:
    """Runs the commands of one step, with their output in the step's log and on the terminal: of one
    that runs beside the tests only when it failed, at its end."""

    def __init__(self, step: str) -> None:
        self.outcome = Outcome(step)
        self.log = RESULTS / f"{step}.log"
        self.log.write_bytes(b"")
        self.beside = False
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted = False

    def run(self, what: str, *command: str, environment: dict[str, str] | None = None) -> bool:
        if self._interrupted:
            return False
        print(f"\n== {self.outcome.step}: {what}{' (beside the tests)' if self.beside else ''}", flush=True)
        started = time.monotonic()
        process = subprocess.Popen(
            (*GIVING_WAY, *command) if self.beside else command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # whatever it starts can be ended with it
        )
        self._process = process
        if self._interrupted:  # between the look above and now
            self.interrupt()
        # What gives way to others takes longer.
        limit_s = 2 * LIMIT_S if self.beside else LIMIT_S
        limit = threading.Timer(limit_s, end_group, (process, f"hung: ended after {limit_s} s"))
        limit.start()
        try:
            printed = self._follow(process)
        except KeyboardInterrupt:
            self.interrupt()
            raise
        finally:
            limit.cancel()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ok = process.returncode == 0
        self._process = None
        took = time.monotonic() - started
        self.outcome.timings.append(Timing(what, took, used.ru_utime + used.ru_stime, ok))
        if not ok:
            show(printed)
            print(f"run_tests: {self.outcome.step}: {what} failed: {' '.join(command)}", flush=True)
        return ok

    def interrupt(self) -> None:
        """What runs is ended, and nothing more is begun."""
        self._interrupted = True
        if self._process is not None:
            end_group(self._process, "interrupted")

    def _follow(self, process: subprocess.Popen[bytes]) -> bytes:
        """Passes on what the command prints, until its end; returns what is still to be shown of it."""
        assert process.stdout is not None
        kept = []
        with self.log.open("ab") as log:
            while piece := os.read(process.stdout.fileno(), 1 << 16):
                log.write(piece)
                log.flush()
                if self.beside:
                    kept.append(piece)
                else:
                    show(piece)
        return b"".join(kept)

    def fail_without_tests(self) -> None:
        """A failure that no test case stands for (a build, a linter) counts as one."""
        if self.outcome.counts.failed == 0 and not self.outcome.ok:
            self.outcome.counts.failed = 1


def build(preset: str, *targets: str) -> Callable[[Runner], None]:
    def step(runner: Runner) -> None:
        runner.run("build", "scripts/build", preset, *targets)

    return step


def native_tests(preset: str) -> Callable[[Runner], None]:
    def step(runner: Runner) -> None:
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


def python_tests(runner: Runner) -> None:
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


def fuzz_run(runner: Runner) -> None:
    junit = RESULTS / "fuzz.xml"
    # fmt: off
    runner.run(
        "run", sys.executable, "tools/run_fuzz.py", "--seconds", FUZZ_SECONDS_EACH, "--junit", str(junit),
    )
    # fmt: on
    runner.outcome.counts += read_junit(junit)


def lint(runner: Runner) -> None:
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


@dataclass(frozen=True)
class Step:
    build: Callable[[Runner], None]
    tests: Callable[[Runner], None] | None = None
    beside: bool = True
    """Whether its build runs beside the tests of the steps before it."""


# Benchmarks are built by `make bench`.
STEPS = {
    "release": Step(build("release", "programs", "native-tests"), native_tests("release"), beside=False),
    "python": Step(build("release", "programs"), python_tests, beside=False),
    "debug": Step(build("debug", "native-tests", "fuzz-targets"), native_tests("debug")),
    "tsan": Step(build("tsan", "native-tests"), native_tests("tsan")),
    "fuzz": Step(build("debug", "fuzz-targets"), fuzz_run),
    "lint": Step(lint),
}


class Row:
    """The builds that run beside the tests, one after the other, in a thread of their own."""

    def __init__(self, runners: dict[str, Runner]) -> None:
        self._runners = runners
        self._done = {name: threading.Event() for name in runners}
        self._interrupted = False

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, name: str) -> None:
        self._done[name].wait()

    def interrupt(self) -> None:
        self._interrupted = True
        for runner in self._runners.values():
            runner.interrupt()

    def _run(self) -> None:
        for name, runner in self._runners.items():
            if self._interrupted:
                return
            runner.beside = True
            try:
                STEPS[name].build(runner)
            except Exception as problem:  # no room for the log, no process to be had
                print(f"run_tests: {name}: {problem!r}", flush=True)
                runner.outcome.timings.append(Timing("build", 0.0, 0.0, ok=False))
            finally:
                runner.beside = False
                self._done[name].set()


def run_steps(chosen: list[str]) -> list[Outcome]:
    runners = {name: Runner(name) for name in STEPS if name in chosen}
    # A step that is alone has nothing to give way to.
    beside = {name: runner for name, runner in runners.items() if STEPS[name].beside and len(runners) > 1}
    row = Row(beside)
    try:
        row.start()
        for name, runner in runners.items():
            if name in beside:
                row.wait(name)
            else:
                STEPS[name].build(runner)
            tests = STEPS[name].tests
            if tests is not None and runner.outcome.ok:
                tests(runner)
            runner.fail_without_tests()
    except KeyboardInterrupt:
        row.interrupt()
        raise
    return [runner.outcome for runner in runners.values()]


def table(outcomes: list[Outcome], total: float) -> str:
    lines = [f"{'step':<10} {'part':<12} {'seconds':>8} {'processor':>9}  result"]
    for outcome in outcomes:
        for part in outcome.timings:
            times = f"{part.seconds:>8.1f} {part.processor_seconds:>9.1f}"
            lines.append(f"{outcome.step:<10} {part.what:<12} {times}  {'ok' if part.ok else 'FAILED'}")
        lines.append(f"{outcome.step:<10} {'':<12} {'':>18}  {outcome.counts}")
    all_parts = sum(part.processor_seconds for outcome in outcomes for part in outcome.timings)
    lines.append(f"{'all':<10} {'':<12} {total:>8.1f} {all_parts:>9.1f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=sorted(STEPS), help="run this step only; repeatable"
    )
    chosen = parser.parse_args().only or list(STEPS)

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    started = time.monotonic()
    outcomes = run_steps(chosen)

    counts = sum((outcome.counts for outcome in outcomes), Counts())
    print(f"\n{table(outcomes, time.monotonic() - started)}\n")
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
