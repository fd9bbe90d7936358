"""The scan of `penstock bench analysis` as a plain script: uproot opens the files by their paths.

SECONDS FILE...; prints events and seconds, from the first pass over the files on.
"""

from __future__ import annotations

import json
import sys
import time

import uproot

from penstock.bench.science.analysis.events import SCAN, TREE, Found, scan

STEP_EVENTS = 10_000


def one_pass(path: str) -> int:
    with uproot.open(path, object_cache=None, array_cache=None) as file:
        tree, found = file[TREE], Found()
        for start in range(0, tree.num_entries, STEP_EVENTS):
            scan(
                found,
                tree.arrays(list(SCAN), entry_start=start, entry_stop=start + STEP_EVENTS, library="ak"),
            )
        return int(tree.num_entries)


def main() -> None:
    seconds, paths = float(sys.argv[1]), sys.argv[2:]
    one_pass(paths[0])
    begun, events = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        events += sum(map(one_pass, paths))
    print(json.dumps({"events": events, "seconds": time.monotonic() - begun}))


if __name__ == "__main__":
    main()
