"""Makes the file of simulated frames, and processes the file of a user by a single job."""

import contextlib
import os
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy

from penstock.bench.science.data.manifest import DataFile
from penstock.bench.science.data.store import checksum_of as file_checksum_of
from penstock.bench.science.imaging.analysis import Analysis, Result
from penstock.bench.science.imaging.files import THRESHOLD, TRUTH_FILE, file_name
from penstock.bench.science.imaging.image_file import described, open_images
from penstock.bench.science.imaging.simulated import Simulation
from penstock.bench.science.imaging.truth import Truth, checksum_of
from penstock.bench.science.jobs.job import Job
from penstock.model.errors import PenstockError


def make(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """File 0 has the frames, file 1 the truth about them: that of the generator."""
    shape = (parameters["rows"], parameters["columns"])
    simulation = Simulation(shape, parameters["type"], parameters["seed"])
    job.begin()
    files = []
    for number in parameters["numbers"]:
        name = file_name(number)
        with _created(job, name) as file:
            (_write_truth if number == TRUTH_FILE else _write_frames)(job, file, simulation, parameters)
        size, checksum = job.storage.size(name), file_checksum_of(job.storage, name)
        files.append(DataFile(name=name, bytes=size, sha256=checksum).model_dump(mode="json"))
    return {"files": files}


def _write_frames(job: Job, file: h5py.File, simulation: Simulation, parameters: dict[str, Any]) -> None:
    shape = (parameters["frames"], parameters["rows"], parameters["columns"])
    data = _dataset(file, shape, parameters["type"], parameters["layout"])
    for number in range(parameters["frames"]):
        data[number] = simulation.frame(number).pixels
        job.done(1)


def _write_truth(job: Job, file: h5py.File, simulation: Simulation, parameters: dict[str, Any]) -> None:
    """Sum and spots are known from the generator, and compared with what is found."""
    shape, type_ = (parameters["rows"], parameters["columns"]), numpy.dtype(parameters["type"])
    analysis = _analysis(shape, type_, THRESHOLD)
    results, checksums = [], []
    for number in range(parameters["frames"]):
        frame = simulation.frame(number)
        found = analysis.of(frame.pixels)
        if found.spots != frame.spots:
            raise PenstockError(f"frame {number} has {frame.spots} spots; {found.spots} were found")
        results.append(found)
        checksums.append(checksum_of(frame.pixels))
        job.done(1)
    Truth.of(results, checksums).store(file)


def refer(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Results of one job, read by HDF5, as the truth about a user's file."""
    with open_images(parameters["path"]) as file:
        images = described(file, parameters["dataset"])
        frames = min(images.frames, parameters["frames"])
        data = file[images.dataset]
        analysis = Analysis(parameters["process"], images.shape, images.type, parameters["threshold"])
        job.begin()
        results: list[Result] = []
        checksums: list[int] = []
        for number in range(frames):
            pixels = data[number]
            results.append(analysis.of(pixels))
            checksums.append(checksum_of(pixels))
            job.done(1)
    with _created(job, parameters["file"]) as file:
        Truth.of(results, checksums).store(file)
    return {"frames": frames, "dataset": images.dataset}


def _analysis(shape: tuple[int, int], type_: "numpy.dtype[Any]", threshold: int) -> Analysis:
    """Computes all results; without pyFAI, no profiles."""
    try:
        return Analysis("all", shape, type_, threshold)
    except PenstockError:
        return Analysis("statistics", shape, type_, threshold)


def _local(job: Job, name: str) -> Path:
    path = job.storage.local_path(name)
    if path is None:
        raise PenstockError(f"{job.storage.place} has no files that HDF5 can open", "name a directory")
    return Path(path)


@contextlib.contextmanager
def _created(job: Job, name: str) -> Any:
    """A new file, which is on the storage at the end."""
    path = _local(job, name)
    with h5py.File(path, "w-", libver="latest", locking=False) as file:
        yield file
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with job.storage.counts.syncing():
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dataset(file: h5py.File, shape: tuple[int, int, int], type_: str, layout: str) -> h5py.Dataset:
    options: dict[str, Any] = {
        "contiguous": {},
        "deflate": {"compression": "gzip", "compression_opts": 1},
    }.get(layout, dict(hdf5plugin.Bitshuffle(nelems=0, cname="lz4")))
    if layout != "contiguous":
        options["chunks"] = (1, *shape[1:])
    entry, data = file.create_group("entry"), file.create_group("entry/data")
    file.attrs["default"], entry.attrs["NX_class"], entry.attrs["default"] = "entry", "NXentry", "data"
    data.attrs["NX_class"], data.attrs["signal"] = "NXdata", "data"
    for path, kind in (("entry/instrument", "NXinstrument"), ("entry/instrument/detector", "NXdetector")):
        file.create_group(path).attrs["NX_class"] = kind
    made = file.create_dataset("entry/instrument/detector/data", shape, type_, **options)
    data["data"] = made
    return made
