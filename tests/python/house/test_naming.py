"""Files get their names without taking anybody's place, also where there are no hard links."""

import subprocess
import sys
from pathlib import Path

import pytest
import without_calls

SUPPORT = Path(__file__).resolve().parents[1] / "support"
GIVE = (
    "import sys; from pathlib import Path; from penstock.files.naming import give_name;"
    " give_name(*map(Path, sys.argv[1:]))"
)
pytestmark = pytest.mark.skipif(not without_calls.is_possible(), reason="the calls' numbers are x86_64's")


def without(calls: str, *command: str) -> "subprocess.CompletedProcess[str]":
    prefix = [sys.executable, str(SUPPORT / "without_calls.py"), calls] if calls else []
    return subprocess.run(
        [*prefix, sys.executable, *command], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("calls", ["", "link", "link,renameat2"])
def test_a_name_that_is_taken_stays(calls: str, tmp_path: Path) -> None:
    new, path = tmp_path / ".new", tmp_path / "name"
    new.write_text("whole")
    done = without(calls, "-c", GIVE, str(new), str(path))
    assert done.returncode == 0, done.stderr
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"name": "whole"}
    new.write_text("another")
    refused = without(calls, "-c", GIVE, str(new), str(path))
    assert "FileExistsError" in refused.stderr
    assert (path.read_text(), new.read_text()) == ("whole", "another")
    path.unlink()
    path.symlink_to("nowhere")
    assert "FileExistsError" in without(calls, "-c", GIVE, str(new), str(path)).stderr
    assert path.is_symlink()


def test_the_filter_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    link = f"import os; os.chdir({str(tmp_path)!r}); os.link('a', 'b')"
    assert "PermissionError" in without("link", "-c", link).stderr


def test_commands_write_where_there_are_no_links(tmp_path: Path) -> None:
    """An empty file keeps the place for a moment only; nothing else stays."""
    document = (
        "import sys; from pathlib import Path; from penstock.files.growing_document import GrowingDocument\n"
        "with GrowingDocument.create(Path(sys.argv[1]), 'one') as document: document.write('two')"
    )
    for calls in ("link", "link,renameat2"):
        path = tmp_path / calls
        done = without(calls, "-c", document, str(path))
        assert done.returncode == 0, done.stderr
        assert path.read_text() == "two\n"
    assert len(list(tmp_path.iterdir())) == 2
