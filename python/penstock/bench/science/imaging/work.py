"""One job: it processes its frames, and compares each result with the truth."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import h5py
from pydantic import BaseModel, ConfigDict

from penstock.bench.science.imaging.analysis import Analysis
from penstock.bench.science.imaging.decoders import decoder_for
from penstock.bench.science.imaging.files import COMPUTING, LOOKS_AGAIN_S
from penstock.bench.science.imaging.image_file import (
    ImageFile,
    chunks_of,
    described,
    encoding_of,
    open_images,
)
from penstock.bench.science.imaging.readers import AheadReader, DirectReader, FrameReader, Hdf5Reader, Source
from penstock.bench.science.imaging.truth import Comparison, Truth
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.open import storage_for
from penstock.bench.science.storage.page_cache import cached_share
from penstock.bench.science.storage.storage import Storage
from penstock.model.errors import PenstockError

_PIECE = 4 << 20


class Task(BaseModel):
    """What one job does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    dataset: str | None
    truth: str
    """path of the file that has it"""
    frames: int
    jobs: int
    order: Literal["interleaved", "blocks"]
    repeats: bool
    read: Literal["h5py", "direct"]
    decoder: Literal["auto", "penstock", "hdf5plugin"]
    threads: int
    process: Literal["all", "integrate", "statistics", "none"]
    threshold: int
    cached: bool
    reads_before: bool
    """it brings the file into the cache of its client"""

    def numbers(self, job: int) -> range:
        """The frames of a job."""
        if self.order == "interleaved":
            return range(job, self.frames, self.jobs)
        edges = [self.frames * number // self.jobs for number in (job, job + 1)]
        return range(*edges)


def process(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    task = Task.model_validate(parameters)
    path = job.storage.local_path(task.file)
    if path is None:
        raise PenstockError(f"{job.storage.place} has no files that HDF5 can open", "name a directory")
    with open_images(path) as file:
        images = described(file, task.dataset)
        if images.frames < task.frames:
            raise PenstockError(f"{path} has {images.frames} frames instead of {task.frames}")
        comparison = Comparison(Truth.load(task.truth))
        _require_profiles(task, comparison.truth)
        analysis = Analysis(task.process, images.shape, images.type, task.threshold)
        reader = _reader(task, file[images.dataset], images, job.storage)
        seen: set[int] = set()
        _set_cache(task, job.storage)
        share = cached_share(path) if task.reads_before or not task.cached else None
        job.begin()
        processed, processor_s = 0, -time.process_time()
        with reader:
            for number, pixels in reader.frames(_turns(job, task, reader)):
                if task.process != "none":
                    with job.spending(COMPUTING):
                        result = analysis.of(pixels)
                    with job.spending("comparing"):
                        comparison.take(number, result)
                seen.add(number)
                processed += 1
                job.done(1)
        processor_s += time.process_time()
        job.close()
        for part, seconds in reader.spent_s.items():
            job.spent_s[part] += seconds
        with _again(task, file[images.dataset], images, job.storage.place) as again:
            _look_again(again, comparison, sorted(seen))
    return {
        "frames": len(seen),
        "processed": processed,
        "processor_s": processor_s,
        "frame_bytes": images.frame_bytes,
        "stored_bytes": images.stored_bytes / images.frames,
        "cached_share": share,
        "measured_cache": task.reads_before or not task.cached,
        "decoder": reader.decoder,
        **comparison.summary(),
    }


def _require_profiles(task: Task, truth: Truth) -> None:
    if task.process in ("all", "integrate") and truth.profiles is None:
        raise PenstockError(
            "the truth has no profiles: pyFAI was missing when it was made",
            "penstock bench clean TARGET, then run this again",
        )


def _reader(task: Task, data: h5py.Dataset, images: ImageFile, storage: Storage) -> FrameReader:
    if task.read == "h5py":
        return Hdf5Reader(data, images, storage)
    encoding = encoding_of(data)
    chunks = chunks_of(data, task.frames)
    source = Source(storage, task.file, images, chunks, decoder_for(encoding, task.decoder))
    return AheadReader(source, task.threads) if task.threads else DirectReader(source)


def _turns(job: Job, task: Task, reader: FrameReader) -> Iterator[int]:
    """The frames of a job, repeatedly if it is to. What was read is dropped before it is read again."""
    while True:
        for number in task.numbers(job.number):
            if job.stopping:
                return
            yield number
        if not task.repeats:
            return
        reader.forget()
        if not task.cached:
            job.storage.forget(task.file)


def _set_cache(task: Task, storage: Storage) -> None:
    if not task.cached:
        storage.forget(task.file)
    elif task.reads_before:
        with storage.open(task.file) as file:
            while file.read(_PIECE):
                pass


@contextmanager
def _again(task: Task, data: h5py.Dataset, images: ImageFile, place: str) -> Iterator[FrameReader]:
    """A reader whose bytes are not counted."""
    with _reader(task, data, images, storage_for(place)) as reader:
        yield reader


def _look_again(reader: FrameReader, comparison: Comparison, numbers: list[int]) -> None:
    """After the measured time, compares the pixels of frames that were processed during it."""
    end = time.monotonic() + LOOKS_AGAIN_S

    def until_late() -> Iterator[int]:
        for number in numbers:
            if time.monotonic() >= end:
                return
            yield number

    for number, pixels in reader.frames(until_late()):
        comparison.look_at(number, pixels)
