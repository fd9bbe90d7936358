"""The runner of the gates (tools/): what it counts, in which order it works, what it repeats, its budget."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
PROGRAM = """
import sys
from pathlib import Path
import steps
from results import table, total_of
from steps import Command, Runner, Step

steps.RESULTS = at = Path(sys.argv[1])
junit = at / "some.xml"
junit.write_text('''<testsuite><testcase name="a"/><testcase classname="m" name="b"><failure>x
E   wrong</failure></testcase><testcase name="c"><skipped/></testcase></testsuite>''')
def shell(what, line, junit=None):
    return Command(what, ("sh", "-c", f"cd {at} && {line}"), junit)
runner = Runner({
    "first": Step((shell("build", "echo built > first"),), (shell("tests", "cat first", junit),)),
    "broken": Step((shell("build", "echo why; exit 3"),), (shell("tests", "touch never"),)),
    "last": Step((shell("build", "touch last"),), (shell("tests", "ls last first"),)),
    "absent": Step((), (shell("tests", "true", at / "absent.xml"),)),
})
runner.run()
print(table(runner.outcomes, 1.0))
total = total_of(runner.outcomes.values())
print([case.name + "\\n" + case.reason for case in total.of("failed")])
print(total)
"""

REPEATING = """
import sys
from pathlib import Path
import steps
from results import total_of
from steps import Command, Runner, Step

steps.RESULTS = at = Path(sys.argv[1])
case = "<testcase classname='m' name='{}' time='20'>{}</testcase>"
failure = "<failure>E   {}</failure>"
def suite(*cases):
    return "<testsuite>" + "".join(cases) + "</testsuite>"
junit = at / "some.xml"
junit.write_text(suite(case.format("a", failure.format("once")), case.format("b", failure.format("always"))))
second = junit.with_suffix(".again")
second.write_text(suite(case.format("a", "").replace("20", "1"), case.format("b", failure.format("always"))))
def repeat_after(code):
    line = f"touch {at}/repeated; exit 1"
    command = Command("tests", ("sh", "-c", f"exit {code}"), junit, again=("sh", "-c", line))
    runner = Runner({"only": Step((), (command,))})
    runner.run()
    total = total_of(runner.outcomes.values())
    names = [case.name for case in total.flaky], [case.name for case in total.of("failed")]
    print(*names, (at / "repeated").exists(), [case.seconds for case in total.of("passed")])
repeat_after(code=2)
repeat_after(code=1)
"""
BUDGET = """
import budget
from results import Case
long = Case("tests.python.bench.test_x::test_long", "passed", 16.0, 3.0)
cases = [long, Case("store.Fits", "passed", 14.0)]
print(budget.over_limit(cases))
print(budget.by_directory(cases[:1], 0.0), budget.by_directory(cases[1:], 7.0))
"""
NO_LINTER = """
import sys
from pathlib import Path
import steps
from results import skips, total_of
from steps import Command, Runner, Step

steps.RESULTS = Path(sys.argv[1])
lint = (Command("prose", ("sh", "-c", "echo no linter; exit 77")), Command("ruff", ("true",)))
runner = Runner({"lint": Step(lint)})
runner.run()
print(skips(total_of(runner.outcomes.values()).of("skipped")))
print([str(each) for each in runner.outcomes.values()], [each.ok for each in runner.outcomes.values()])
"""
SKIPPED = """
import sys
from pathlib import Path
from results import cases_of, skips
junit = Path(sys.argv[1]) / "some.xml"
junit.write_text('''<testsuite><testcase name="native"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN ] a.b
a.cpp:3: Skipped
no holes here

[ SKIPPED ] a.b</system-out></testcase>
<testcase name="python"><skipped message="no kernel"/></testcase></testsuite>''')
print(skips(cases_of(junit)))
"""
NO_SKIPS = """
import sys
from pathlib import Path
from results import cases_of
junit = Path(sys.argv[1]) / "some.xml"
junit.write_text('''<testsuite><testcase classname="left" name="left" status="notrun">
<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>a.cpp:3: Skipped
==7==ERROR: LeakSanitizer: detected memory leaks
Direct leak of 8 bytes
</system-out></testcase>
<testcase classname="missing" name="missing  # GetParam() = 4-byte object &lt;60-7B&gt;" status="notrun">
<skipped message="Unable to find executable"/></testcase>
</testsuite>''')
for case in cases_of(junit):
    print(case.name, case.state, case.reason.splitlines()[0].strip())
