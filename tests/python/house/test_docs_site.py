"""The documentation site builds, leads nowhere wrong, and loads nothing from the network."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load()
# What a browser loads by itself; links that a reader may follow (<a href>) are not among them.
LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^\s>]*"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^\s>]*"""
    r"""|url\(["']?(?:https?:)?//[^)]*|@import\s+["'](?:https?:)?//[^"']*"""
)


@pytest.mark.slow
def test_site_builds_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 100
    found = [f"{path.name}: {load}" for path in files for load in LOADS.findall(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("markdown", "page", "expected"),
    [
        ("[a](../reference/tcp.md#hello)", "how-to/a.md", "[a](../reference/tcp.md#hello)"),
        ("[a](../CHANGELOG.md)", "README.md", "[a](CHANGELOG.md)"),
        ("[a](../../CHANGELOG.md)", "reference/a.md", "[a](../CHANGELOG.md)"),
        ("[a](docs/reference/tcp.md)", "CONTRIBUTING.md", "[a](reference/tcp.md)"),
        ("[the model](../python/a.py)", "a.md", "the model (`python/a.py`)"),
        ("[a](https://example.org/a)", "a.md", "[a](https://example.org/a)"),
        ("![a](a.png)", "a.md", "![a](a.png)"),
    ],
)
def test_links_that_leave_docs_are_those_of_the_site(markdown: str, page: str, expected: str) -> None:
    assert hooks.with_links_of_the_site(markdown, page) == expected


def test_bars_in_code_of_tables_have_no_backslash() -> None:
    assert hooks.without_escaped_bars("| `a\\|b` | c\\|d |\n`a\\|b`") == "| `a|b` | c\\|d |\n`a\\|b`"
