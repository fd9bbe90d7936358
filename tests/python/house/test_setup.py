"""What `scripts/setup` installs into a clone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each makes virtual environments
SETUP = Path(__file__).resolve().parents[3] / "scripts" / "setup"

WITHOUT_THIS_CHECKOUT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def clone(folder: Path, cache: Path, lock: str = "", *options: str) -> subprocess.CompletedProcess[str]:
    """Sets a checkout up that needs no package but those of every virtual environment."""
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "requirements").mkdir(exist_ok=True)
    (folder / "python").mkdir(exist_ok=True)
    shutil.copy(SETUP, folder / "scripts")
    (folder / "requirements" / "all.lock").write_text(f"# no package {lock}\n")
    environment = WITHOUT_THIS_CHECKOUT | {"XDG_CACHE_HOME": str(cache), "PENSTOCK_SKIP_APT": "1"}
    return subprocess.run(
        [folder / "scripts" / "setup", *options], env=environment, capture_output=True, text=True, check=True
    )


def output(checkout: Path, name: str, *words: str) -> str:
    command = [str(checkout / ".venv" / "bin" / name), *words]
    return subprocess.check_output(command, env=WITHOUT_THIS_CHECKOUT, text=True)


def test_second_clone_takes_a_copy_that_is_its_own(tmp_path: Path) -> None:
    first, second, cache = tmp_path / "first", tmp_path / "second", tmp_path / "cache"
    clone(first, cache)
    (kept,) = (cache / "penstock" / "venv").iterdir()
    (kept / ".venv" / "is-a-copy").touch()
    clone(second, cache)
    assert (second / ".venv" / "is-a-copy").exists()
    shutil.rmtree(first)
    program = "import sys; print(sys.prefix, [path for path in sys.path if path.endswith('/python')])"
    assert output(second, "python", "-c", program) == f"{second / '.venv'} ['{second / 'python'}']\n"
    assert str(second) in output(second, "pip", "--version")
    assert clone(second, cache).stderr == "", "it is set up"


def test_damaged_copy_is_made_anew(tmp_path: Path) -> None:
    clone(tmp_path / "first", tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "penstock" / "venv").iterdir()
    shutil.rmtree(kept / ".venv" / "lib")
    assert "cannot be used" in clone(tmp_path / "second", tmp_path / "cache").stderr
    assert (kept / ".venv" / "lib").is_dir()


def test_copy_has_the_peers_that_were_installed_later(tmp_path: Path) -> None:
    first, second, cache = tmp_path / "first", tmp_path / "second", tmp_path / "cache"
    clone(first, cache)
    program = first / ".venv" / "peers" / "some" / "bin" / "program"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{program.parent}/python\n")
    clone(first, cache, "", "--keep")
    clone(second, cache)
    moved = second / program.relative_to(first)
    assert moved.read_text() == f"#!{moved.parent}/python\n"