"""
FLAKY = """
import flaky
gates = (["a"], ["b"], ["b", "c"], ["d"], [], list("wxyz"))
print([flaky.verdict(names) for names in gates])
"""

# No other run sees what is left: its memory is a directory of the test, and its number that of no process.
LEFT = """
import leftovers, subprocess, os, sys, time
from pathlib import Path
leftovers.MEMORY = Path(sys.argv[1], "memory")
pid = (1 << 22) + os.getpid()  # above every pid_max
at = Path(os.environ["TMPDIR"]).resolve() / f"pst-{pid}-{time.time_ns()}"
(at / "mounted").mkdir(parents=True)
if os.geteuid() == 0:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", at / "mounted"], check=True)
in_memory = leftovers.MEMORY / at.name
in_memory.mkdir(parents=True)
(in_memory / "segment").touch()
for each in (at, in_memory):
    (each / leftovers.MARK).touch()
left = subprocess.Popen(["sleep", "600"], env={**os.environ, leftovers.RUN: at.name})
while at.name.encode() not in Path(f"/proc/{left.pid}/environ").read_bytes():
    time.sleep(0.01)  # its program begins
with leftovers.run_directories() as own:
    leftovers.remove_leftovers()
    print(left.wait(timeout=60), at.exists(), in_memory.exists(), Path(own["TMPDIR"]).is_dir())
print(os.listdir(os.environ["TMPDIR"]), os.listdir(leftovers.MEMORY), (at / "mounted").is_mount())
"""
ELSEWHERE = """
import leftovers, sys, time
from pathlib import Path
leftovers.MEMORY = Path(sys.argv[1], "memory")
left = leftovers.MEMORY / f"pst-{1 << 22}-{time.time_ns()}"
left.mkdir(parents=True)
leftovers.remove_directories()
print(left.exists())
(left / leftovers.MARK).touch()
leftovers.remove_directories()
print(left.exists())
"""
OWN = """
import leftovers, os, sys
from pathlib import Path
with leftovers.run_directories() as own:
    memory = Path(own["PENSTOCK_TEST_MEMORY"])
    print(memory.parent, oct(memory.stat().st_mode & 0o7777))
    print(own["OMPI_MCA_btl_vader_backing_directory"] == str(memory))
    (memory / "segment").touch()
    (memory / "directory").mkdir()
print(memory.exists())
"""
OTHER = """
import leftovers, subprocess, sys
from pathlib import Path
look = "import leftovers; leftovers.remove_directories()"
with leftovers.run_directories() as own:
    subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", look], check=True)
    print(Path(own["TMPDIR"]).is_dir(), Path(own["PENSTOCK_TEST_MEMORY"]).is_dir())
"""
HELD = """
import sys
from pathlib import Path
import steps
from results import total_of
from steps import Command, Runner, Step

steps.RESULTS = Path(sys.argv[1])
line = "sleep 1000 & echo $! ; echo wrong; exit 3"
runner = Runner({"only": Step((Command("build", ("sh", "-c", line)),))})
runner.run()
print(total_of(runner.outcomes.values()).said)
"""
AWAITED = """
import sys
from pathlib import Path
import steps
from steps import Command, Runner, Step

steps.RESULTS = at = Path(sys.argv[1])
steps.PATIENCE_S = 0.1
begun = Command("wait", ("sh", "-c", f"until [ -e {at}/begun ]; do sleep 0.1; done"))
build = Command("build", ("sh", "-c", f"cd {at}; exec 2>/dev/null; chrt -p $$ | head -n 1; {sys.argv[2]}"))
runner = Runner({"first": Step((Command("nothing", ("true",)),), (begun,)), "awaited": Step((build,))})
runner.run()
print([ok for *_, ok in runner.outcomes["awaited"].parts])
print(*(line.split()[-1] for line in (at / "awaited.log").read_text().splitlines()))
"""
HANGING = """
import sys
from pathlib import Path
import steps
from steps import Command, Runner, Step

