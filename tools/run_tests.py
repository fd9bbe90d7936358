"""Runs a gate and prints a table of its results and durations.

`make test` runs the steps that protect users and every landing; `make test-all` (`--all`) runs everything.
Counts come from the JUnit files of ctest and pytest. build/test-results/<step>.log keeps a step's output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import budget
import flaky
import leftovers
from results import Outcome, skips, table, total_of
from steps import RESULTS, ROOT, Command, Runner, Step

# Tests wait for programs and for moments. Builds use what they leave of the processors.
PROCESSES = str(budget.jobs() + 2)
SPACE_BYTES = 15 << 30  # of which 5 are builds and packages; below that, tests of storage may find none
FAILURES_SHOWN = 30

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
# NumPy starts no threads in them, which would only wait in a loop.
INTERPRETERS = {
    "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONUNBUFFERED": "",  # which few users set
    "PYTEST_ADDOPTS": "",  # which may leave out tests
    "OPENBLAS_NUM_THREADS": "1",
}
# A fresh clone checks only what differs from the one before: mypy compares texts, not their age.
CHECKED = {"MYPY_CACHE_DIR": str(flaky.cache_folder() / "mypy")}


def build(preset: str, *targets: str, mpi: str = "") -> Command:
    return Command(
        "build", ("scripts/build", preset, *targets), environment={"PENSTOCK_MPI": mpi} if mpi else {}
    )


def ctest(preset: str, name: str, *options: str) -> Command:
    junit = RESULTS / f"{name}.xml"
    arguments = (
        "ctest",
        "--test-dir",
        f"build/{preset}",
        "-j",
        PROCESSES,
        "--output-on-failure",
        "--progress",
    )
    limit = ("--timeout", "300")
    first = (*arguments, *limit, "--no-tests=error", "--output-junit", str(junit), *options)
    again = (
        *arguments[:3],
        *limit,
        "--rerun-failed",
        "--output-on-failure",
        "--output-junit",
        str(junit.with_suffix(".again")),
    )
    return Command("tests", first, junit, SANITIZERS, again, tests_failed=8)


def pytest(*options: str) -> Command:
    junit = RESULTS / "python.xml"
    # A process that is done takes tests from another one, so that none works alone at the end.
    spread = ("-n", PROCESSES, "--dist", "worksteal", f"--junitxml={junit}")
    command = (PYTHON, "-m", "pytest", "-q")
    again = (*command, "--last-failed", f"--junitxml={junit.with_suffix('.again')}", *options)
    return Command("tests", (*command, *spread, *options), junit, INTERPRETERS, again)


def compiled(*folders: str) -> Command:
    return Command("compile", (PYTHON, "tools/compile_tests.py", *folders), None, INTERPRETERS)


def fuzz(seconds_each: int) -> Command:
    """As many targets at a time as there are processors."""
    junit = RESULTS / "fuzz.xml"
    arguments = (PYTHON, "tools/run_fuzz.py", "--seconds", str(seconds_each), "--junit", str(junit))
    return Command("run", arguments, junit)


LINT = (
    Command("configure", ("scripts/build", "--configure-only", "tidy")),
    Command("format", ("scripts/format", "--check")),
    Command("tidy", (PYTHON, "tools/tidy.py")),
    Command("ruff", (PYTHON, "-m", "ruff", "check", *PYTHON_FOLDERS)),
    Command("mypy", (PYTHON, "-m", "mypy"), environment=CHECKED),
    Command("mypy tools", (PYTHON, "-m", "mypy", "tools"), environment={**CHECKED, "MYPYPATH": "tools"}),
    Command("layers", (str(Path(PYTHON).parent / "lint-imports"),)),
)
VALE = Command("vale", ("scripts/setup-vale",))
# Without vale the Python tests of it are skipped.
VALE_IF_POSSIBLE = Command("vale", ("scripts/setup-vale", "--if-possible"))
LINT_ALL = (
    *LINT,
    VALE,
    Command("prose", (PYTHON, "tools/prose.py")),
    Command("alone", (PYTHON, "tools/check_alone.py")),
    Command("clang-tidy", (PYTHON, "tools/run_clang_tidy.py")),
)
TORTURE_SHORT = {"TORTURE_ROUNDS": "20", "TORTURE_SECONDS": "60"}  # `make torture` has ten times as many
TORTURE = Command(
    "run",
    ("scripts/torture",),  # its arguments would leave out its native tests
    RESULTS / "torture.xml",
    {name: os.environ.get(name, value) for name, value in TORTURE_SHORT.items()}
    | {"PYTEST_ADDOPTS": f"--junitxml={RESULTS}/torture.xml"},
)
PYTHON_TESTS = ("tests/python", "tests/torture")
GATE = {
    "python": Step(
        (build("release", "programs", "benchmarks"), compiled(*PYTHON_TESTS)),
        (pytest(*PYTHON_TESTS),),
    ),
    "asan": Step((build("debug", "native-tests"),), (ctest("debug", "asan", "-LE", "slow"),)),
    "lint": Step(LINT),
}
EVERYTHING = {
    "python": Step(
        (VALE_IF_POSSIBLE, build("release", "programs", "benchmarks", mpi="both")),
        (pytest("tests/python", "-m", "slow or not slow"),),
    ),
    "asan": Step((build("debug", "native-tests"),), (ctest("debug", "asan"),)),
    "tsan": Step((build("tsan", "native-tests"),), (ctest("tsan", "tsan"),)),
    "release": Step((build("release", "native-tests"),), (ctest("release", "release"),)),
    "fuzz": Step((build("fuzz", "fuzz-targets"),), (fuzz(seconds_each=60),)),
    "torture": Step((), (TORTURE,)),  # beside it, the longest checks of lint
    "lint": Step(LINT_ALL),
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
    if absent := [name for name in options.only or () if name not in gate]:
        parser.error(f"--only {absent[0]} requires --all")
    steps = {name: step for name, step in gate.items() if not options.only or name in options.only}
    budget.slowness()  # refused now, not after an hour of tests
    runner = Runner(steps)

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    if (free := shutil.disk_usage(ROOT).free) < SPACE_BYTES:
        print(f"warning: {free / 1e9:.0f} GB are free; tests may need {SPACE_BYTES / 1e9:.0f} GB", flush=True)
    started = time.monotonic()
    leftovers.remove_leftovers()
    with leftovers.run_directories() as environment:
        os.environ.update(environment)
        try:
            runner.run()
        except KeyboardInterrupt:
            print("\nrun_tests: interrupted; removing what the tests left", file=sys.stderr)
            raise

    print(f"\n{table(runner.outcomes, time.monotonic() - started)}\n")
    total = total_of(runner.outcomes.values())
    problems = []
    if not options.only:
        problems += [why] if (why := flaky.verdict(case.name for case in total.flaky)) else []
    if not options.only and not options.all:
        problems += over_budget(runner.outcomes)
    total.broken += len(problems)
    report(total, problems)
    failed = [name for name, outcome in runner.outcomes.items() if not outcome.ok]
    if failed:
        print("failed: " + ", ".join(f"{name} (build/test-results/{name}.log)" for name in failed))
        commands = [command.again for name in failed for command in steps[name].tests if command.again]
        print(*(f"again: {by_hand(each)}" for each in commands), sep="\n")
    (RESULTS / "closing-line").write_text(f"{total}\n")
    print(total, flush=True)
    return 1 if total.failed else 0


def by_hand(command: tuple[str, ...]) -> str:
    """The command as a person would type it: without the files that only the runner reads."""
    return " ".join(part for part in command if "junit" not in part and not part.endswith(".again"))


def over_budget(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Prints where the time went. Returns tests above their limit."""
    cases = total_of(outcomes.values()).cases
    print("Slowest tests:", *budget.slowest(cases), sep="\n")
    for name, outcome in outcomes.items():
        if outcome.cases:
            processor_s = sum(used_s for what, _, used_s, _ in outcome.parts if what.startswith("tests"))
            print(f"{name}, by directory:", *budget.by_directory(outcome.cases, processor_s), sep="\n")
    return budget.over_limit(cases)


def report(total: Outcome, problems: list[str]) -> None:
    """Prints skipped, flaky and failed tests with reasons, the most important last."""
    print("", *skips(total.of("skipped")), sep="\n")
    for case in total.flaky:
        print(f"flaky: {case.name} failed, then passed alone:\n{case.reason}")
    for case in total.of("failed")[:FAILURES_SHOWN]:
        print(f"{case.name}\n{case.reason}")
    print(*total.said, *problems, sep="\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP: leave it so
            signal.signal(number, signal.default_int_handler)  # ends what it started, as Ctrl-C does
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
