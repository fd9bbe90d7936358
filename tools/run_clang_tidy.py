"""Runs clang-tidy with the checks of .clang-tidy over the sources of native/.

A file whose own text, included project headers, compile command and checks are as in its last clean
run is not looked at again (marks in build/clang-tidy/). `--all` ignores the marks; `--analyzer` adds
the path-sensitive checks, which take several minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from native_sources import DATABASE, ROOT, compile_commands

MARKS = ROOT / "build" / "clang-tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def with_includes(file: Path) -> list[Path]:
    """The file and every header of native/ that it reaches."""
    seen: dict[Path, None] = {}
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen[path] = None
        text = path.read_text(encoding="utf-8", errors="replace")
        waiting += [ROOT / "native" / name for name in INCLUDE.findall(text)]
    return sorted(seen)


def fingerprint(file: Path, command: list[str], checks: str) -> str:
    digest = hashlib.sha256()
    digest.update(checks.encode() + b"\0" + " ".join(command).encode())
    for path in with_includes(file):
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def lint(file: Path, checks: list[str]) -> tuple[Path, float, str]:
    started = time.monotonic()
    done = subprocess.run(
        ["clang-tidy-14", "--quiet", *checks, "-p", str(DATABASE.parent), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = (done.stdout + done.stderr).splitlines()
    findings = "\n".join(line for line in printed if not line.endswith("warnings generated.")) + "\n"
    return file, time.monotonic() - started, "" if done.returncode == 0 else findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="look at unchanged files too")
    parser.add_argument("--analyzer", action="store_true", help="add clang-analyzer-*")
    parser.add_argument("files", nargs="*", type=Path, help="only these (default: all of native/)")
    options = parser.parse_args()

    commands = compile_commands()
    wanted = [path.resolve() for path in options.files]
    sources = sorted(p for p in commands if p.is_relative_to(ROOT / "native") and (not wanted or p in wanted))
    extra = ["--checks=clang-analyzer-*"] if options.analyzer else []
    checks = (ROOT / ".clang-tidy").read_text() + " ".join(extra)
    MARKS.mkdir(parents=True, exist_ok=True)

    marks = {file: MARKS / hashlib.sha256(str(file).encode()).hexdigest() for file in sources}
    prints = {file: fingerprint(file, commands[file], checks) for file in sources}
    todo = [f for f in sources if options.all or not marks[f].exists() or marks[f].read_text() != prints[f]]

    failures = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for file, seconds, problem in pool.map(lambda file: lint(file, extra), todo):
            print(
                f"{file.relative_to(ROOT)}: {'FINDINGS' if problem else 'ok'} ({seconds:.0f} s)\n{problem}",
                end="",
            )
            if problem:
                failures += 1
            else:
                marks[file].write_text(prints[file])
            sys.stdout.flush()
    print(f"clang-tidy: {len(sources)} files, {len(todo)} looked at, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