steps.RESULTS = Path(sys.argv[1])
steps.LIMIT_S = 1
Runner({"only": Step((), (Command("tests", ("sleep", "3000")),))}).run()
"""
INTERRUPTED = """
import os, signal, sys
from pathlib import Path
import steps
from steps import Command, Runner, Step

steps.RESULTS = Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)
line = f"sleep 1; kill -INT {os.getpid()}; exec sleep 3000"
try:
    Runner({"only": Step((), (Command("tests", ("sh", "-c", line)),))}).run()
except KeyboardInterrupt:
    print("interrupted")
"""

IN_BACKGROUND = """
import signal, sys
from pathlib import Path
import steps
from steps import Command, Runner, Step

steps.RESULTS = Path(sys.argv[1])
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
Runner({"only": Step((), (Command("tests", ("grep", "SigIgn", "/proc/self/status")),))}).run()
"""


def run(tmp_path: Path, program: str, *arguments: str, **environment: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *arguments],
        env=os.environ | {"PYTHONPATH": str(TOOLS)} | environment,
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return ended.stdout.splitlines()


def test_failed_test_is_repeated_and_reported_as_flaky_if_it_passes(tmp_path: Path) -> None:
    printed = run(tmp_path, REPEATING)
    assert printed[-1] == "['m::a'] ['m::b'] True [1.0]"
    assert "[] ['m::a', 'm::b'] False []" in printed, "the command ended before all tests had run"


def test_skipped_tests_say_why(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPPED)[-1] == "['    1 skipped: no holes here', '    1 skipped: no kernel']"


def test_linter_that_is_not_installed_is_among_the_skips(tmp_path: Path) -> None:
    printed = run(tmp_path, NO_LINTER)
    assert printed[-2] == "['    1 skipped: no linter']"
    assert printed[-1] == "['0 passed, 0 failed, 1 skipped'] [True]"


def test_sanitizer_finding_and_missing_program_are_no_skips(tmp_path: Path) -> None:
    assert run(tmp_path, NO_SKIPS) == [
        "left failed ==7==ERROR: LeakSanitizer: detected memory leaks",
        "missing failed Unable to find executable",
    ]


def test_test_above_three_times_the_limit_is_reported(tmp_path: Path) -> None:
    limit = run(tmp_path, BUDGET, PENSTOCK_TEST_SLOWNESS="")
    assert "test_long took 16.0 s of at most 15 s" in limit[0]
    assert "Fits" not in limit[0]
    assert limit[1] == "['     3.0 processor-s bench'] ['     7.0 processor-s store']"
    assert run(tmp_path, BUDGET, PENSTOCK_TEST_SLOWNESS="2")[0] == "[]"


def test_many_flaky_tests_and_the_same_ones_again_fail_the_gate(tmp_path: Path) -> None:
    verdicts = run(tmp_path, FLAKY, XDG_CACHE_HOME=str(tmp_path))[-1]
    same = "flaky in the gate before, too: b: find the cause"
    assert verdicts == repr(["", "", same, "", "", "4 flaky tests exceed the maximum of 3"])
    assert json.loads((tmp_path / "penstock" / "flaky-tests.json").read_text()) == list("wxyz")


# A program that was started cleans up after the command has ended, as ninja does after cmake.
CLEANS = (
    "case $(chrt -p $$) in *IDLE*)"
    " (trap 'sleep 1; touch cleaned; exit' TERM; touch begun; sleep 600 & wait) & exec sleep 600;; "
    "esac; ls cleaned"
)
ENDS_WELL = "trap 'echo whole; exit 0' TERM; touch begun; sleep 600 & wait"
FAILS = "[ -e begun ] && exit 3; touch begun; exec sleep 600"


@pytest.mark.parametrize(
    ("line", "ok", "printed"),
    [
        (CLEANS, True, "SCHED_IDLE SCHED_OTHER cleaned"),
        (ENDS_WELL, True, "SCHED_IDLE whole"),
        (FAILS, False, "SCHED_IDLE SCHED_OTHER"),
    ],
    ids=["cleans", "ends well", "fails"],
)
def test_build_that_the_tests_wait_for_is_started_again_at_normal_priority(
    tmp_path: Path, line: str, ok: bool, printed: str
) -> None:
    assert run(tmp_path, AWAITED, line)[-2:] == [str([ok]), printed]


@pytest.mark.parametrize(("slowness", "limit_s"), [("", "1"), ("2", "2")])
def test_command_that_hangs_is_killed_later_on_a_slow_machine(
    tmp_path: Path, slowness: str, limit_s: str
) -> None:
    printed = run(tmp_path, HANGING, PENSTOCK_TEST_SLOWNESS=slowness)[-1]
    assert printed == f"run_tests: only: tests failed (killed after {limit_s} s): sleep 3000"


def test_interrupted_runner_ends_at_once(tmp_path: Path) -> None:
    assert run(tmp_path, INTERRUPTED)[-1] == "interrupted"


def test_tests_heed_signals_though_the_runner_was_started_in_the_background(tmp_path: Path) -> None:
    ignored = int(run(tmp_path, IN_BACKGROUND)[-1].split()[-1], 16)
    assert not ignored & (1 << signal.SIGINT - 1 | 1 << signal.SIGHUP - 1)


@pytest.mark.parametrize("name", ["plain", "with blank", "link"])
def test_what_a_killed_run_left_is_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "with blank").mkdir()
    (tmp_path / "link").symlink_to("plain")
    assert run(tmp_path, LEFT, TMPDIR=str(tmp_path / name))[-2:] == ["-9 False False True", "[] [] False"]


def test_run_that_was_killed_with_another_tmpdir_leaves_nothing_in_memory(tmp_path: Path) -> None:
    before, *_, after = run(tmp_path, ELSEWHERE)
    assert (before, after) == ("True", "False"), "first it has no mark, and is not the runner's"


def test_run_has_a_directory_in_memory_that_ranks_of_all_users_can_use(tmp_path: Path) -> None:
    assert run(tmp_path, OWN, TMPDIR=str(tmp_path))[-3:] == ["/dev/shm 0o1777", "True", "False"]


def test_run_in_another_namespace_keeps_its_directories(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False).returncode != 0:
        pytest.skip("requires the right to make a namespace of processes")
    assert run(tmp_path, OTHER, TMPDIR=str(tmp_path))[-1] == "True True"


def test_build_ends_though_a_program_that_it_started_holds_its_output(tmp_path: Path) -> None:
    printed = run(tmp_path, HELD)
    started = printed[printed.index("wrong") - 1]
    os.kill(int(started), signal.SIGKILL)
    assert printed[-1] == repr([f"only: build failed\n    {started}\n    wrong"])


SLOWNESS, JOBS = "PENSTOCK_TEST_SLOWNESS", "PENSTOCK_JOBS"
COUNT = "it has to be a whole number of at least 1"
USAGE = "usage: scripts/build [--configure-only] PRESET [target …]"
PRESETS = "it has release, debug, fuzz, tsan, tidy"


@pytest.mark.parametrize(
    ("name", "value"), [(SLOWNESS, "nan"), (SLOWNESS, "x"), (JOBS, "0"), (JOBS, "1.5"), (JOBS, " 4")]
)
def test_wrong_value_is_refused_before_anything_runs(name: str, value: str) -> None:
    wanted = COUNT if name == JOBS else "it has to be a positive number"
    ended = run_tests("--only", "lint", **{name: value})
    assert (ended.returncode, ended.stderr) == (1, f"{name} is '{value}'; {wanted}\n")


@pytest.mark.parametrize(
    ("command", "name", "value", "said"),
    [
        (
            ("build", "release"),
            JOBS,
            "two",
            "PENSTOCK_JOBS is 'two'; it has to be a whole number of at least 1",
        ),
        (
            ("build", "release"),
            "PENSTOCK_MPI",
            "openmpi",
            "PENSTOCK_MPI is 'openmpi'; it has to be one or both",
        ),
        (("build",), JOBS, "1", USAGE),
        (("build", "--configure-only"), JOBS, "1", USAGE),
        (("build", "nosuch"), JOBS, "1", f"CMakePresets.json has no preset nosuch; {PRESETS}"),
        (("build", "rel.ase"), JOBS, "1", f"CMakePresets.json has no preset rel.ase; {PRESETS}"),
        (("build", "base"), JOBS, "1", f"CMakePresets.json has no preset base; {PRESETS}"),
        (
            ("torture",),
            "TORTURE_ROUNDS",
            "0",
            "TORTURE_ROUNDS is '0'; it has to be a whole number of at least 1",
        ),
        (
            ("torture",),
            "TORTURE_SEED",
            "x",
            "TORTURE_SEED is 'x'; it has to be a whole number of at least 1",
        ),
    ],
)
def test_script_refuses_a_wrong_value_by_name(
    command: tuple[str, ...], name: str, value: str, said: str
) -> None:
    script = TOOLS.parent / "scripts" / command[0]
    ended = subprocess.run(
        [script, *command[1:]], env=os.environ | {name: value}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (2, f"scripts/{command[0]}: {said}\n")
    assert not any((TOOLS.parent / "build" / name).exists() for name in ("nosuch", "rel.ase", "base"))


CMAKE = """#!/bin/sh
if [ "$1" = --list-presets ]; then echo '  "release"'; else echo "$@" >>"$(dirname "$0")/calls"; fi
"""


@pytest.mark.parametrize(
    ("kept", "given", "configured"),
    [
        ("openmpi", "", "--preset release -DPENSTOCK_MPI=one"),
        ("both", "one", "--preset release -DPENSTOCK_MPI=one"),
        ("both", "", None),
    ],
)
def test_build_directory_does_not_keep_an_mpi_that_cmake_refuses(
    tmp_path: Path, kept: str, given: str, configured: str | None
) -> None:
    """A program in the place of CMake notes what it is called with."""
    build = tmp_path / "build" / "release"
    for folder in (tmp_path / "scripts", tmp_path / "native", build):
        folder.mkdir(parents=True)
    shutil.copy(TOOLS.parent / "scripts" / "build", tmp_path / "scripts")
    cmake = tmp_path / "cmake"
    cmake.write_text(CMAKE, encoding="utf-8")
    cmake.chmod(0o755)
    (build / "CMakeCache.txt").write_text(
        f"CMAKE_HOME_DIRECTORY:INTERNAL={tmp_path}\nPENSTOCK_MPI:STRING={kept}\n", encoding="utf-8"
    )
    (build / "build.ninja").touch()
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PENSTOCK_MPI": given, JOBS: "1"}
    subprocess.run([tmp_path / "scripts" / "build", "release"], env=environment, check=True)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls == [*([configured] if configured else []), "--build build/release -j 1"]


def test_step_that_the_gate_does_not_have_is_refused() -> None:
    ended = run_tests("--only", "python", "--only", "tsan")
    assert ended.returncode == 2
    assert "--only tsan requires --all" in ended.stderr


def run_tests(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "run_tests.py"), *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_steps_are_run_counted_and_reported(tmp_path: Path) -> None:
    lines = run(tmp_path, PROGRAM)
    # The step without results and the build that failed count as one failure each.
    assert lines[-1] == "1 passed, 3 failed, 1 skipped"
    assert lines[-2] == repr(["m::b\n    E   wrong"])
    assert "== last: build (beside the tests)" in lines
    assert any("broken: build failed (exit code 3)" in line for line in lines)
    assert "why" in lines
    assert not (tmp_path / "never").exists(), "tests of what was not built"
    assert (tmp_path / "first.log").read_text() == "built\n"
    rows = [line.split() for line in lines if line.startswith(("first ", "broken ", "last ", "absent "))]
    parts = [row[:2] + row[-1:] for row in rows if row[1] in ("build", "tests")]
    assert parts == [
        ["first", "build", "ok"],
        ["first", "tests", "ok"],
        ["broken", "build", "FAILED"],
        ["last", "build", "ok"],
        ["last", "tests", "ok"],
        ["absent", "tests", "ok"],
    ]
