"""House rules that no compiler checks; run by `make lint`.

Each rule is a function from the tree to findings, "path:line: sentence". An `error` fails the run, a
`warning` only tells. The rules see the files that git knows or would add, so that what is ignored
(build folders, recordings) is left alone.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from classes import classes_of

# Sources in a folder; functions and data members in a class.
FILES_MAX = 25
FUNCTIONS_MAX = 40
MEMBERS_MAX = 15
# Classes above the limits today, with ceilings that may only fall: a row is lowered when its class shrinks.
# The file in native/ without its suffix, and the class; functions, data members.
LARGE_CLASSES = {
    "check/check/Check": (40, 24),
    "check/check/Report": (40, 18),
    "check/subject/Subject": (40, 16),
    "detector/plan/DetectorPlan": (40, 17),
    "detector/simulation_spec/SimulationSpec": (40, 22),
    "load/workloads/frames/FramesRun": (40, 23),
    "load/workloads/metadata/MetadataRun": (40, 22),
    "load/workloads/stream/PhaseRun": (40, 24),
    "load/workloads/stream/Worker": (40, 16),
    "load/team/JobTeam": (40, 23),
    "recorder/config/config/Config": (40, 26),
    "recover/recover/Recovery": (40, 25),
    "store/members/member_files/MemberFiles": (40, 21),
    "store/space/space/Space": (40, 16),
    "stream/tcp/connection/TcpConnection": (40, 18),
    "stream/tcp/sender/TcpSenderSession": (40, 21),
}

# From each folder of native/ to those it may include: the arrows of docs/explanation/architecture.md.
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "client": set(),  # it stands alone: users take it without the rest
    "frame": {"base"},
    "series": {"base", "frame"},  # pure: no thread, lock, clock, file or socket
    "stream": {"base", "frame"},
    "codec": {"base", "frame"},
    "decode": {"base", "frame", "codec"},
    "store": {"base", "frame", "codec"},
    "job": {"base"},
    "load": {"base", "job"},
    "load_mpi": {"base", "job", "load"},
    "load_remote": {"base", "load"},
    "load_hdf5": {"base", "job", "load", "store"},
    "recorder": {"base", "frame", "series", "stream", "codec", "store", "job"},
    "detector": {"base", "frame", "stream", "codec", "store"},
    "check": {"base", "frame", "codec", "store", "detector"},
    "recover": {"base", "frame", "codec", "store", "check"},
    "programs": {
        "base",
        "frame",
        "series",
        "stream",
        "codec",
        "store",
        "job",
        "recorder",
        "detector",
        "check",
        "recover",
        "load",
        "load_mpi",
        "load_remote",
        "load_hdf5",
    },
}
HDF5_FOLDERS = ("native/store/hdf5/", "native/load_hdf5/")
MPI_FOLDERS = ("native/job/", "native/load_mpi/")

SOURCE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".py", ".pyi", ".cmake", ".sh"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".md", ".txt", ".toml", ".yaml", ".yml", ".json", ".xml"}

# Spelt in two parts, so that this file passes its own rule.
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|XX" + r"X)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
ASSERT = re.compile(r"(?<!\w)assert\(")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
HOME_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/[\w.-]+")
REQUIREMENT_ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|")

# Every ID that the project answers for; docs/requirements.md has a row for each.
REQUIREMENT_IDS = [
    *(f"W{n}" for n in range(1, 22)),
    *(f"D{n}" for n in range(1, 5)),
    *(f"B{n}" for n in range(1, 16)),
    *(f"L{n}" for n in range(1, 5)),
    *(f"P{n}" for n in range(1, 7)),
]


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    sentence: str
    warning: bool = False

    def __str__(self) -> str:
        kind = "warning" if self.warning else "error"
        return f"{self.path}:{self.line}: {kind}: {self.sentence}"


@dataclass(frozen=True)
class Tree:
    root: Path
    paths: tuple[str, ...]

    @classmethod
    def of_git(cls, root: Path) -> Tree:
        listing = subprocess.run(
            # The checkout may belong to somebody else than the one who runs this, as in a container.
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
        )
        names = sorted({name.decode() for name in listing.stdout.split(b"\0") if name})
        return cls(root, tuple(name for name in names if (root / name).is_file()))

    def lines(self, path: str) -> list[str]:
        return (self.root / path).read_text(encoding="utf-8", errors="replace").splitlines()

    def texts(self, suffixes: set[str]) -> Iterator[tuple[str, list[str]]]:
        for path in self.paths:
            if Path(path).suffix in suffixes and not path.startswith("tests/corpus/"):
                yield path, self.lines(path)


def check_arrows(tree: Tree) -> Iterator[Finding]:
    """Folders of native/ include only what their arrow allows, by path from native/."""
    for path, lines in tree.texts({".cpp", ".hpp", ".c", ".h"}):
        parts = Path(path).parts
        if len(parts) < 3 or parts[0] != "native":
            continue
        folder = parts[1]
        if folder not in ARROWS:
            yield Finding(path, 1, f"native/{folder} has no row in ARROWS of tools/tidy.py")
            continue
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match or match[1] != '"':
                continue
            to = Path(match[2]).parts[0]
            if ".." in Path(match[2]).parts:
                yield Finding(path, number, f"include {match[2]!r} by its path from native/")
            elif to in ARROWS and to != folder and to not in ARROWS[folder]:
                allowed = ", ".join(sorted(ARROWS[folder])) or "nothing"
                yield Finding(path, number, f"{folder} may not include {to}; it may include {allowed}")


def check_hdf5(tree: Tree) -> Iterator[Finding]:
    """HDF5's headers are included in few folders only."""
    for path, lines in tree.texts({".cpp", ".hpp", ".c", ".h"}):
        if not path.startswith("native/") or path.startswith(HDF5_FOLDERS):
            continue
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match and re.match(r"(hdf5/|H5|hdf5)", match[2]):
                yield Finding(
                    path, number, f"{match[2]} may be included in {' and '.join(HDF5_FOLDERS)} only"
                )


