"""docs/benchmarks.md from the JSON document: the table, the conditions, and why targets are missed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from measure.results import Result

HEAD = """# Benchmarks

This page compares Penstock with the tools that you would use instead. `make bench` repeats the measurements
on your machine and writes this page; [benchmarks/](../benchmarks) has all programs, including the peers.

Each line compares two programs that did the same work in the same run, in interleaved blocks (A B B A …),
so both met the same machine. The ratio is the median over the blocks, above 1 if Penstock is ahead. The
interval in brackets contains the true median with at least 95 % confidence (order statistics of at least
six blocks). *Met* is `yes` or `no` if the whole interval agrees, otherwise `cannot tell`. Absolute values
are those of the machine below and only show the order of magnitude.
"""

METHOD = """## Method

- **store**: chunks from memory into one HDF5 file, from creating the file until it is closed and synced
  (`fsync`), including checksums and index. fio writes the same bytes in blocks of 8 MiB and syncs, at the
  better of queue depth 1 (`psync`) and 4 (`io_uring`); by default it lays out its file before its clock
  starts. On tmpfs, where that allocates all pages, a further row has a fio that allocates them within its
  clock, as the store does. On tmpfs both sides take their data from 1 GiB of memory in turn, because one
  block that stays in the cache is not like a stream of frames; fio then submits 128 blocks at a time. The
  h5py peer writes with `write_direct_chunk` into a dataset of final extent, and syncs at the end.
- **placements**: the store writes the same chunks as a log, and into slots with eight times as much room;
  then h5py reads the file once, frame by frame, after its pages were dropped from the cache. Sizes are in
  bytes per byte of chunks.
- **index**: chunks that are not written pass through the indexer into HDF5's index.
- **bitshuffle-LZ4**: complete frames in memory, one pinned core, compared with the better of the
  `bitshuffle` package and HDF5's filter pipeline with `hdf5plugin` (file in memory, chunk cache off).
- **the whole path**: `penstock-detector` sends unpaced over loopback; the clock runs from accepting the
  start message until the file is closed and synced. Peers are Python receivers (pyzmq, zero-copy `recv`, a
  parser that only looks for the pixels, direct chunks into a dataset of final extent) fed by the same
  sender over ZeroMQ. Penstock is measured over ZeroMQ and over its TCP protocol. Everything shares two
  cores. CPU time is that of sender and receiver together.
- **the load generator on a device of 0.4 GB/s**: an ext4 in a loop device that the kernel limits to that
  rate, so that the scatter of a disk cannot hide a difference between the two programs, and the expected
  result is known.
- **sets of one system**: `penstock compare` compares two sets of six runs in many trials. The share in
  which any metric is called different has a Clopper–Pearson interval, for the number of trials that share
  no runs.
- **memory**: the recorder's peak resident memory (`VmHWM`) while a sender is faster than the recorder.

Before each run's clock starts, after images and data are prepared, the memory that it needs is filled and
freed again, for Penstock and for its peers. Under a hypervisor that reclaims free pages, the first run
after a pause would otherwise pay for allocating them, which costs up to eight times the copy.

A row is void if other processes used more than 5 % of the cores meanwhile, or the hypervisor took as much.
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
    return "unknown" if value is None else format(value, form)


def _shortfalls(results: list[Result], causes: Mapping[str, str]) -> list[str]:
    """A paragraph for each cause; results that share it stand together."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.verdict == "yes":
            continue
        # The longest prefix of the name that has a cause written down.
        prefix = max((name for name in causes if result.name.startswith(name)), key=len, default="")
        groups.setdefault(causes.get(prefix, "The cause is not known yet."), []).append(result)
    lines = []
    for cause, found in groups.items():
        names = "; ".join(
            f"{result.what} ({_number(result.measured.value)}, target {result.target})" for result in found
        )
        lines += [f"**{names}.** {cause.strip()}", ""]
    return lines


def markdown(document: Mapping[str, Any], causes: Mapping[str, str]) -> str:
    rows = document["rows"]
    results = [Result.of_document(result) for row in rows.values() for result in row["results"]]
    lines = [HEAD, "## Results", ""]
    lines += ["| Measurement | Compared with | Target | Measured [95 %] | Medians: Penstock / peer | Met |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(result) for result in results]
    remarks = [f"- {result.what}: {remark}" for result in results for remark in result.remarks]
    remarks += [f"- {name}: not measured: {row['problem']}" for name, row in rows.items() if row["problem"]]
    if remarks:
        lines += ["", "Notes:", "", *dict.fromkeys(remarks)]
    lines += ["", "## Targets that are not met, and why", ""]
    lines += _shortfalls(results, causes) or ["None.", ""]
    lines += [METHOD]
    if rows:
        lines += ["## Conditions", "", _conditions(list(rows.values())[-1]), ""]
        lines += ["| Row | Date | Commit | Repetitions | Load before | Other processes | Stolen |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [_when(name, row) for name, row in rows.items()]
    lines += ["", "[benchmarks.json](benchmarks.json) has all single results.", ""]
    return "\n".join(lines)
