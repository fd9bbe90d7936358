"""tools/run_clang_tidy.py: whose a finding in several sources together is."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
# A finding of the program in place of clang-tidy: its text, and the sources that it takes to be found.
PROGRAM = """
import sys
from pathlib import Path
import run_clang_tidy as tool
from native_sources import Unit

FOUND = {
    "own": ("/b.cpp:1: error: own", "b"),
    "both": ("/b.cpp:1: error: together", "ab"),
    "header": ("/h.hpp:1: error: header", "c"),
    "compile": ("/a.cpp:1: error: twice [clang-diagnostic-error]", "ac"),
}
tool.TOGETHER = Path(sys.argv[1])
kinds = sys.argv[2].split("+")

def clang_tidy(unit, checks):
    letters = {source.stem for source in unit.sources}
    return "".join(text + "\\n" for text, needed in map(FOUND.get, kinds) if set(needed) <= letters)

tool.clang_tidy = clang_tidy
parts = [Unit(Path(f"/{each}.cpp"), [Path(f"/{each}.cpp")], []) for each in "abcd"]
print(repr(tool.findings_together(parts, [])))
"""


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ("own", "/b.cpp:1: error: own\n"),
        ("both", ""),
        ("header", "/h.hpp:1: error: header\n"),
        ("compile", ""),
        # What is nobody's does not hide what is somebody's.
        ("both+header", "/h.hpp:1: error: header\n"),
        ("compile+own", "/b.cpp:1: error: own\n"),
    ],
)
def test_finding_is_known_if_one_of_the_sources_has_it(kinds: str, found: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), kinds],
        env={"PYTHONPATH": str(TOOLS)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == repr(found)
