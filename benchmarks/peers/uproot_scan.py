"""The scan of `penstock bench analysis` as a plain script: uproot opens the files by their paths.

SECONDS FILE...; prints events and seconds, from the first pass over the files on.
"""

from __future__ import annotations

import json
import sys
import time

import numpy
import uproot

from penstock.bench.science.analysis.events import SCAN, TREE, Found, scan
from penstock.bench.science.analysis.parameters import STEP_EVENTS


def one_pass(path: str) -> int:
    with uproot.open(path, object_cache=None, array_cache=None) as file:
        tree, found = file[TREE], Found()
        for start in range(0, tree.num_entries, STEP_EVENTS):
            stop = min(start + STEP_EVENTS, tree.num_entries)
            arrays = tree.arrays(list(SCAN), entry_start=start, entry_stop=stop, library="ak")
            scan(found, arrays, numpy.arange(start, stop, dtype=numpy.uint64))
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
