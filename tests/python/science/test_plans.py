"""A plan says how long a run takes: not only its work, but its processes, its data and its checks, too."""

import resource
from pathlib import Path
from typing import Any

import pytest

from penstock.bench.science.acquire.parameters import AcquireParameters
from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.analysis.run import specs
from penstock.bench.science.data.manifest import DataSpec
from penstock.bench.science.data.prepare import prepared
from penstock.bench.science.duration import Duration
from penstock.bench.science.imaging.parameters import ImagingParameters
from penstock.bench.science.parameters import ScienceParameters
from penstock.bench.science.seismic.parameters import SeismicSortParameters
from penstock.bench.science.seismic.work import survey_spec
from penstock.bench.science.uvbuffer.parameters import UvbufferParameters
from penstock.model.errors import UsageError

_AVAILABLE = "penstock.bench.science.parameters.available_memory_bytes"
_SMALL_DETECTOR = {"detector": "custom", "rows": 512, "columns": 512, "type": "uint16", "rate": 20.0}


def acquire(**changed: Any) -> AcquireParameters:
    return AcquireParameters.model_validate(_SMALL_DETECTOR | changed)


@pytest.mark.parametrize(
    ("parameters", "work_s"),
    [
        (AnalysisParameters(), 20.0),
        (ImagingParameters(), 12.0),
        (UvbufferParameters(), 40.0),
        (SeismicSortParameters(), 4.0),  # 1 GiB, twice read and twice written
        (acquire(), 7 * 10.0),  # beside 0, 1, 2, 4, 8 and 8 jobs, and the jobs alone
    ],
)
def test_a_plan_has_more_than_the_time_of_its_work(parameters: ScienceParameters, work_s: float) -> None:
    duration = parameters.duration()
    assert work_s + 2 < duration.run_s < 2 * work_s + 10
    assert parameters.time_row()["time"].startswith("about ")
    job = parameters.job()
    assert job.paced_s + job.moved_bytes * 1e-9 == pytest.approx(duration.run_s)
    assert job.making_s == duration.making_s


@pytest.mark.parametrize(
    ("few", "many"),
    [
        (AnalysisParameters(), AnalysisParameters(jobs=16, files=10)),
        (ImagingParameters(), ImagingParameters(frames=4000)),
        (SeismicSortParameters(), SeismicSortParameters(size=8 << 30)),
    ],
)
def test_more_data_takes_longer_to_make(few: ScienceParameters, many: ScienceParameters) -> None:
    assert many.duration().making_s > 4 * few.duration().making_s


def test_a_search_that_bisects_takes_longer() -> None:
    found = acquire(jobs_max=16).duration()
    assert found.work_max_s > found.work_s + 3 * 10


def test_the_text_has_what_is_rounded_and_what_may_come_on_top() -> None:
    assert Duration(20.0, 3.4).text() == "about 23 s on an idle machine"
    text = Duration(88.0, 3.0, making_s=4.2, work_max_s=140.0, is_storage_bound=True).text()
    assert text == (
        "about 90 s to 2 min on an idle machine; 4 s more if no earlier run made the files;"
        " longer if the storage is slower than 1 GB/s"
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (AnalysisParameters(jobs=8), "80 jobs on 10 nodes: 10 times the jobs"),
        (
            ImagingParameters(frames=2000, jobs=4),
            "170000 frames, 96 jobs: 85 times the frames, 24 times the jobs",
        ),
    ],
)
def test_a_plan_says_how_far_it_is_from_the_full_case(parameters: ScienceParameters, words: str) -> None:
    assert parameters.plan_rows()["full case"] == words


@pytest.mark.parametrize(
    ("parameters", "needed_bytes", "remedy"),
    [
        (AnalysisParameters(jobs=100), 15e9, "--jobs"),
        (ImagingParameters(shape="1030x1065", jobs=96, frames=96), 26e9, "--process statistics"),
        (UvbufferParameters(), 0.4e9, "--readers"),
        (SeismicSortParameters(size=8 << 30, memory=4 << 30), 4.4e9, "--memory"),
        (acquire(jobs_max=16), 1.1e9, "--jobs-max"),
    ],
)
def test_too_little_memory_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, parameters: ScienceParameters, needed_bytes: float, remedy: str
) -> None:
    require = parameters.job().require
    monkeypatch.setattr(_AVAILABLE, lambda: round(1.2 * needed_bytes))
    require()
    monkeypatch.setattr(_AVAILABLE, lambda: round(0.8 * needed_bytes))
    with pytest.raises(UsageError, match="the jobs need about") as caught:
        require()
    assert remedy in caught.value.remedy


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _made_in(target: Path, spec: DataSpec) -> float:
    before = _processor_s()
    with prepared(target, spec, lambda _: None):
        pass
    return _processor_s() - before


@pytest.mark.slow
def test_making_takes_about_the_time_of_processors_that_is_planned(tmp_path: Path) -> None:
    """Which other programs of the machine do not change. A slow machine takes several times as much."""
    analysis = AnalysisParameters(files=2, file_size=10_000_000)
    sort = SeismicSortParameters(size=256 << 20, memory=64 << 20)
    for parameters, spec in ((analysis, specs(analysis)[0]), (sort, survey_spec(sort.survey))):
        taken = _made_in(tmp_path, spec)
        assert 0.25 < taken / parameters.duration().making_s < 8
