"""docs/benchmarks.md from the JSON document: the table, the conditions, and why something falls short."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from measure.results import Result

HEAD = """# Benchmarks

What Penstock takes and gives, beside the tools that one would use instead. `make bench` measures it
again on your machine and writes this page; [benchmarks/](../benchmarks) has all of it, the peers
included.

How to read it: each line compares two programs that did the same work in the same run, in blocks
(A B B A …), so that both met the same machine. The ratio is the median of the blocks' ratios, above 1
where Penstock is ahead; in brackets its interval, which holds the true median in at least 95 of 100
runs (order statistics of at least six blocks). *Met* is `yes` or `no` where the whole interval says so,
and `cannot tell` otherwise. Absolute figures are those of the
machine below and only tell the order.
"""

METHOD = """## What is measured

- **store**: chunks from memory into one HDF5 file, from creating the file until it is closed and on
  storage (`fsync`), checksums and index included. fio writes the same bytes in blocks of 8 MiB to
  `fsync`, at the better of queue depth 1 (`psync`) and 4 (`io_uring`); its file is laid out before
  its clock starts, as fio does by default; on tmpfs, where that is to take all pages, a further row
  has a fio that takes them within its clock, as the store does. On tmpfs both sides take their data
  from 1 GiB of memory in turn, because one block that stays in the cache is no stream of frames; fio
  then hands over 128 blocks at a time. The h5py peer writes with `write_direct_chunk` into a dataset
  that has its final extent from the start, and syncs at the end.
- **placements**: the store writes the same chunks as a log, and into slots with room for eight times as
  much; then h5py reads the file once, frame by frame, its pages dropped from the cache.
  Sizes are in bytes a byte of chunks.
- **index**: chunks that are not written pass through the indexer into HDF5's own index.
- **bitshuffle-LZ4**: whole frames in memory, one pinned core, beside the better of the `bitshuffle`
  package and HDF5's filter pipeline with `hdf5plugin` (file in memory, chunk cache off).
- **the whole path**: `penstock-detector` sends as fast as it is taken, over loopback; the clock runs
  from the moment at which the start message is taken until the file is closed and synced. Peers are
  Python receivers (pyzmq, zero-copy `recv`, a parser that only looks for the pixels, direct chunks
  into a dataset of the final extent) fed by the same sender over ZeroMQ; Penstock is measured over
  ZeroMQ too, and over its own TCP protocol. All of it shares two cores. CPU time is that of sender
  and receiver together.
- **the load generator on a device of 0.4 GB/s**: an ext4 in a loop device that the kernel's block layer
  holds to that rate, so that a disk's scatter cannot hide a difference between the two programs, and what
  they should find is known.
- **sets of one system**: two sets of six runs are compared by `penstock compare` in many trials; the share
  in which any value is called different has the interval of Clopper and Pearson, of as many trials as share
  no runs where nothing else is drawn.
- **memory**: the recorder's resident peak (`VmHWM`) while a sender is faster than the recorder.

Right before each run's clock starts, with images and data prepared, as much memory as it needs is
filled and freed again: under a hypervisor that takes
free pages back, whoever comes first after a pause would otherwise pay for having them again, which
costs up to eight times the copy. It is done for Penstock and for its peers.

A row is void where other processes had more than 5 % of the cores meanwhile, or the hypervisor kept
back as much.
"""


def _number(value: float) -> str:
    if math.isnan(value):
        return "?"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def _line(result: Result) -> str:
    estimate = result.measured
    interval = f"[{_number(estimate.low)}, {_number(estimate.high)}]"
    shown = f"{_number(estimate.value)}{' ×' if result.is_ratio else ''} {interval}"
    peer = "" if result.peer is None else f" / {_number(result.peer)}"
    void = any(remark.startswith("void") for remark in result.remarks)
    met = "void" if void else result.verdict
    return (
        f"| {result.what} | {result.beside or '–'} | {result.target} | {shown} |"
        f" {_number(result.ours)}{peer} {result.unit} | {met} |"
    )


def _conditions(row: Mapping[str, Any]) -> str:
    found = row["conditions"]
    memory_gib = found["memory_bytes"] / 2**30
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    return "\n".join(
        [
            f"- machine: {found['cpu']}, {found['cores']} cores, {memory_gib:.0f} GiB memory",
            f"- system: {found['system']}, Linux {found['kernel']}, {found['compiler']}",
            f"- disk: {found['disk']}",
            f"- tmpfs: {found['tmpfs']}",
            f"- {found['fio']}, Python {found['python']}, {packages}",
        ]
    )


def _when(name: str, row: Mapping[str, Any]) -> str:
    found, busy = row["conditions"], row["busy"]
    return (
        f"| {name} | {found['date']} | {found['commit']} | {row['repetitions']} |"
        f" {_known(found['load'], '.2f')} | {_known(busy['others'], '.1%')} |"
        f" {_known(busy['steal'], '.1%')} |"
    )


def _known(value: float | None, form: str) -> str:
    return "not kept" if value is None else format(value, form)


def _shortfalls(results: list[Result], causes: Mapping[str, str]) -> list[str]:
    """A paragraph for each cause; results that share it stand together."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.verdict == "yes":
            continue
        # The longest prefix of the name that has a cause written down.
        prefix = max((name for name in causes if result.name.startswith(name)), key=len, default="")
        groups.setdefault(causes.get(prefix, "The cause has not been found yet."), []).append(result)
    lines = []
    for cause, found in groups.items():
        names = "; ".join(
            f"{result.what} ({_number(result.measured.value)}, to reach {result.target})" for result in found
        )
        lines += [f"**{names}.** {cause.strip()}", ""]
    return lines


def markdown(document: Mapping[str, Any], causes: Mapping[str, str]) -> str:
    rows = document["rows"]
    results = [Result.of_document(result) for row in rows.values() for result in row["results"]]
    lines = [HEAD, "## Results", ""]
    lines += ["| What | Beside | To reach | Measured [95 %] | Medians: Penstock / peer | Met |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(result) for result in results]
    remarks = [f"- {result.what}: {remark}" for result in results for remark in result.remarks]
    remarks += [f"- {name}: not measured: {row['problem']}" for name, row in rows.items() if row["problem"]]
    if remarks:
        lines += ["", "Remarks:", "", *dict.fromkeys(remarks)]
    lines += ["", "## What falls short, and why", ""]
    lines += _shortfalls(results, causes) or ["Nothing.", ""]
    lines += [METHOD]
    if rows:
        lines += ["## Conditions", "", _conditions(list(rows.values())[-1]), ""]
        lines += ["| Row | When | Commit | Repetitions | Load before | Others' share | Stolen |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [_when(name, row) for name, row in rows.items()]
    lines += ["", "Every single figure is in [benchmarks.json](benchmarks.json).", ""]
    return "\n".join(lines)
