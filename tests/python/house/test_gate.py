"""The runner of the gates (tools/steps.py): what it counts, and in which order it works."""

import os
import subprocess
import sys
from pathlib import Path

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
print(total.failures)
print(total)
"""


def test_steps_are_run_counted_and_reported(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(TOOLS)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    lines = ended.stdout.splitlines()
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
