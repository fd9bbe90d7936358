"""Jobs process the frames of one file, and a frame that is not as the truth is found."""

import hashlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy
import pytest

from penstock.bench.data.folder import BenchFolder
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import parameters_of
from penstock.bench.science.imaging.analysis import Analysis
from penstock.bench.science.imaging.image_file import encoding_of, open_images
from penstock.bench.science.imaging.making import make
from penstock.bench.science.imaging.parameters import ImagingParameters
from penstock.bench.science.imaging.simulated import Simulation
from penstock.bench.science.imaging.work import Task, process
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.jobs.words import Done, Ready
from penstock.bench.science.storage.open import storage_for
from penstock.bench.science.storage.page_cache import cached_share
from penstock.files.storage import find_mount
from penstock.model.bench.runs import Check, Run
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import LoadProgress

FRAMES, SIDE = 10, 96
LAYOUTS = ("bslz4", "contiguous", "deflate")
_NUMBERS = {"frames": FRAMES, "rows": SIDE, "columns": SIDE, "type": "uint16", "seed": 1}

_ASKED: dict[str, Any] = {
    "file": "images-000000000.h5",
    "dataset": None,
    "frames": FRAMES,
    "jobs": 1,
    "order": "interleaved",
    "repeats": False,
    "read": "h5py",
    "decoder": "auto",
    "threads": 1,
    "process": "statistics",
    "threshold": 100,
    "cached": False,
    "reads_before": True,
}


