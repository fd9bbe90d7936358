"""Compiles headers and sources of native/, and sources of tests/native/, alone, without the shared headers.

A file that uses what another one happened to include breaks at the next reordering; this finds it
now. A name that shadows another one is an error here; in the batches of a build it is not. A header
that has a source of its name is not compiled by itself, as the source includes it first
(clang-format). Needs a configured build/tidy (scripts/build --configure-only tidy). ccache, if it is
there, knows what has not changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from native_sources import DATABASE, ROOT, compile_commands, headers

FOLDERS = ("native", "tests/native")
STUBS = ROOT / "build" / "tidy" / "alone"
CACHE = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}  # as the build's launcher has it


def arguments_for(header: Path, commands: dict[Path, list[str]]) -> list[str]:
    """Those of a source that includes the header; else of one in its folder, or in the nearest above.

    The first kind comes first because some sources are compiled for one instruction set.
    """
    include = f'#include "{header.relative_to(ROOT / "native")}"'
    for source, arguments in sorted(commands.items()):
        # A source that the build makes is not there before.
        if source.is_file() and include in source.read_text(encoding="utf-8", errors="replace"):
            return arguments
    for folder in header.parents:
        for source, arguments in sorted(commands.items()):
            if source.is_relative_to(folder):
                return arguments
    return next(iter(commands.values()))


def with_the_builds_compiler(arguments: list[str]) -> list[str]:
    """The database is clang's, and behind a launcher."""
    compiler = next(i for i, argument in enumerate(arguments) if Path(argument).name.startswith("clang"))
    own = [argument for argument in arguments[compiler + 1 :] if "thread-safety" not in argument]
    return ["c++", *own, "-O0", "-g0", "-Wno-maybe-uninitialized", "-Werror"]


def check_header(header: Path, commands: dict[Path, list[str]]) -> bool:
    language = "c" if header.suffix == ".h" else "c++"
    arguments = with_the_builds_compiler(arguments_for(header, commands))
    if language == "c":
        arguments = ["cc", "-Wall", "-Wextra", "-Werror", *(a for a in arguments if a.startswith("-I"))]
    return check(header, stub(header, ".c" if language == "c" else ".cpp"), arguments)


def check_source(source: Path, commands: dict[Path, list[str]]) -> bool:
    return check(source, source, with_the_builds_compiler(commands[source]))


def check(file: Path, source: Path, arguments: list[str]) -> bool:
    """Compiles `source`. Prints the compiler's words, as those of `file`, if it cannot."""
    launcher = ["ccache"] if shutil.which("ccache") else []
    name = file.relative_to(ROOT)
    result = STUBS / name.with_name(name.name + ".o")
    result.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*launcher, *arguments, "-c", str(source), "-o", str(result)],
        cwd=ROOT,
        env=os.environ | CACHE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"{file.relative_to(ROOT)} does not compile alone:\n{done.stderr}", flush=True)
    return done.returncode == 0


def stub(header: Path, suffix: str) -> Path:
    """A source that only includes the header: `#pragma once` in a main file is a warning."""
    name = header.relative_to(ROOT)
    source = STUBS / name.with_name(name.name + suffix)
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f'#include "{header.relative_to(ROOT / "native")}"\n', encoding="utf-8")
    return source


def main() -> int:
    if not DATABASE.exists():
        print(
            f"check_alone: {DATABASE} is missing; run scripts/build --configure-only tidy",
            file=sys.stderr,
        )
        return 2
    commands = compile_commands()
    found = [header for header in headers() if not header.with_suffix(".cpp").exists()]
    sources = [
        source
        for source in sorted(commands)
        if any(source.is_relative_to(ROOT / folder) for folder in FOLDERS) and source.suffix == ".cpp"
    ]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        results = [pool.submit(check_header, header, commands) for header in found]
        results += [pool.submit(check_source, source, commands) for source in sources]
        bad = [result.result() for result in results].count(False)
    print(f"{len(found)} headers and {len(sources)} sources, {bad} do not compile alone")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
