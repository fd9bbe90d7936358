"""The arrows between the layers of the package (pyproject.toml) hold."""

import ast
from pathlib import Path

from importlinter.cli import lint_imports

import penstock

ROOT = Path(__file__).resolve().parents[3]


def test_layers() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_every_module_belongs_to_a_layer() -> None:
    package = Path(penstock.__file__).parent
    layers = {"cli", "demo", "report", "bench", "lab", "programs", "files", "model"}
    assert {path.name for path in package.iterdir() if (path / "__init__.py").is_file()} == layers | {
        "client",  # stands alone, by a contract of its own
        "pva",  # a process of its own, by two
    }
    assert {path.stem for path in package.glob("*.py")} == {"__init__", "__main__"}


def test_commands_hold_no_logic_of_their_own() -> None:
    """Modules of cli read options and show results: no subprocess, no h5py, no arithmetic on arrays."""
    for path in (Path(penstock.__file__).parent / "cli").rglob("*.py"):
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & {"subprocess", "h5py", "numpy", "fabio", "matplotlib", "threading"}, path.name