def job_in(folder: Path, number: int = 0) -> tuple[Job, list[Ready | Done]]:
    """One of this process, which may begin; and what it says."""
    go = threading.Event()
    said: list[Ready | Done] = []
    go.set()
    return Job(number, storage_for(str(folder)), said.append, go), said


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with frames and truth, by layout."""
    folders = {layout: tmp_path_factory.mktemp(layout) for layout in LAYOUTS}
    for layout, folder in folders.items():
        make(job_in(folder)[0], {**_NUMBERS, "layout": layout, "numbers": [0, 1]})
    return folders


def copied(folder: Path, to: Path) -> Path:
    """Whose frames a test may change."""
    return Path(shutil.copytree(folder, to / "copy"))


def processed(folder: Path, count: int = 1, **given: Any) -> tuple[list[dict[str, Any]], list[Job]]:
    """What the jobs of a run return, one after another and in this process."""
    asked = _ASKED | {"jobs": count, "truth": str(folder / "images-000000001.h5")}
    results, jobs = [], []
    for number in range(count):
        job, _ = job_in(folder, number)
        results.append(process(job, asked | given))
        jobs.append(job)
    return results, jobs


def run_of(target: Path, progress: Callable[[LoadProgress], None] = lambda _: None, **given: Any) -> Run:
    asked: dict[str, Any] = {"frames": FRAMES, "shape": f"{SIDE}x{SIDE}", "seconds": 0}
    job = ImagingParameters.model_validate(asked | {"process": "statistics"} | given).job()
    with BenchFolder.make(target) as folder:
        return job.run(folder, Telling(progress, lambda _: None))


def check_of(run: Run, name: str) -> Check:
    return next(check for check in run.checks if check.name == name)


def data_of(file: h5py.File) -> h5py.Dataset:
    return file["entry/data/data"]


@pytest.mark.parametrize("way", [{"read": "h5py"}, {"read": "direct"}, {"read": "direct", "threads": 0}])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_of_all_jobs_agree_with_the_truth(
    made: dict[str, Path], way: dict[str, Any], layout: str
) -> None:
    results, jobs = processed(made[layout], count=3, **way)
    assert [(each["frames"], each["compared"], each["wrong"]) for each in results] == [
        (4, 4, 0),
        (3, 3, 0),
        (3, 3, 0),
    ]
    with h5py.File(made[layout] / "images-000000000.h5") as file:
        stored = data_of(file).id.get_storage_size()
    assert sum(job.storage.counts.received_bytes for job in jobs) == pytest.approx(stored, abs=FRAMES)
    for job in jobs:
        reading = {"storage and decompression"} if way["read"] == "h5py" else {"storage", "decompression"}
        reading -= {"decompression"} if layout == "contiguous" else set()
        waiting = {"waiting for a frame"} if way == {"read": "direct"} else set()
        assert set(job.spent_s) == reading | waiting | {"computing", "comparing"}


@pytest.mark.parametrize("read", ["h5py", "direct"])
@pytest.mark.parametrize(
    ("what", "words"),
    [("statistics", "its sum is"), ("integrate", "of its profile is"), ("none", "it has other pixels")],
)
def test_a_pixel_that_differs_by_one_is_found(
    made: dict[str, Path], tmp_path: Path, read: str, what: str, words: str
) -> None:
    pytest.importorskip("pyFAI")
    folder = copied(made["contiguous"], tmp_path)
    assert processed(folder, read=read, process=what)[0][0]["wrong"] == 0
    with h5py.File(folder / "images-000000000.h5", "r+") as file:
        data_of(file)[2, 40, 50] += 1
    found = processed(folder, read=read, process=what)[0][0]
    assert found["wrong"] == 1
    ((number, problem),) = found["named"]
    assert number == 2
    assert words in problem


@pytest.mark.parametrize("cached", [False, True])
def test_repeated_frames_do_not_come_from_the_cache_of_hdf5(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """A chunk that is damaged after the first pass is read in the second one, though all fit into it."""
    folder = copied(made["bslz4"], tmp_path)
    path = folder / "images-000000000.h5"
    with h5py.File(path) as file:
        place = data_of(file).id.get_chunk_info_by_coord((3, 0, 0))
    job, _ = job_in(folder)
    passes: list[bool] = []

    def numbers(_task: Task, _number: int) -> Iterator[int]:
        passes.append(True)
        if len(passes) == 2:
            with path.open("r+b") as raw:
                raw.seek(place.byte_offset)
                raw.write(b"\xff" * 16)
        if len(passes) == 3:
            job.stop()
        yield from range(FRAMES)

    monkeypatch.setattr(Task, "numbers", numbers)
    asked = _ASKED | {"truth": str(folder / "images-000000001.h5"), "repeats": True, "cached": cached}
    with pytest.raises(OSError, match="filter"):
        process(job, asked)


def test_a_spot_that_is_missing_is_found_though_the_sum_stays(made: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(made["bslz4"], tmp_path)
    with h5py.File(folder / "images-000000000.h5", "r+") as file:
        frame = data_of(file)[1]
        row, column = numpy.unravel_index(numpy.argmax(frame), frame.shape)
        frame[0, 0] += frame[row, column]
        frame[row, column] = 0
        data_of(file)[1] = frame
    ((number, problem),) = processed(folder, read="direct")[0][0]["named"]
    assert number == 1
    assert problem.startswith("it has ")


@pytest.mark.parametrize("what", ["statistics", "none"])
def test_pixels_that_changed_places_are_found(made: dict[str, Path], tmp_path: Path, what: str) -> None:
    """Two of the background, which leave sum and spots as they were."""
    folder = copied(made["contiguous"], tmp_path)
    with h5py.File(folder / "images-000000000.h5", "r+") as file:
        frame = data_of(file)[4]
        first, second = (int(numpy.flatnonzero(frame[0] == value)[0]) for value in (2, 3))
        frame[0, [first, second]] = frame[0, [second, first]]
        data_of(file)[4] = frame
    found = processed(folder, process=what)[0][0]
    assert found["named"] == [(4, "it has other pixels")]
    assert (found["compared"], found["looked_at"]) == (0 if what == "none" else FRAMES, FRAMES)


def test_a_corrupt_chunk_ends_the_job(made: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(made["bslz4"], tmp_path)
    path = folder / "images-000000000.h5"
    with h5py.File(path) as file:
        place = data_of(file).id.get_chunk_info_by_coord((3, 0, 0))
    with path.open("r+b") as raw:
        raw.seek(place.byte_offset)
        raw.write(b"\xff" * 16)
    for threads in (0, 2):
        with pytest.raises(PenstockError, match="corrupt"):
            processed(folder, read="direct", threads=threads)


@pytest.mark.slow
def test_a_wrong_frame_makes_a_run_invalid(tmp_path: Path) -> None:
    """The whole way: the data set is made once; its frames are repeated until the time is over."""
    right = run_of(tmp_path, layout="contiguous", read="direct", seconds=1.5)
    assert right.science is not None
    assert right.science.units > 2 * FRAMES
    assert check_of(right, "frames are right").outcome == "ok"
    values = {each.name: each.value for each in right.science.values}
    assert values["time"] == pytest.approx(FRAMES / values["frames"])
    assert values["pixels"] == pytest.approx(values["frames"] * SIDE * SIDE * 2)
    parts = {name: value for name, value in values.items() if name.endswith(": share")}
    assert set(parts) == {"storage: share", "computing: share"}
    assert sum(parts.values()) == pytest.approx(1)
    (path,) = tmp_path.glob("penstock-data-imaging-*/images-000000000.h5")
    with h5py.File(path, "r+") as file:
        data_of(file)[7, 1, 1] += 1
    wrong = run_of(tmp_path, layout="contiguous", read="direct")
    found = check_of(wrong, "frames are right")
    assert found.actual.startswith("1 frame is wrong: frame 7: its sum is")
    assert check_of(wrong, "each frame was processed").outcome == "ok"
    assert wrong.validity == "invalid"


def test_a_file_of_the_users_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.h5"
    frames = numpy.random.default_rng(3).poisson(4, (7, 80, 90)).astype("int32")
    with h5py.File(path, "w") as file:
        file.create_dataset("a/b", data=frames, chunks=(1, 80, 90), **hdf5plugin.Bitshuffle())
        file["small"] = frames[:1]
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    run = run_of(tmp_path, images=str(path), read="direct", frames=100)
    assert check_of(run, "frames are right").actual == "7 results agree, and the pixels of 7 frames are right"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mine.h5"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chunks": (2, 80, 90)}, "are not single frames"),
        ({"chunks": (1, 80, 90), "compression": "lzf"}, "its filters are lzf"),
        ({"chunks": (1, 80, 90), **hdf5plugin.Bitshuffle(cname="none")}, "does not use LZ4"),
    ],
)
def test_what_cannot_be_read_directly_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("data", data=numpy.ones((4, 80, 90), "u2"), **options)
        data = file["data"]
        with pytest.raises(PenstockError, match=words):
            encoding_of(data)


def test_what_is_no_file_of_frames_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(PenstockError, match=r"text\.h5 cannot be opened as HDF5"):
        open_images(str(tmp_path / "text.h5"))


@pytest.mark.parametrize(
    ("names", "dataset", "words", "remedy"),
    [
        (None, None, "cannot be opened as HDF5", "name a complete HDF5 file: --images"),
        ({"a": 2}, None, "has no dataset of frames", "name another file: --images"),
        (
            {"a": 3, "b": 3, "c": 2},
            "/d",
            "has no dataset /d of frames",
            "three dimensions, --dataset: /a, /b",
        ),
        ({"a": 3, "c": 2}, "/c", "has no dataset /c of frames", "three dimensions, --dataset: /a"),
        ({"a": 3, "float": 3}, "/float", "/float has pixels of type float64", "a dataset of integer pixels"),
    ],
)
def test_a_file_without_frames_is_refused_before_the_run(
    tmp_path: Path, names: dict[str, int] | None, dataset: str | None, words: str, remedy: str
) -> None:
    path = tmp_path / "file.h5"
    path.write_bytes(b"text")
    if names is not None:
        with h5py.File(path, "w") as file:
            for name, dimensions in names.items():
                file.create_dataset(name, (4,) * dimensions, "f8" if name == "float" else "u2")
    with pytest.raises(UsageError, match=words) as refused:
        ImagingParameters.model_validate({"images": str(path), "dataset": dataset}).job()
    assert remedy in refused.value.remedy


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 60])
def test_a_run_that_is_interrupted_at_once_gives_no_advice_about_its_length(
    tmp_path: Path, seconds: int
) -> None:
    run = run_of(tmp_path, lambda _: os.kill(os.getpid(), signal.SIGINT), seconds=seconds, frames=500)
    assert run.document.interrupted
    about_frames = {"frames are right", "each frame was processed", "read from storage"}
    assert not {check.name for check in run.checks} & {*about_frames, "long enough", "jobs work together"}
    assert run.science is not None
    assert run.science.values == []


@pytest.mark.parametrize("order", ["interleaved", "blocks"])
@pytest.mark.parametrize("jobs", [1, 2, 7, 10, 12])
def test_each_frame_belongs_to_one_job(order: str, jobs: int) -> None:
    task = Task.model_validate(_ASKED | {"truth": "", "jobs": jobs, "order": order})
    shares = [list(task.numbers(number)) for number in range(jobs)]
    assert sorted(number for share in shares for number in share) == list(range(FRAMES))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("type_", ["uint16", "uint32"])
def test_each_simulated_spot_is_found_and_no_other(type_: str) -> None:
    simulation = Simulation((200, 150), type_, 5)
    analysis = Analysis("statistics", (200, 150), numpy.dtype(type_), 100)
    counts = []
    for number in range(20):
        frame = simulation.frame(number)
        assert analysis.of(frame.pixels).spots == frame.spots
        assert (simulation.frame(number).pixels == frame.pixels).all()
        counts.append(frame.spots)
    assert len(set(counts)) > 5


@pytest.mark.parametrize("shape", [(64, 64), (71, 71), (64, 1000)])
def test_the_smallest_frames_have_spots_that_are_found(shape: tuple[int, int]) -> None:
    simulation, analysis = (
        Simulation(shape, "uint16", 5),
        Analysis("statistics", shape, numpy.dtype("uint16"), 100),
    )
    for number in range(5):
        frame = simulation.frame(number)
        assert analysis.of(frame.pixels).spots == frame.spots > 0


def test_the_background_is_poisson() -> None:
    pixels = Simulation((400, 400), "uint16", 5).frame(0).pixels[:30]  # outside of the rings
    quiet = pixels[pixels < 50].astype(float)
    assert quiet.mean() == pytest.approx(3, rel=0.05)
    assert quiet.var() == pytest.approx(3, rel=0.1)


def test_the_cached_share_follows_the_cache(made: dict[str, Path], tmp_path: Path) -> None:
    mount = find_mount(tmp_path)
    if mount is not None and mount.kind == "tmpfs":
        pytest.skip("a tmpfs is nothing but memory")
    path = tmp_path / "file"
    path.write_bytes(bytes(5 << 20))
    assert cached_share(str(path)) == 1.0
    storage_for(str(tmp_path)).forget("file")
    assert cached_share(str(path)) == 0.0
    with path.open("rb") as file:
        file.read(1 << 20)
    assert 0.1 < (cached_share(str(path)) or 0) < 0.9
    assert processed(made["bslz4"])[0][0]["cached_share"] == 0.0
    assert processed(made["bslz4"], cached=True)[0][0]["cached_share"] == 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"jobs": 3, "frames": 2}, "--jobs 3 exceeds --frames 2"),
        ({"dataset": "/data"}, "--dataset requires --images"),
        ({"images": "/nowhere.h5"}, "is not a file"),
        ({"shape": "10x2000"}, "less than 64"),
        ({"shape": "10"}, "--shape 10"),
        ({"threshold": 1000}, "outside 50 to 300"),
    ],
)
def test_what_is_not_possible_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parameters_of("imaging", given).job()
