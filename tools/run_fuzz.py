"""Runs every fuzz target of build/fuzz for some seconds, from the corpus in tests/corpus.

A target `fuzz_<part>_<what>` starts from tests/corpus/<part>/ where that is there, and keeps what it
finds in build/fuzz-corpus/<part>_<what>/. An input that breaks a target stays in
build/fuzz-findings/; move it to tests/corpus/<part>/ together with the fix, so that it is tried for
ever.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz" / "tests" / "fuzz"
LIMIT_MIB = "2048"


def targets() -> list[Path]:
    found = (path for path in BUILD.rglob("fuzz_*") if path.is_file() and os.access(path, os.X_OK))
    return sorted(path for path in found if path.suffix == "")


def run(target: Path, seconds: int) -> tuple[Path, float, str]:
    """One target; returns the time it took and, where it failed, the end of what it printed."""
    name = target.name.removeprefix("fuzz_")
    grown = ROOT / "build" / "fuzz-corpus" / name
    findings = ROOT / "build" / "fuzz-findings" / name
    grown.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "tests" / "corpus" / name.partition("_")[0]
    # fmt: off
    command = [
        str(target), f"-max_total_time={seconds}", f"-rss_limit_mb={LIMIT_MIB}", "-timeout=20",
        "-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={findings}/", str(grown),
        *([str(kept)] if kept.is_dir() else []),
    ]
    # fmt: on
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    problem = "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stderr[-6000:]}"
    return target, time.monotonic() - started, problem


def write_junit(path: Path, outcomes: list[tuple[Path, float, str]]) -> None:
    suite = ElementTree.Element("testsuite", name="fuzz", tests=str(len(outcomes)))
    for target, seconds, problem in outcomes:
        case = ElementTree.SubElement(suite, "testcase", name=target.name, time=f"{seconds:.1f}")
        if problem:
            ElementTree.SubElement(case, "failure", message="the target failed").text = problem.replace(
                "\x00", ""
            )
    ElementTree.ElementTree(suite).write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="for each target (default 10)")
    parser.add_argument("--junit", type=Path, help="write the outcome to this file")
    options = parser.parse_args()
    if options.seconds < 1:
        parser.error(f"--seconds is {options.seconds}; it has to be at least 1")  # libFuzzer takes 0 for ever

    found = targets()
    if not found:
        print(f"run_fuzz: no targets in {BUILD}; run scripts/build fuzz fuzz-targets", file=sys.stderr)
        return 1
    outcomes = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for outcome in pool.map(lambda target: run(target, options.seconds), found):
            target, seconds, problem = outcome
            print(
                f"{target.name}: {'FAILED' if problem else 'ok'} after {seconds:.0f} s\n{problem}", flush=True
            )
            outcomes.append(outcome)
    if options.junit:
        write_junit(options.junit, outcomes)
    return 1 if any(problem for _, _, problem in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
