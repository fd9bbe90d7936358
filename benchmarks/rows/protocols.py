"""Storage by protocol, beside the copying programs of the same client libraries: xrdcp, and nfs-cp of libnfs.

Servers of the laboratory in memory, one client, one file, 1 MiB a call. The copying programs read from and
write to a tmpfs; their time includes their start, which the size of the file makes small.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from measure.blocks import Subject, interleaved
from measure.context import GIB, MIB, Context
from measure.machine import settle
from measure.process import BenchmarkError, run, service
from measure.results import Result, Sample, beside_best

_AT_LEAST = 0.95
_TRANSFER = MIB
_COPIES = {"xrootd": ["xrdcp", "--silent", "--force"], "ganesha": ["nfs-cp"]}
_TITLES = {"xrootd": "root://", "ganesha": "nfs://"}


@contextmanager
def _laboratory(context: Context, system: str) -> Iterator[tuple[list[str], str]]:
    """What runs a command on its client, and its URL."""
    if os.geteuid() != 0 or shutil.which(_COPIES[system][0]) is None:
        raise BenchmarkError(f"requires root and the program {_COPIES[system][0]}")
    penstock = str(context.checkout / ".venv" / "bin" / "penstock")
    name = f"bench-{secrets.token_hex(4)}"
    run([penstock, "lab", "up", system, "--name", name, "--disks", "ram:3GiB"])
    try:
        client = [penstock, "lab", "exec", name, "--"]
        yield client, run([*client, "sh", "-c", 'echo "$PENSTOCK_LAB_URL"']).stdout.strip()
    finally:
        run([penstock, "lab", "down", name])


def _in_folder(url: str, name: str) -> str:
    path, mark, options = url.partition("?")
    return f"{path}/{name}{mark}{options}"


def _penstock(context: Context, client: list[str], url: str, size: int, phase: str) -> Sample:
    settle()
    folder = _in_folder(url, f"penstock-{secrets.token_hex(4)}")
    program = context.program("penstock-load-remote")
    backend = {"kind": "remote", "url": folder}
    stream = {"kind": "stream", "thread_bytes": size, "transfer_bytes": _TRANSFER}
    found = _document(client, program, {"backend": backend, "workload": stream})
    _document(client, program, {"backend": backend, "workload": {"kind": "remove", "files": 1}})
    one = next(each for each in found["phases"] if each["phase"] == phase)
    return {"bytes_per_s": one["bytes"] / one["threads"][0]["done_s"]}


def _document(client: list[str], program: str, plan: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    with service([*client, program, "--plan", "-"], plan) as load:
        document: dict[str, Any] = load.wait_for("result")["document"]
        load.finish(stop=False)
    if document["problem"]:
        raise BenchmarkError(f"penstock-load-remote: {document['problem']}")
    return document


def _copied(client: list[str], copy: list[str], source: str, to: str, size: int) -> Sample:
    settle()
    return {"bytes_per_s": size / run([*client, *copy, source, to]).seconds}


def _written(client: list[str], copy: list[str], source: Path, url: str, size: int) -> Sample:
    """Under a name that is new: nfs-cp takes no other."""
    return _copied(client, copy, str(source), _in_folder(url, secrets.token_hex(4)), size)


def _read(client: list[str], copy: list[str], url: str, folder: Path, size: int) -> Sample:
    to = folder / secrets.token_hex(4)
    try:
        return _copied(client, copy, url, str(to), size)
    finally:
        to.unlink(missing_ok=True)


def _of_system(context: Context, system: str) -> list[Result]:
    size = context.bytes_of(GIB // 2)
    copy, title = _COPIES[system], _TITLES[system]
    source = context.tmpfs / "protocols.bin"
    source.write_bytes(os.urandom(size))
    try:
        with _laboratory(context, system) as (client, url):
            there = _in_folder(url, "source")
            run([*client, *copy, str(source), there])
            peers: dict[str, Subject] = {
                "write": partial(_written, client, copy, source, url, size),
                "read": partial(_read, client, copy, there, context.tmpfs, size),
            }
            results = []
            for phase, peer in peers.items():
                subjects: dict[str, Subject] = {
                    "penstock": partial(_penstock, context, client, url, size, phase),
                    copy[0]: peer,
                }
                samples = interleaved(f"protocols {title} {phase}", subjects, context.repetitions)
                results.append(
                    beside_best(
                        f"protocols/{system}/{phase}",
                        f"{title}, {phase}, one file of {size // MIB} MiB, 1 MiB a call",
                        samples["penstock"],
                        {copy[0]: samples[copy[0]]},
                        at_least=_AT_LEAST,
                    )
                )
            return results
    finally:
        source.unlink()


def beside_copies(context: Context) -> list[Result]:
    return [*_of_system(context, "xrootd"), *_of_system(context, "ganesha")]
