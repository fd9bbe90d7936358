"""Runs a gate and prints a table of its results and durations.

`make test` runs the steps that protect users and every landing; `make test-all` (`--all`) runs everything.
Counts come from the JUnit files of ctest and pytest. build/test-results/<step>.log keeps a step's output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from results import table, total_of
from steps import RESULTS, ROOT, Command, Runner, Step

JOBS = int(os.environ.get("PENSTOCK_JOBS") or os.cpu_count() or 2)
# Tests wait for programs and for moments; those in Python for half of their time.
NATIVE_PROCESSES, PYTHON_PROCESSES = str(JOBS + 1), str(2 * JOBS)
FAILURES_SHOWN = 8

PYTHON = sys.executable
PYTHON_FOLDERS = ("python", "tests", "tools", "benchmarks", "docs", "requirements")
# A sanitizer's finding ends the test with a failure, whatever the code under test catches.
SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions='{ROOT}/tests/native/lsan.supp':print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions='{ROOT}/tests/native/tsan.supp'",
}
# Tests start hundreds of interpreters: these share their compiled modules, which stay out of the checkout.
COMPILED = {"PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
# Of the threaded folders: many tests of one thread, which the address sanitizer has seen.
NOT_ONE_THREAD = ("-E", "Scan[.]NamesWhatIsWrong")


def build(preset: str, *targets: str, mpi: str = "") -> Command:
    return Command(
        "build", ("scripts/build", preset, *targets), environment={"PENSTOCK_MPI": mpi} if mpi else {}
    )


def tests_of(folders: tuple[str, ...]) -> list[str]:
    return [f"test_{folder}" for folder in folders]


def names(folders: tuple[str, ...]) -> str:
    """A pattern of ctest for the tests of these folders of tests/native, and for those that are scripts."""
    return f"^({'|'.join(folders)})[.]|^client[.](abi|windows)$"


def ctest(preset: str, name: str, *options: str) -> Command:
    junit = RESULTS / f"{name}.xml"
    arguments = (
        "ctest",
        "--test-dir",
        f"build/{preset}",
        "-j",
        NATIVE_PROCESSES,
        "--output-on-failure",
        "--progress",
    )
    limits = ("--timeout", "300", "--no-tests=error", "--output-junit", str(junit))
    return Command("tests", (*arguments, *limits, *options), junit, SANITIZERS)


def pytest(*options: str) -> Command:
    junit = RESULTS / "python.xml"
    # A process that is done takes tests from another one, so that none works alone at the end.
    spread = ("-n", PYTHON_PROCESSES, "--dist", "worksteal", f"--junitxml={junit}")
    return Command("tests", (PYTHON, "-m", "pytest", "-q", *spread, *options), junit, COMPILED)


def fuzz(seconds_each: int) -> Command:
    """As many targets at a time as there are processors."""
    junit = RESULTS / "fuzz.xml"
    arguments = (PYTHON, "tools/run_fuzz.py", "--seconds", str(seconds_each), "--junit", str(junit))
    return Command("run", arguments, junit)


LINT = (
    Command("configure", ("scripts/build", "--configure-only", "tidy")),
    Command("format", ("scripts/format", "--check")),
    Command("tidy", (PYTHON, "tools/tidy.py")),
    Command("vale", ("scripts/setup-vale", "--if-possible")),
    Command("prose", (PYTHON, "tools/prose.py")),
    Command("ruff", (PYTHON, "-m", "ruff", "check", *PYTHON_FOLDERS)),
    Command("mypy", (PYTHON, "-m", "mypy")),
    Command("mypy tools", (PYTHON, "-m", "mypy", "tools"), environment={"MYPYPATH": "tools"}),
    Command("layers", (str(Path(PYTHON).parent / "lint-imports"),)),
    Command("headers", (PYTHON, "tools/check_headers.py")),
)
CLANG_TIDY = Command("clang-tidy", (PYTHON, "tools/run_clang_tidy.py"))
TORTURE = Command(
    "run",
    ("scripts/torture",),  # its arguments would leave out its native tests
    RESULTS / "torture.xml",
    {"PYTEST_ADDOPTS": f"--junitxml={RESULTS}/torture.xml"},
)
THREADED = ("base", "load", "store", "stream", "recorder")  # their tests run under the thread sanitizer
OPTIMISED = ("codec", "store")  # an optimising compiler may break these alone
GATE = {
    "python": Step((build("release", "programs"),), (pytest("tests/python", "tests/torture"),)),
    "asan": Step((build("debug", "native-tests", "fuzz-targets"),), (ctest("debug", "asan"),)),
    "tsan": Step(
        (build("tsan", *tests_of(THREADED)),),
        (ctest("tsan", "tsan", "-R", names(THREADED), *NOT_ONE_THREAD),),
    ),
    "release": Step(
        (build("release", *tests_of(OPTIMISED)),), (ctest("release", "release", "-R", names(OPTIMISED)),)
    ),
    "fuzz": Step((build("debug", "fuzz-targets"),), (fuzz(seconds_each=3),)),
    "lint": Step(LINT),
}
EVERYTHING = {
    "python": Step(
        (build("release", "programs", mpi="both"),), (pytest("tests/python", "-m", "long or not long"),)
    ),
    "asan": GATE["asan"],
    "tsan": Step((build("tsan", "native-tests"),), (ctest("tsan", "tsan"),)),
    "release": Step((build("release", "native-tests"),), (ctest("release", "release"),)),
    "fuzz": Step((build("debug", "fuzz-targets"),), (fuzz(seconds_each=60),)),
    "lint": Step((*LINT, CLANG_TIDY)),
    "torture": Step((), (TORTURE,)),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="run everything (make test-all)")
    parser.add_argument(
        "--only", action="append", choices=list(EVERYTHING), help="run this step only; repeatable"
    )
    options = parser.parse_args()
    gate = EVERYTHING if options.all else GATE
    steps = {name: step for name, step in gate.items() if not options.only or name in options.only}
    if not steps:
        parser.error(f"--only {options.only[0]} requires --all")
    runner = Runner(steps)

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    started = time.monotonic()
    runner.run()

    total = total_of(runner.outcomes.values())
    print(f"\n{table(runner.outcomes, time.monotonic() - started)}\n")
    for failure in total.failures[:FAILURES_SHOWN]:
        print(failure)
    failed = [name for name, outcome in runner.outcomes.items() if not outcome.ok]
    if failed:
        print("failed: " + ", ".join(f"{name} (build/test-results/{name}.log)" for name in failed))
    (RESULTS / "closing-line").write_text(f"{total}\n")
    print(total, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
