"""Writes docs/laboratory.md: storage systems of the laboratory side by side, with the same small workloads.

    sudo .venv/bin/python benchmarks/laboratory.py
    sudo .venv/bin/python benchmarks/laboratory.py --only moosefs xrootd --keep found.jsonl

Each system is brought up with its default servers and two clients on disks in memory, measured, and taken
down. A system that cannot be brought up here keeps its row, with the reason. `--keep` appends what was
measured to a file, from which `--page FILE` writes the page again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
PENSTOCK = str(CHECKOUT / ".venv" / "bin" / "penstock")
PAGE = CHECKOUT / "docs" / "laboratory.md"
_SYSTEMS = {
    "xfs": ("XFS, no server", []),
    "btrfs": ("Btrfs, no server", []),
    "zfs": ("ZFS (zfs-fuse), no server", []),
    "moosefs": ("MooseFS, FUSE", []),
    "gluster": ("GlusterFS, FUSE", []),
    "ceph": ("CephFS, FUSE", []),
    "openafs": ("OpenAFS, FUSE", []),
    "gfarm": ("Gfarm, FUSE", []),
    "ganesha": ("nfs-ganesha, `nfs://`", []),
    "xrootd": ("XRootD, `root://`", []),
    "dav": ("Apache WebDAV, `http://`", []),
    "s3": ("OpenStack Swift, `s3://`", []),
    "hdfs": ("HDFS, `hdfs://`", []),
}  # fmt: skip
_DISKS = "ram:1GiB"
_STREAM = ("stream", "--threads", "2", "--size", "128MiB", "--transfer", "8MiB")
_FRAMES = ("frames", "--rate", "10", "--frame-size", "4MiB", "--seconds", "10")
_NAMES = ("metadata", "--only", "files", "--items", "300", "--size", "4KiB", "--iterations", "1")
_SIDE, _SERIES_FRAMES, _SERIES_HZ = 1024, 60, 10
_WAIT_S = 300.0
_HEAD = """\
# Storage systems side by side

The systems of the [laboratory](how-to/qualify/bring-up-a-storage-system.md) on one machine, with the same
small workloads. The table shows which functions work on each system, and their cost. It does not rank them:
servers, clients and disks share {processors} processors, and disks are in memory.

Measured on {date}, {machine}, {memory:.0f} GiB of memory, {load}; default servers and options, packages of
Debian 12. One command makes this page: `sudo .venv/bin/python benchmarks/laboratory.py`.

"""
_NOTES = """
- **up**: from `penstock lab up` to the first byte read back.
- **write, read**: `penstock bench {stream}`, each file read by the other thread; every byte is compared.
- **frames**: `penstock bench {frames}`; the 99 % quantile of the time from when a frame
  was due until it was stored.
- **create, stat, remove**: files per second of one thread, `penstock bench {names}`.
- **recorder**: a series of {series} frames of 2 MiB, {hz} Hz, into one file, then `penstock check`; with one
  process, and with two ranks through two clients. *per writer*: a shared file fails, one for each rank works.
