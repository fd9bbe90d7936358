"""Runs clang-tidy with the checks of .clang-tidy over the sources of native/, a few at a time.

Units are put together into larger ones (together.py). A finding in one is looked for again in the units
that it names, and else in its halves, until it is clear which unit has it, or that none does. A unit
whose own text, included project headers, compile command and checks are as in its last clean run is not
looked at again (marks in build/clang-tidy/). `--all` ignores the marks; `--analyzer` adds the
path-sensitive checks, which take several minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from native_sources import DATABASE, ROOT, Unit, units
from together import as_one, together

MARKS = ROOT / "build" / "clang-tidy"
TOGETHER = MARKS / "together"
NOT_COMPILED = "clang-diagnostic-error"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def with_includes(sources: list[Path]) -> list[Path]:
    """The sources and every header of native/ that they reach."""
    seen: dict[Path, None] = {}
    waiting = list(sources)
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen[path] = None
        text = path.read_text(encoding="utf-8", errors="replace")
        waiting += [ROOT / "native" / name for name in INCLUDE.findall(text)]
    return sorted(seen)


def fingerprint(unit: Unit, checks: str) -> str:
    digest = hashlib.sha256()
    digest.update(checks.encode() + b"\0" + " ".join(unit.arguments).encode())
    for path in with_includes(unit.sources):
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def clang_tidy(unit: Unit, checks: list[str]) -> str:
    """What it finds in the unit, or nothing."""
    command = ["clang-tidy-14", "--quiet", *checks, "-p", str(DATABASE.parent), str(unit.file)]
    if unit.file.parent == TOGETHER:  # which the database does not have
        compiler = next(i for i, argument in enumerate(unit.arguments) if "clang" in Path(argument).name)
        command += ["--", *unit.arguments[compiler + 1 :]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = (done.stdout + done.stderr).splitlines()
    findings = "\n".join(line for line in printed if not line.endswith("warnings generated.")) + "\n"
    return "" if done.returncode == 0 else findings


def lint(unit: Unit, parts: list[Unit], checks: list[str]) -> tuple[Unit, float, str]:
    started = time.monotonic()
    problem = findings(unit, parts, checks)
    return unit, time.monotonic() - started, problem


def findings_together(parts: list[Unit], checks: list[str]) -> str:
    return findings(as_one(parts, TOGETHER), parts, checks)


def findings(unit: Unit, parts: list[Unit], checks: list[str]) -> str:
    problem = clang_tidy(unit, checks)
    if not problem or len(parts) == 1:
        return problem
    if NOT_COMPILED not in problem:
        named = [part for part in parts if any(str(source) in problem for source in part.sources)]
        if found := "".join(clang_tidy(part, checks) for part in named):
            return found
    middle = len(parts) // 2
    apart = findings_together(parts[:middle], checks) + findings_together(parts[middle:], checks)
    if not apart:
        print(f"clang-tidy: these are better not put together (tools/together.py):\n{problem}")
    return apart


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="look at unchanged files too")
    parser.add_argument("--analyzer", action="store_true", help="add clang-analyzer-*")
    parser.add_argument("files", nargs="*", type=Path, help="only these (default: all of native/)")
    options = parser.parse_args()

    wanted = {path.resolve() for path in options.files}
    # A source that several programs are made of is looked at once.
    each = {tuple(unit.sources): unit for unit in reversed(units())}
    chosen = [
        unit
        for unit in each.values()
        if unit.sources[0].is_relative_to(ROOT / "native") and (not wanted or wanted & set(unit.sources))
    ]
    # What is compiled together includes sources, and nothing else does (tools/tidy.py).
    extra = ["--checks=-bugprone-suspicious-include" + (",clang-analyzer-*" if options.analyzer else "")]
    checks = (ROOT / ".clang-tidy").read_text() + " ".join(extra)
    TOGETHER.mkdir(parents=True, exist_ok=True)
    # Who asks for some files waits for no others.
    looked_at = [(unit, [unit]) for unit in chosen] if wanted else together(chosen, TOGETHER)
    chosen = [unit for unit, _ in looked_at]
    parts = {unit.file: made_of for unit, made_of in looked_at}

    marks = {unit.file: MARKS / hashlib.sha256(str(unit.file).encode()).hexdigest() for unit in chosen}
    prints = {unit.file: fingerprint(unit, checks) for unit in chosen}
    todo = [
        unit
        for unit in chosen
        if options.all or not marks[unit.file].exists() or marks[unit.file].read_text() != prints[unit.file]
    ]
    todo.sort(key=lambda unit: -sum(source.stat().st_size for source in unit.sources))

    failures = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        waiting = [pool.submit(lint, unit, parts[unit.file], extra) for unit in todo]
        for unit, seconds, problem in (each.result() for each in as_completed(waiting)):
            names = ", ".join(str(source.relative_to(ROOT / "native")) for source in unit.sources)
            print(f"{names}: {'FINDINGS' if problem else 'ok'} ({seconds:.0f} s)\n{problem}", end="")
            if problem:
                failures += 1
            else:
                marks[unit.file].write_text(prints[unit.file])
            sys.stdout.flush()
    files = sum(len(unit.sources) for unit in chosen)
    print(
        f"clang-tidy: {files} files in {len(chosen)} units, {len(todo)} looked at, {failures} with findings"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
