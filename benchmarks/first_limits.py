"""How often `penstock bench uvbuffer` names the first limit of a storage right.

    .venv/bin/python benchmarks/first_limits.py --folder /dev/shm --runs 20 --output limits.jsonl

Each run is on a directory whose jobs are slowed down in operations of one kind: creates, opens, deletes, or
bytes that are written or read. The limit allows a share of the load, drawn between 0.3 and 0.8; kinds take
turns. What is named is compared with it. The jobs are those of the tests (limited_buffers.py).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
_JOBS = "limited_buffers"
_SHARES = (0.3, 0.8)
_WORDS = "the first limit is "
sys.path.insert(0, str(CHECKOUT / "tests" / "python" / "science"))

from limited_buffers import SHORT, target_of  # noqa: E402

from penstock.bench.data.folder import BenchFolder  # noqa: E402
from penstock.bench.run.run import Telling  # noqa: E402
from penstock.bench.science.uvbuffer.limits import KINDS  # noqa: E402
from penstock.bench.science.uvbuffer.parameters import UvbufferParameters  # noqa: E402
from penstock.bench.science.uvbuffer.run import BufferRequest, run_buffer  # noqa: E402
from penstock.bench.statistics.values import values_of  # noqa: E402


def cases(runs: int, seed: int) -> Iterator[tuple[str, float]]:
    """Kind of each limit, and the share of the load that it allows."""
    chosen = random.Random(seed)
    for number in range(runs):
        yield KINDS[number % len(KINDS)][0], chosen.uniform(*_SHARES)


def measured(folder: Path, kind: str, share: float, seconds: float) -> dict[str, Any]:
    """What one run names, and what it measures of the kind that was limited."""
    os.environ["LIMIT"] = f"{kind}:{share * target_of(kind)}"
    parameters = UvbufferParameters.model_validate(SHORT | {"seconds": seconds})
    buffer = parameters.buffer
    jobs = buffer.writers + buffer.readers + 1
    request = BufferRequest(buffer, parameters.seed, parameters.workload("uvbuffer", jobs))
    with BenchFolder.make(folder) as made:
        run = run_buffer(request, made, Telling(lambda _: None, lambda _: None), _JOBS)
    found = run.science.findings[0] if run.science is not None and run.science.findings else ""
    named = found.removeprefix(_WORDS).partition(":")[0] if found.startswith(_WORDS) else found
    reached = values_of(run).get(f"{kind} share")
    return {
        "injected": kind,
        "share": round(share, 3),
        "named": named,
        "reached": None if reached is None else round(reached.value, 3),
        "load_average": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="writable directory")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="one line of JSON for each run")
    given = parser.parse_args()
    right = 0
    for kind, share in cases(given.runs, given.seed):
        found = measured(given.folder, kind, share, given.seconds)
        right += found["named"] == found["injected"]
        print(json.dumps(found), flush=True)
        if given.output is not None:
            with given.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
    print(f"named right: {right} of {given.runs}")
    return 0 if right == given.runs else 1


if __name__ == "__main__":
    sys.exit(main())