- `–`: the system does not have it, or has no mount point for it.
"""


@contextmanager
def laboratory(system: str) -> Iterator[dict[str, Any]]:
    name = f"matrix-{secrets.token_hex(3)}"
    command = [PENSTOCK, "lab", "up", system, "--name", name, "--disks", _DISKS, "--clients", "2"]
    up = subprocess.run(command, capture_output=True, text=True, check=False)
    if up.returncode != 0:
        raise RuntimeError(_first_line(up.stderr))
    try:
        shown = subprocess.run(
            [PENSTOCK, "lab", "status", name, "--json"], capture_output=True, text=True, check=True
        )
        yield json.loads(shown.stdout)
    finally:
        subprocess.run([PENSTOCK, "lab", "down", name], check=True, stdout=subprocess.DEVNULL)


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("error:")] or text.splitlines()
    return lines[0].removeprefix("error: ")[:200] if lines else "no message"


def _bench(name: str, workload: tuple[str, ...]) -> dict[str, Any]:
    """The document of the run; raises RuntimeError where it failed."""
    command = [PENSTOCK, "bench", workload[0], f"lab:{name}", *workload[1:], "--yes", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WAIT_S)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(_first_line(done.stderr)) from None
    if problem := document["document"]["problem"]:
        raise RuntimeError(str(problem)[:200])
    return document


def _streamed(name: str) -> dict[str, Any]:
    phases = _bench(name, _STREAM)["document"]["phases"]
    found = {}
    for phase in phases:
        seconds = max(thread["done_s"] for thread in phase["threads"])
        found[phase["phase"]] = phase["bytes"] / seconds
        if phase["mismatches"]:
            found["wrong"] = phase["mismatches"]
    return found


def _framed(name: str) -> dict[str, Any]:
    run = _bench(name, _FRAMES)
    frames = run["frames"]
    return {"p99_ms": frames["latency_ms"]["p99"], "lost": frames["due"] - frames["written"]}


def _named(name: str) -> dict[str, Any]:
    rates = {each["operation"]: each["rate_mean"] for each in _bench(name, _NAMES)["metadata"]}
    return {kind: rates.get(f"file_{kind}") for kind in ("create", "stat", "remove")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _recorded(mount: str, ranks: int, layout: str) -> str:
    """Records a series and checks it; returns "" or what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as own,
        tempfile.TemporaryDirectory(dir=mount) as folder,
    ):
        configuration = Path(own) / "recorder.yaml"
        files = {"files": {"layout": layout}} if layout else {}
        configuration.write_text(json.dumps({"codec": {"encoding": "none"}, **files}), encoding="utf-8")
        address = f"127.0.0.1:{_free_port()}"
        record = [
            PENSTOCK, "record", str(configuration), "--listen", address, "--folder", folder, "--series", "1",
            "--json", "--log-level", "error", *(["--ranks", str(ranks)] if ranks > 1 else []),
        ]  # fmt: skip
        simulate = [
            PENSTOCK, "simulate", "custom", "--rows", str(_SIDE), "--columns", str(_SIDE), "--type", "uint16",
            "--frames", str(_SERIES_FRAMES), "--rate", str(_SERIES_HZ), "--to", f"tcp://{address}",
            "--series-name", "matrix", "--json",
        ]  # fmt: skip
        with subprocess.Popen(
            record, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        ) as recorder:
            try:
                assert recorder.stdout is not None
                if not any('"listening"' in line for line in recorder.stdout):
                    return _first_line(recorder.communicate()[1])
                sent = subprocess.run(simulate, capture_output=True, text=True, check=False, timeout=_WAIT_S)
                _, words = recorder.communicate(timeout=_WAIT_S)
            finally:
                if recorder.poll() is None:
                    recorder.send_signal(signal.SIGINT)
        if sent.returncode != 0 or recorder.returncode != 0:
            return _first_line(words or sent.stderr)
        file = Path(folder) / "matrix.h5"
        check = subprocess.run([PENSTOCK, "check", str(file)], capture_output=True, text=True, check=False)
        return "" if check.returncode == 0 else _first_line(check.stdout + check.stderr)


def _recordings(state: dict[str, Any]) -> dict[str, str]:
    if not state["mount"]:
        return {}
    found = {"one": _tried(state["mount"], 1, ""), "two": _tried(state["mount"], 2, "")}
    if found["two"]:
        found["per writer"] = _tried(state["mount"], 2, "per_writer")
    return found