def check_mpi(tree: Tree) -> Iterator[Finding]:
    """MPI's header differs between implementations: what includes it is compiled once for each."""
    for path, lines in tree.texts({".cpp", ".hpp", ".c", ".h"}):
        if not path.startswith("native/") or path.startswith(MPI_FOLDERS):
            continue
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match and match[2] == "mpi.h":
                yield Finding(path, number, f"mpi.h may be included in {' and '.join(MPI_FOLDERS)} only")


def check_pragma_once(tree: Tree) -> Iterator[Finding]:
    for path, lines in tree.texts({".hpp"}):
        if "#pragma once" not in lines:
            yield Finding(path, 1, "a header has #pragma once")


def check_invariants(tree: Tree) -> Iterator[Finding]:
    """assert() is not checked in release builds."""
    for path, lines in tree.texts({".cpp", ".hpp"}):
        if path.startswith("native/"):
            for number, line in enumerate(lines, 1):
                if ASSERT.search(line):
                    yield Finding(path, number, "use PEN_INVARIANT, which every build checks")


def check_folders(tree: Tree) -> Iterator[Finding]:
    """Sources in a folder itself, without those in its folders."""
    paths = [Path(path) for path in tree.paths if not path.startswith("tests/corpus/")]
    counts = Counter(str(path.parent) for path in paths if path.suffix in SOURCE_SUFFIXES)
    for folder, files in sorted(counts.items()):
        if files > FILES_MAX:
            yield Finding(folder, 1, f"{files} files exceed {FILES_MAX}; sort them into folders by subject")


def check_classes(tree: Tree) -> Iterator[Finding]:
    """Functions and data members of a class. A record without functions may have any number of fields."""
    for path, lines in tree.texts({".cpp", ".hpp"}):
        if not path.startswith("native/"):
            continue
        for found in classes_of("\n".join(lines)):
            name = f"{Path(path).relative_to('native').with_suffix('')}/{found.name}"
            functions, members = LARGE_CLASSES.get(name, (FUNCTIONS_MAX, MEMBERS_MAX))
            counted = [(found.functions, functions, FUNCTIONS_MAX, "functions")]
            if found.functions > 0:
                counted.append((found.members, members, MEMBERS_MAX, "data members"))
            for count, most, limit, what in counted:
                if count > most:
                    yield Finding(path, found.line, f"{name} has {count} {what}; the limit is {most}")
                elif most > max(count, limit):
                    sentence = f"{name} has {count} {what}: lower its row in LARGE_CLASSES"
                    yield Finding(path, found.line, sentence, warning=True)


