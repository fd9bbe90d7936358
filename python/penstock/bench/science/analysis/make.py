"""Makes ROOT files of events: a job of a data set."""

import errno
import tempfile
from pathlib import Path
from typing import Any

import awkward
import numpy
import uproot

from penstock.bench.science.analysis.events import INDEX, TREE, Found, baskets, chosen, scan, visit
from penstock.bench.science.analysis.parameters import STEP_EVENTS
from penstock.bench.science.data.manifest import DataFile
from penstock.bench.science.data.store import store_file
from penstock.bench.science.jobs.job import Job
from penstock.model.errors import PenstockError

_COMPRESSIONS: dict[str, Any] = {
    "zstd": uproot.ZSTD(5),
    "zlib": uproot.ZLIB(1),
    "lz4": uproot.LZ4(4),
    "none": None,
}


def make(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    job.begin()
    made: list[dict[str, Any]] = []
    for number in parameters["numbers"]:
        if job.stopping:
            break
        made.append(_make_file(job, number, parameters).model_dump())
    return {"files": made}


def _make_file(job: Job, number: int, parameters: dict[str, Any]) -> DataFile:
    """uproot writes here and there in a file, which not every storage can do."""
    name = f"events-{number:09d}.root"
    with tempfile.NamedTemporaryFile(suffix=".root") as local:
        try:
            truth = _write(job, Path(local.name), parameters["first"] + number, parameters)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise PenstockError(
                f"{local.name}: no space left for a file of events",
                "set TMPDIR to a directory with more space, or reduce --file-size",
            ) from error
        return store_file(job.storage, name, Path(local.name), truth)


def _write(job: Job, path: Path, number: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the truth about the events of file `number` of all data sets."""
    scanned, visited, count = Found(), Found(), 0
    is_ntuple = parameters.get("format") == "rntuple"
    steps: list[int] = []
    stored: Any
    with uproot.recreate(path, compression=_COMPRESSIONS[parameters["compression"]]) as file:
        tree: Any = None
        for arrays in baskets(parameters["seed"], number, parameters["events"]):
            flat = {
                f"{name}_{each}": arrays[name][each]
                for name in ("Muon", "Jet", "Cell")
                for each in arrays[name].fields
            }
            flat |= {name: arrays[name] for name in ("trigger", "MET_pt")}
            stored = arrays
            if is_ntuple:
                stored = awkward.Array(flat | {name: arrays[name] for name in ("run", "event")})
            if tree is None:
                tree = _begun_ntuple(file, stored) if is_ntuple else _begun_tree(file, stored)
            tree.extend(stored)
            entries = arrays["event"]
            scan(scanned, flat, entries)
            there = chosen(arrays[INDEX])
            visit(visited, {name: values[there] for name, values in flat.items()}, entries[there])
            count += len(entries)
            if count % STEP_EVENTS == 0:
                steps.append(scanned.digest)
            job.done(len(entries))
    return {"events": count, "scan": vars(scanned), "steps": steps, "navigate": vars(visited)}


def _begun_tree(file: Any, arrays: dict[str, Any]) -> Any:
    return file.mktree(TREE, {name: _type_of(values) for name, values in arrays.items()})


def _begun_ntuple(file: Any, stored: awkward.Array) -> Any:
    """Each field is a list of its own: the names are those of a tree's branches."""
    return file.mkrntuple(TREE, stored.layout.form)


def _type_of(values: Any) -> Any:
    return values.dtype if isinstance(values, numpy.ndarray) else awkward.type(values).content