def _tried(mount: str, ranks: int, layout: str) -> str:
    """A mount may end while the recorder uses it."""
    try:
        return _recorded(mount, ranks, layout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def measure(system: str) -> dict[str, Any]:
    found: dict[str, Any] = {"system": system, "problems": {}}
    try:
        with laboratory(system) as state:
            found |= {
                "up_s": state["up_s"],
                "servers": sum(n["name"].startswith("server") for n in state["nodes"]),
            }
            for part, workload in {"stream": _streamed, "frames": _framed, "names": _named}.items():
                try:
                    found[part] = workload(state["name"])
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    found["problems"][part] = str(error)
            found["recorder"] = _recordings(state)
            found["load"] = os.getloadavg()[1]
    except RuntimeError as error:
        found["problems"]["up"] = str(error)
    return found


def _number(value: float | None, unit: float = 1.0) -> str:
    return "–" if value is None else f"{value / unit:.3g}" if value / unit < 100 else f"{value / unit:.0f}"


def _recorder_cell(found: dict[str, str], which: str) -> str:
    if which not in found:
        return "–"
    if not found[which]:
        return "works"
    return "per writer" if which == "two" and found.get("per writer") == "" else "fails"


def row(found: dict[str, Any]) -> str:
    title = _SYSTEMS[found["system"]][0]
    if "up" in found["problems"]:
        return f"| {title} | did not come up: {found['problems']['up']} |" + " |" * 10
    stream, frames, names = (found.get(part, {}) for part in ("stream", "frames", "names"))
    cells = [
        title, str(found["servers"] or "–"), f"{found['up_s']:.2g} s",
        _number(stream.get("write"), 1e6), _number(stream.get("read"), 1e6),
        f"{_number(frames.get('p99_ms'))} ms" + (f", {frames['lost']} lost" if frames.get("lost") else "")
        if frames else "–",
        *(_number(names.get(kind)) for kind in ("create", "stat", "remove")),
        _recorder_cell(found["recorder"], "one"), _recorder_cell(found["recorder"], "two"),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _load_text(loads: list[float]) -> str:
    if not loads:
        return "while other programs used the processors"
    return (
        f"load average {min(loads):.1f} to {max(loads):.1f} (systems of several processes cause some of it)"
    )


def page(all_found: list[dict[str, Any]]) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    loads = [found["load"] for found in all_found if "load" in found]
    text = _HEAD.format(
        processors=len(os.sched_getaffinity(0)),
        date=time.strftime("%-d %B %Y"),
        memory=memory,
        load=_load_text(loads),
        machine=f"Linux {platform.release().partition('-')[0]}",
    )
    columns = (
        "System", "servers or disks", "up", "write MB/s", "read MB/s", "frames, p99", "create/s", "stat/s",
        "remove/s", "recorder", "recorder, 2 ranks",
    )  # fmt: skip
    text += f"| {' | '.join(columns)} |\n| --- |{' ---: |' * 8} --- | --- |\n"
    text += "".join(f"{row(found)}\n" for found in all_found)
    text += _NOTES.format(
        stream=" ".join(_STREAM), frames=" ".join(_FRAMES), names=" ".join(_NAMES), series=_SERIES_FRAMES,
        hz=_SERIES_HZ,
    )  # fmt: skip
    reasons = [
        f"- {_SYSTEMS[found['system']][0]}, {part}: {problem}\n"
        for found in all_found
        for part, problem in {
            **found["problems"],
            **{f"recorder, {key}": value for key, value in found.get("recorder", {}).items() if value},
        }.items()
    ]
    return text + ("\n## What did not work\n\n" + "".join(reasons) if reasons else "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", choices=_SYSTEMS, help="these systems")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append what was measured, as JSON lines")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page from such a file")
    given = parser.parse_args()
    if given.page is not None:
        lines = given.page.read_text(encoding="utf-8").splitlines()
        newest = {found["system"]: found for found in map(json.loads, lines)}
        PAGE.write_text(page([newest[each] for each in _SYSTEMS if each in newest]), encoding="utf-8")
        return 0
    if os.geteuid() != 0:
        parser.error("laboratories require root")
    all_found = []
    for system in given.only or _SYSTEMS:
        found = measure(system)
        print(json.dumps(found), flush=True)
        all_found.append(found)
        if given.keep is not None:
            with contextlib.closing(given.keep.open("a", encoding="utf-8")) as file:
                file.write(json.dumps(found) + "\n")
    if given.only is None:
        PAGE.write_text(page(all_found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