def check_unfinished(tree: Tree) -> Iterator[Finding]:
    for path, lines in tree.texts(TEXT_SUFFIXES):
        for number, line in enumerate(lines, 1):
            if match := UNFINISHED.search(line):
                yield Finding(path, number, f"{match[0]}: finish it, or write it down where users see it")


def check_white_space(tree: Tree) -> Iterator[Finding]:
    for path, lines in tree.texts(TEXT_SUFFIXES):
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                yield Finding(path, number, "a tab; indent with spaces")
            elif line != line.rstrip():
                yield Finding(path, number, "white space at the end of the line")


def check_home_paths(tree: Tree) -> Iterator[Finding]:
    """A checkout lies anywhere; nothing in it names somebody's folder."""
    for path, lines in tree.texts(TEXT_SUFFIXES):
        for number, line in enumerate(lines, 1):
            if match := HOME_PATH.search(line):
                yield Finding(path, number, f"the absolute path {match[0]} is of one machine")


def anchor(heading: str) -> str:
    """The fragment that a rendered heading gets: lower case, punctuation dropped, spaces as hyphens."""
    words = re.sub(r"[^\w\- ]", "", re.sub(r"`|\*", "", heading).lower())
    return words.replace(" ", "-")


def without_code(lines: list[str]) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`", "``", line)


def headings(page: Path) -> set[str]:
    """The fragments that links may name in a page."""
    fenced = False
    found = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and (match := HEADING.match(line)):
            found.add(anchor(match[1]))
    return found


def check_links(tree: Tree) -> Iterator[Finding]:
    """Relative links of the documentation lead to a file, and to a heading in it where they name one."""
    for path, lines in tree.texts({".md"}):
        for number, line in without_code(lines):
            for match in LINK.finditer(line):
                link = match[1] or match[2]
                if re.match(r"[a-z][a-z0-9+.-]*:", link):
                    continue
                name, _, fragment = link.partition("#")
                target = (tree.root / path).parent / name if name else tree.root / path
                if not target.exists():
                    yield Finding(path, number, f"the link {link} leads nowhere")
                elif fragment and target.suffix == ".md" and fragment not in headings(target):
                    yield Finding(path, number, f"{name or path} has no heading for #{fragment}")


def check_requirements(tree: Tree) -> Iterator[Finding]:
    """docs/requirements.md has one row for each ID, five cells each, and names files that exist."""
    path = "docs/requirements.md"
    if path not in tree.paths:
        yield Finding(path, 1, "is missing")
        return
    seen: dict[str, int] = {}
    for number, line in enumerate(tree.lines(path), 1):
        match = REQUIREMENT_ROW.match(line)
        if not match:
            continue
        if match[1] in seen:
            yield Finding(path, number, f"{match[1]} has a row already in line {seen[match[1]]}")
        seen[match[1]] = number
        cells = line.strip().strip("|").split("|")
        if len(cells) != 5:
            yield Finding(path, number, f"{match[1]} has {len(cells)} cells instead of 5")
            continue
        for name in re.findall(r"`((?:tests|benchmarks|native|docs)/[^`\s]+)`", cells[3] + cells[4]):
            if not (tree.root / name).exists():
                yield Finding(path, number, f"{match[1]} names {name}, which does not exist")
    for identifier in REQUIREMENT_IDS:
        if identifier not in seen:
            yield Finding(path, 1, f"{identifier} has no row")
    for identifier, number in seen.items():
        if identifier not in REQUIREMENT_IDS:
            yield Finding(path, number, f"{identifier} is not a requirement")


RULES: tuple[Callable[[Tree], Iterator[Finding]], ...] = (
    check_arrows,
    check_hdf5,
    check_mpi,
    check_pragma_once,
    check_invariants,
    check_folders,
    check_classes,
    check_unfinished,
    check_white_space,
    check_home_paths,
    check_links,
    check_requirements,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    tree = Tree.of_git(parser.parse_args().root)
    findings = [finding for rule in RULES for finding in rule(tree)]
    for finding in findings:
        print(finding)
    errors = sum(not finding.warning for finding in findings)
    print(f"tidy: {len(tree.paths)} files, {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
