"""The prose linter: what it reads of a program, and which sentences it rejects."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SKIPPED = 77
VALE = ROOT / ".venv" / "bin" / "vale"


def load() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))  # for its own imports
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = load()


def test_strings_of_python_are_read_without_docstrings() -> None:
    source = '"""Not this one."""\nraise E(f"{name}: file {path} is"\n  " missing")\nhelp="Read it"\n'
    assert sorted(prose.python_texts(source)) == [(2, "{}: file {} is missing"), (4, "Read it")]


def test_strings_of_native_programs_are_read_without_comments() -> None:
    source = '// a "comment"\n#include "a.hpp"\nfail(\'"\', "one "\n     "two\\n");\nR"(raw "text")"\n'
    assert list(prose.native_texts(source)) == [(3, "one two "), (5, 'raw "text"')]


def test_missing_vale_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "VALE", tmp_path / "vale")
    assert prose.main() == SKIPPED


NO_PROXY = "the Go module proxy cannot be reached"
# What go says with a network, and without one.
FILTERED = ("reading module: 403 Forbidden", "module lookup disabled by GOPROXY=off")
CHANGED = ("verifying module: checksum mismatch", "module lookup disabled by GOPROXY=off")
NOT_COMPILED = ("core/timeout.go:7: undefined: x", "core/timeout.go:7: undefined: x")


@pytest.mark.parametrize(
    ("step", "go_says", "code", "printed"),
    [
        ("build", None, SKIPPED, "Go is missing"),
        ("build", FILTERED, SKIPPED, NO_PROXY),
        ("build", CHANGED, 1, "checksum mismatch"),
        ("build", NOT_COMPILED, 1, "undefined: x"),
        ("mod", FILTERED, SKIPPED, NO_PROXY),
        ("mod", CHANGED, 1, "checksum mismatch"),
    ],
)
def test_set_up_distinguishes_what_is_not_here_from_an_error(
    step: str, go_says: tuple[str, str] | None, code: int, printed: str, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    for folder in (programs, tmp_path / "scripts", tmp_path / ".venv" / "bin"):
        folder.mkdir(parents=True)
    for name in ("bash", "cat", "cut", "dirname", "head", "sed", "sha256sum", "sort"):
        (programs / name).symlink_to(str(shutil.which(name)))
    if go_says is not None:
        go = programs / "go"
        version = "go1.99" if step == "build" else "go1.2"
        with_network, without = go_says
        go.write_text(
            f'''#!/bin/sh
if [ "$1" = {step} ] || [ "$3" = {step} ]; then
  [ "$GOPROXY" = off ] && echo "{without}" || echo "{with_network}"
  exit 1
fi >&2
echo {version} {version} {version}
'''
        )
        go.chmod(0o755)
    shutil.copy(ROOT / "scripts" / "setup-vale", tmp_path / "scripts")
    shutil.copytree(ROOT / "tools" / "vale", tmp_path / "tools" / "vale")
    done = subprocess.run(
        [str(tmp_path / "scripts" / "setup-vale")],
        env={**os.environ, "PATH": str(programs)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert printed in done.stderr.splitlines()[-1]


REJECTED = (
    "Close a series when its end was not told.",
    "Make so many frames instead.",
    "The tree is no directory.",
    "Problems amiss: none.",
    "The ledger counts frames.",
    "The file is made anew.",
    "The storage carries 2 GB/s.",
    "The storage is measured as fast as it goes.",
    "Whoever measures it waits.",
    "It fails. What is missing is lost.",
)
ACCEPTED = (
    "Close a series after this many seconds without a frame, even if no end message arrived.",
    "The tree is not a directory, and is no longer one.",
    "The frame ledger is a dataset with one row per frame.",
    "`told` is a name, and names are not prose.",
    "# What is in a file",
    "What is in a file? Frames.",
    "The storage sustains 2 GB/s, measured at maximum rate.",
)


@pytest.mark.slow  # vale takes a minute and a half to build
@pytest.mark.skipif(not VALE.exists(), reason="vale is not built; run scripts/setup-vale")
@pytest.mark.parametrize(("sentences", "rejected"), [(REJECTED, True), (ACCEPTED, False)])
def test_rules_reject_and_accept(sentences: tuple[str, ...], rejected: bool, tmp_path: Path) -> None:
    for number, sentence in enumerate(sentences):
        page = tmp_path / f"{number}.md"
        page.write_text(f"{sentence}\n", encoding="utf-8")
        command = [str(VALE), "--no-global", f"--config={ROOT / '.vale.ini'}", str(page)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == int(rejected), f"{sentence}\n{checked.stdout}{checked.stderr}"


@pytest.mark.slow  # vale takes a minute and a half to build
@pytest.mark.skipif(not VALE.exists(), reason="vale is not built; run scripts/setup-vale")
def test_finding_in_a_program_names_file_and_line() -> None:
    source = ROOT / "build" / "prose-test.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text('x = 1\n\nerror = "this file is no image"\n', encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "prose.py"), str(source)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 1
    assert checked.stdout.startswith("build/prose-test.py:3:")
    assert "'is no …'" in checked.stdout
