"""Checks the prose of docs, help texts and error messages with vale: python tools/prose.py [PATH…]

Without a path: all that PATHS names. The rules are in .vale/styles. Texts in programs are copied into
build/prose first, each into the line of its source, so that the line of a finding is that of the source.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from results import SKIPPED

ROOT = Path(__file__).resolve().parent.parent
PATHS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "blocks",
    "campaigns",
    "detectors",
    "docs",
    "python/penstock",
    "native",
)
VALE = ROOT / ".venv" / "bin" / "vale"
COPIES = ROOT / "build" / "prose"

SENTENCE = re.compile(r"[A-Za-z]+ [a-z]+ [a-z]+")  # three words; anything shorter is a name or a key
# Comments and characters are matched so that quotes in them begin no string.
NATIVE_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|^[ ]*\#[^\n]*"""
    r"""|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|(?P<texts>"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*)""",
    re.DOTALL | re.MULTILINE,
)


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is not a docstring; {} stands for what an f-string inserts."""
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring, or that of a field
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.lineno, node.value


def native_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string literal; literals that follow each other are one text."""
    for match in NATIVE_TOKEN.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match["raw"] is not None:
            yield line, match["raw"]
        elif match["texts"] is not None:
            literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', match["texts"])
            yield line, "".join(literals).replace('\\"', '"').replace("\\n", " ")


def copy_texts(source: Path, copy: Path) -> None:
    text = source.read_text(encoding="utf-8")
    found = python_texts(text) if source.suffix == ".py" else native_texts(text)
    lines = [""] * (text.count("\n") + 1)
    for number, sentence in found:
        if SENTENCE.search(sentence):
            lines[number - 1] = f"{lines[number - 1]} {' '.join(sentence.split())}".strip()
    if any(lines):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pages_and_copies(paths: list[Path]) -> list[Path]:
    """The pages below `paths`, and copies of the texts of the programs below them."""
    found = []
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix == ".md":
                found.append(file.relative_to(ROOT))
            elif file.suffix in (".py", ".cpp", ".hpp", ".c", ".h"):
                copy = COPIES / f"{file.relative_to(ROOT)}.txt"
                copy_texts(file, copy)
                if copy.exists():
                    found.append(copy.relative_to(ROOT))
    return found


def main() -> int:
    if not VALE.is_file():
        print(f"prose: not checked: {VALE.relative_to(ROOT)} is missing; run scripts/setup-vale")
        return SKIPPED
    shutil.rmtree(COPIES, ignore_errors=True)
    files = pages_and_copies([Path(name).resolve() for name in sys.argv[1:]] or [ROOT / n for n in PATHS])
    command = [str(VALE), "--no-global", "--no-wrap", "--output", "line", *map(str, files)]
    checked = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    findings = [
        re.sub(r"^build/prose/(.*?)\.txt:", r"\1:", line) for line in checked.stdout.splitlines() if line
    ]
    print("\n".join([*sorted(findings), f"prose: {len(files)} files, {len(findings)} errors"]))
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
