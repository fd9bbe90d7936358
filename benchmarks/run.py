"""Measures Penstock beside its peers and writes docs/benchmarks.md; `make bench` calls it.

Works in folders that it makes, and removes them. Rows that could not be measured say so; the exit
code is 1 if there is one of those.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from measure.context import Context
from measure.machine import Watch, conditions, cores, settle
from measure.process import BenchmarkError
from measure.report import markdown
from measure.results import Result
from rows import (
    attributes,
    before,
    client,
    codec,
    compare,
    filters,
    gathered,
    imaging,
    integrity,
    laboratory,
    load,
    memory,
    metadata,
    network,
    path,
    placements,
    protocols,
    pva,
    ranks,
    readers,
    recovery,
    store,
    values,
)
from rows.science import analysis, seismic

CHECKOUT = Path(__file__).resolve().parent.parent
LATEST = CHECKOUT / "benchmarks" / "results" / "latest.json"
DOCUMENT = CHECKOUT / "docs" / "benchmarks.json"
PAGE = CHECKOUT / "docs" / "benchmarks.md"
CAUSES = CHECKOUT / "benchmarks" / "causes.toml"

Row = Callable[[Context], list[Result]]
ROWS: dict[str, Row] = {
    "store-disk": store.on_disk,
    "store-tmpfs": store.on_tmpfs,
    "index": store.index,
    "placements": placements.side_by_side,
    "codec": codec.one_thread,
    "threads": codec.two_threads,
    "path-raw": path.raw,
    "path-raw-small": path.raw_small,
    "path-compress": path.compress,
    "path-passthrough": path.pass_through,
    "filters": filters.in_threads,
    "gathered": gathered.side_by_side,
    "ranks": ranks.shared_file,
    "imaging": imaging.beside_h5py,
    "readers": readers.beside_writer,
    "pva": pva.beside_monitor,
    "recovery": recovery.million,
    "attributes": attributes.beside_none,
    "client": client.python_beside_cpp,
    "integrity": integrity.cost,
    "memory": memory.bounded,
    "load": load.alone,
    "load-disk": load.beside_fio,
    "load-limited": load.beside_fio_at_a_known_rate,
    "compare": compare.simulated,
    "compare-real": compare.real,
    "metadata": metadata.beside_bare_calls,
    "load-ranks": load.ranks_beside_fio,
    "load-store": load.store_beside_posix,
    "network": network.over_loopback,
    "network-link": network.over_a_link,
    "protocols": protocols.beside_copies,
    "lab-fio-moosefs": partial(laboratory.streams_beside_fio, "moosefs"),
    "lab-fio-gluster": partial(laboratory.streams_beside_fio, "gluster"),
    "lab-fio-ceph": partial(laboratory.streams_beside_fio, "ceph"),
    "lab-names": laboratory.names_beside_fio,
    "lab-share": laboratory.shares_of_the_sum,
    "values": values.join,
    "analysis": analysis.beside_script,
    "seismic-sort": seismic.beside_two_passes,
    "before-store": before.of_store,
    "before-path": before.of_path,
    "before-recovery": before.of_recovery,
    "before-ranks": before.of_ranks,
}
BEFORE = [name for name in ROWS if name.startswith("before-")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measures Penstock beside its peers and writes docs/benchmarks.md.",
        epilog=f"Rows: {', '.join(ROWS)}. PENSTOCK_DATA may name a folder of real images (CBF or TIFF).",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", choices=ROWS, help="these rows (default: all but before-*)"
    )
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="blocks that are kept (7)")
    parser.add_argument("--quick", action="store_true", help="little data, 2 repetitions; shows that it runs")
    parser.add_argument(
        "--folder", type=Path, default=CHECKOUT / "build" / "bench", help="on the disk to measure"
    )
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="a tmpfs (/dev/shm)")
    parser.add_argument("--build", type=Path, default=CHECKOUT / "build" / "release", help="the native build")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="BUILD",
        help="build folder of an earlier commit: measures the rows before-* beside it",
    )
    parser.add_argument("--before-name", default="before", help="what the page calls that commit (before)")
    parser.add_argument("--no-publish", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--page-only", action="store_true", help="write docs/benchmarks.md again from its JSON"
    )
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error("--repetitions: at least 1")
    if options.only is None:
        options.only = BEFORE if options.before else [name for name in ROWS if name not in BEFORE]
    return options


@contextlib.contextmanager
def own_folder(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(name: str, context: Context) -> dict[str, Any]:
    """One row: its results, its conditions, and what else the machine did."""
    found: list[Result] = []
    problem = ""
    under = conditions(context.checkout, context.disk, context.tmpfs)
    settle()
    watch = Watch()
    start = time.monotonic()
    try:
        found = ROWS[name](context)
    except BenchmarkError as error:
        problem = str(error)
        print(f"{name}: not measured: {problem}", file=sys.stderr)
    busy = watch.busy()
    documents = [result.document() for result in found]
    for document in documents:
        document["remarks"] = [*document["remarks"], *busy.remarks()]
        print(summary(Result.of_document(document)), flush=True)
    return {
        "results": documents,
        "problem": problem,
        "conditions": under,
        "busy": asdict(busy),
        "repetitions": context.repetitions,
        "seconds": time.monotonic() - start,
    }


def summary(result: Result) -> str:
    estimate = result.measured
    sign = "×" if result.is_ratio else result.unit
    peer = (
        f" (ours {result.ours:.4g}, {result.beside} {result.peer:.4g} {result.unit})" if result.peer else ""
    )
    remarks = f" [{'; '.join(result.remarks)}]" if result.remarks else ""
    interval = f"[{estimate.low:.4g}, {estimate.high:.4g}]"
    return (
        f"  {result.verdict:11} {result.name}: {estimate.value:.4g} {interval} {sign},"
        f" to reach {result.target}{peer}{remarks}"
    )


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def read_causes() -> dict[str, str]:
    return dict(tomllib.loads(CAUSES.read_text(encoding="utf-8"))["causes"]) if CAUSES.exists() else {}


def publish(rows: dict[str, Any]) -> None:
    """Rows that were not measured this time keep their figures and the conditions of those."""
    known = json.loads(DOCUMENT.read_text(encoding="utf-8"))["rows"] if DOCUMENT.exists() else {}
    merged = {**known, **rows}
    document = {"rows": {name: merged[name] for name in ROWS if name in merged}}
    write(DOCUMENT, json.dumps(document, indent=1) + "\n")
    write(PAGE, markdown(document, read_causes()))


def main() -> int:
    options = parse()
    # So that what was made is removed also when one is stopped by SIGTERM.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if options.page_only:
        publish({})
        return 0
    images = os.environ.get("PENSTOCK_DATA")
    with own_folder(options.folder) as disk, own_folder(options.tmpfs) as tmpfs:
        context = Context(
            checkout=CHECKOUT,
            build=options.build,
            disk=disk,
            tmpfs=tmpfs,
            cores=cores(),
            repetitions=min(options.repetitions, 2) if options.quick else options.repetitions,
            quick=options.quick,
            images=Path(images) if images else None,
            before=options.before,
            before_name=options.before_name,
        )
        rows: dict[str, Any] = {}
        for name in options.only:
            rows[name] = measure(name, context)
            write(LATEST, json.dumps({"rows": rows}, indent=1) + "\n")
    if not options.quick and not options.no_publish:
        publish(rows)
        print(f"wrote {PAGE.relative_to(CHECKOUT)}")
    return 1 if any(row["problem"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
