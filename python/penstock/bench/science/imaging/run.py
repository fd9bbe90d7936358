"""A run of `penstock bench imaging`: its file, its truth, its jobs."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.data.folder import BenchFolder
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.conditions import conditions_of, is_memory
from penstock.bench.run.run import Telling
from penstock.bench.science.data.manifest import DataSpec
from penstock.bench.science.data.prepare import prepared
from penstock.bench.science.imaging.files import (
    FILES,
    FRAMES_FILE,
    MAKE,
    PROCESS,
    REFER,
    TRUTH,
    TRUTH_FILE,
    VERSION,
    file_name,
)
from penstock.bench.science.imaging.judge import Verdict
from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.bench.science.run import Requested, run_science
from penstock.bench.science.storage.open import require_libraries
from penstock.lab.clients import folders_of_clients
from penstock.model.bench.runs import Run
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import LoadProgress
from penstock.model.text import counted

if TYPE_CHECKING:  # it imports this module
    from penstock.bench.science.imaging.parameters import ImagingParameters


@dataclass(frozen=True)
class _Images:
    """A file of frames, and the file that has the truth about them."""

    folder: Path
    file: str
    dataset: str | None
    frames: int
    truth: Path


def run_imaging(asked: "ImagingParameters", folder: RunFolder, telling: Telling) -> Run:
    """Raises UsageError for what is not possible, PenstockError if a job does not start."""
    if not isinstance(folder, BenchFolder):
        raise UsageError(
            f"{folder.path}: HDF5 opens files of a mounted file system only", "name a directory as the target"
        )
    if asked.process in ("all", "integrate"):  # before files are made whose truth has no profiles
        require_libraries("azimuthal integration", "pyFAI", otherwise=", or use --process statistics")
    with _images(asked, folder, telling) as images:
        verdict = Verdict(asked, images.frames, is_memory(conditions_of(images.folder)))
        requested = Requested(
            unit="frames",
            jobs=_jobs(asked, images),
            seconds=asked.seconds or None,
            longer="--seconds" if asked.seconds else "--frames",
            units_total=0 if asked.seconds else images.frames,
            shared_work=not asked.seconds,
        )
        workload = asked.workload("imaging", asked.jobs)
        return run_science(workload, folder, requested, verdict.found, telling)


@contextlib.contextmanager
def _images(asked: "ImagingParameters", folder: BenchFolder, telling: Telling) -> Iterator[_Images]:
    if asked.images is not None:
        yield _referred(asked, Path(asked.images).absolute(), folder, telling)
        return
    with prepared(folder.path.parent, _spec(asked), telling.log) as data:
        place = Path(str(data.place))
        frames, truth = file_name(FRAMES_FILE), place / file_name(TRUTH_FILE)
        yield _Images(place, frames, None, asked.frames, truth)


def _spec(asked: "ImagingParameters") -> DataSpec:
    rows, columns = asked.rows_columns
    decides = {"version": VERSION, "rows": rows, "columns": columns}
    decides |= asked.model_dump(include={"type", "frames", "layout", "seed"})
    return DataSpec("imaging", decides, FILES, MAKE, asked.file_bytes)


def _referred(asked: "ImagingParameters", path: Path, folder: BenchFolder, telling: Telling) -> _Images:
    """A user's file; one job processes it, and what comes out is the truth."""
    telling.log(f"one job processes {path}; its results are the truth")
    folder.announce(TRUTH)
    name = file_name(0, TRUTH)
    # A truth of sums is needed whatever is processed.
    process = "all" if asked.process in ("all", "integrate") else "statistics"
    parameters = asked.model_dump(include={"dataset", "frames", "threshold"})
    parameters |= {"path": str(path), "process": process, "file": name}

    def progress(units: int, _seconds: float) -> None:
        telling.progress(LoadProgress(event="progress", phase="truth", unit="operations", done=units))

    outcome = run_jobs([JobRequest(REFER, folder.path, parameters)], on_units=progress)
    ended = outcome.jobs[0].ended
    if outcome.interrupted:
        raise KeyboardInterrupt
    if ended is None or ended.problem:
        remedy = outcome.remedy("name an HDF5 file of integer frames: --images")
        raise PenstockError(f"{path}: {outcome.problem}", remedy)
    frames = int(ended.result["frames"])
    if frames < asked.jobs:
        raise UsageError(
            f"{path} has {counted(frames, 'frame')} for {counted(asked.jobs, 'job')}", "use fewer --jobs"
        )
    return _Images(path.parent, path.name, ended.result["dataset"], frames, folder.path / name)


def _jobs(asked: "ImagingParameters", images: _Images) -> list[JobRequest]:
    """Job r uses the mount of client r modulo their number."""
    folders, truths = folders_of_clients(images.folder), folders_of_clients(images.truth)
    same = {"order", "read", "decoder", "threads", "process", "threshold", "cached", "jobs"}
    common: dict[str, Any] = asked.model_dump(include=same) | {
        "file": images.file,
        "dataset": images.dataset,
        "frames": images.frames,
        "repeats": asked.seconds > 0,
    }
    return [
        JobRequest(
            PROCESS,
            folders[number % len(folders)],
            common | {"truth": str(truths[number % len(truths)]), "reads_before": number < len(folders)},
        )
        for number in range(asked.jobs)
    ]
