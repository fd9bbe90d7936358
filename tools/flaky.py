"""Remembers which tests of the last gate failed once and then passed alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

FLAKY_MAX = 3  # more in one gate fail it


def cache_folder() -> Path:
    """What gates of all checkouts of a user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def verdict(names: Iterable[str]) -> str:
    """Why these flaky tests fail the gate; empty if they do not. Remembers them for the next gate."""
    now = set(names)
    memory = cache_folder() / "flaky-tests.json"
    try:
        before = set(json.loads(memory.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        before = set()
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(sorted(now)), encoding="utf-8")
    except OSError as problem:
        print(f"run_tests: flaky tests are not remembered: {problem}")
    if len(now) > FLAKY_MAX:
        return f"{len(now)} flaky tests exceed the maximum of {FLAKY_MAX}"
    again = sorted(now & before)
    return f"flaky in the gate before, too: {', '.join(again)}: find the cause" if again else ""
