"""An out-of-core sort keeps every trace, and one that it loses, changes or misplaces is found."""

import errno
import threading
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy
import pytest

from penstock.bench.data.folder import BenchFolder
from penstock.bench.run.run import Telling
from penstock.bench.science.data.manifest import DataFile
from penstock.bench.science.data.prepare import DataSet
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import JobOutcome, JobRequest, TeamOutcome, run_jobs
from penstock.bench.science.jobs.words import Ended
from penstock.bench.science.run import Found
from penstock.bench.science.seismic import run as seismic
from penstock.bench.science.seismic import verify, work
from penstock.bench.science.seismic.parameters import SeismicSortParameters
from penstock.bench.science.seismic.pipe import Output
from penstock.bench.science.seismic.plan import sort_plan
from penstock.bench.science.seismic.run import SortRequest, run_sort
from penstock.bench.science.seismic.segy import DATA_AT, keys_of, trace_bytes, trace_type
from penstock.bench.science.seismic.survey import Truth, survey_of, write_survey
from penstock.bench.science.seismic.tier import Tier, require_tier
from penstock.bench.science.seismic.verify import problem_of
from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.direct import DirectWriter
from penstock.bench.science.storage.posix import PosixStorage
from penstock.bench.statistics.values import values_of
from penstock.model.bench.runs import Run
from penstock.model.errors import PenstockError, UsageError

MIB = 1 << 20
SMALL = {"size": 24 * MIB, "memory": 6 * MIB, "samples": 200}
HERE = "test_seismic"


def run_of(place: Path, module: str = work.__name__, **changed: Any) -> Run:
    parameters = SeismicSortParameters.model_validate(SMALL | changed)
    request = SortRequest(
        parameters.survey, parameters.plan, parameters.scratch, parameters.workload("seismic-sort", 1)
    )
    with BenchFolder.make(place) as folder:
        return run_sort(request, folder, Telling(lambda _: None, lambda _: None), module)


def check_of(run: Run, name: str) -> tuple[str, str]:
    return next((each.outcome, each.actual) for each in run.checks if each.name == name)


@pytest.mark.slow
def test_all_traces_come_out_in_order_with_little_memory(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    run = run_of(tmp_path, scratch=str(scratch))
    assert check_of(run, "traces sorted") == ("ok", "all traces")
    assert check_of(run, "memory bound held")[0] == "ok"
    assert check_of(run, "larger than memory")[0] == "ok"
    values = values_of(run)
    assert next(iter(values)) == "traces"
    expected = set(SeismicSortParameters(scratch="x").values())
    assert set(values) >= expected
    assert values["gain"].value == pytest.approx(
        values["traces (scratch)"].value / values["traces"].value, rel=1e-6
    )
    assert list(scratch.iterdir()) == []
    assert [each.name[:14] for each in tmp_path.iterdir() if each != scratch] == ["penstock-data-"]


@pytest.mark.timeout(60)
def test_an_error_of_closing_a_file_ends_the_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems report a full quota only then."""

    def close(_writer: DirectWriter) -> None:
        raise OSError(errno.EDQUOT, "quota")

    monkeypatch.setattr(DirectWriter, "finish", close)
    with Output(16, 1 << 16, 2, Counts()) as output:
        output.begin(tmp_path / "file")
        output.filled(len(output.room(1)))
        output.end()
        with pytest.raises(OSError, match="quota"):
            output.wait()


def test_a_scratch_without_room_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="the sort writes"):
        run_of(tmp_path, scratch=str(tmp_path), size=1 << 49, memory=1 << 39)
    assert not list(tmp_path.iterdir())


def test_the_survey_has_shots_in_order_and_unique_keys(tmp_path: Path) -> None:
    import segyio

    survey = survey_of(4 * MIB, 100, 7)
    path = tmp_path / "shots.sgy"
    written = write_survey(survey, path, Counts(), lambda _: None)
    assert (written.truth.traces, path.stat().st_size) == (survey.traces, survey.bytes)
    with segyio.open(str(path), ignore_geometry=True) as file:
        assert file.text[0][:12] == b"C 1 Penstock"
        assert (file.tracecount, file.bin[segyio.BinField.Interval]) == (survey.traces, 2000)
        shots = file.attributes(segyio.TraceField.FieldRecord)[:]
        cdp = file.attributes(segyio.TraceField.CDP)[:]
        offset = file.attributes(segyio.TraceField.offset)[:]
        assert (numpy.diff(shots) >= 0).all()
        assert (numpy.diff(cdp) < 0).any()
        assert len(set(zip(cdp.tolist(), offset.tolist(), strict=True))) == survey.traces
    again = write_survey(survey, tmp_path / "again.sgy", Counts(), lambda _: None)
    assert again == written


def _swap(rows: Any) -> None:
    rows[[40, 41]] = rows[[41, 40]]


def _change(rows: Any) -> None:
    rows["samples"][77, 5] ^= 1


def _header(rows: Any) -> None:
    rows["shot"][99] += 1


def _twice(rows: Any) -> None:
    rows[12] = rows[13]


def _samples_of_another(rows: Any) -> None:
    rows["samples"][[3, 4]] = rows["samples"][[4, 3]]


@pytest.fixture(scope="module")
def sorted_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("sorted")
    survey = survey_of(3 * MIB, 64, 3)
    written = write_survey(survey, folder / "shots.sgy", Counts(), lambda _: None)
    request = JobRequest(
        f"{work.__name__}:sort",
        folder,
        {
            "survey": asdict(survey),
            "memory": 4 * MIB,
            "tiers": [str(folder)],
            "source": f"{folder}/shots.sgy",
        },
    )
    assert run_jobs([request]).problem is None
    return folder, (survey, written.truth)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, ""),
        (_swap, "trace 41 (CDP"),
        (_change, "trace 77 (CDP"),
        (_header, "trace 99 (CDP"),
        (_twice, "is missing"),
        (_samples_of_another, "trace 3 (CDP"),
    ],
)
def test_one_wrong_trace_is_named(sorted_once: tuple[Path, Any], wrong: Any, said: str) -> None:
    folder, (survey, truth) = sorted_once
    content = bytearray((folder / work.sorted_name(0)).read_bytes())
    if wrong is not None:
        wrong(numpy.frombuffer(content, trace_type(survey.samples), offset=DATA_AT))
    (folder / "wrong.sgy").write_bytes(content)
    problem = problem_of(folder / "wrong.sgy", folder / "shots.sgy", survey.samples, truth, Counts())
    assert said in problem
    assert bool(problem) == (wrong is not None)


def test_a_check_keeps_nothing_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is one of a file with 200 000 traces."""
    rows = numpy.zeros(1000, trace_type(16))
    monkeypatch.setattr(verify, "_blocks", lambda *_: (rows for _ in range(200)))
    monkeypatch.setattr(verify, "_header_problem", lambda *_: "the end")
    tracemalloc.start()
    try:
        assert problem_of(tmp_path, tmp_path, 16, Truth(0, 0), Counts()) == "the end"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rest", [-1, 0, 1])
def test_a_lost_trace_is_named(sorted_once: tuple[Path, Any], rest: int) -> None:
    folder, (survey, truth) = sorted_once
    content = (folder / work.sorted_name(0)).read_bytes()
    (folder / "wrong.sgy").write_bytes(content[: rest - trace_bytes(survey.samples)])
    problem = problem_of(folder / "wrong.sgy", folder / "shots.sgy", survey.samples, truth, Counts())
    assert ("is missing" if rest == 0 else "whole traces") in problem


def test_a_changed_input_is_not_taken_for_a_wrong_sort(sorted_once: tuple[Path, Any]) -> None:
    folder, (survey, truth) = sorted_once
    other = Truth(truth.traces, truth.checksum ^ 1)
    problem = problem_of(folder / work.sorted_name(0), folder / "shots.sgy", survey.samples, other, Counts())
    assert "before they were sorted" in problem


def sort(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Changes one bit of one sample of what it has sorted."""
    result = work.sort(job, parameters)
    with (Path(job.storage.place) / work.sorted_name(0)).open("r+b") as file:
        file.seek(DATA_AT + 1000 * trace_bytes(parameters["survey"]["samples"]) + 300)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))
    return result


def test_a_run_with_a_wrong_trace_is_invalid_and_names_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, module=HERE)
    outcome, actual = check_of(run, "traces sorted")
    assert outcome == "failed"
    assert "trace 1000 (CDP" in actual
    assert run.validity == "invalid"


def judged(
    monkeypatch: pytest.MonkeyPatch, tiers: int, of_sort: bool, of_check: bool
) -> tuple[Found, list[bool]]:
    """What is said of an interrupted sort or check, and whether each check that began is to keep its jobs."""
    begun: list[bool] = []

    def run_jobs(_requests: object, keeps: bool = True) -> TeamOutcome:
        begun.append(keeps)
        return TeamOutcome([JobOutcome(0, "/")], 0, 1.0, interrupted=of_check)

    monkeypatch.setattr(seismic, "run_jobs", run_jobs)
    parameters = SeismicSortParameters.model_validate(SMALL | {"scratch": "/scratch"})
    workload = parameters.workload("seismic-sort", 1)
    request = SortRequest(parameters.survey, parameters.plan, parameters.scratch, workload)
    data = DataSet(Path("/data"), {}, [DataFile(name="shots.sgy", bytes=1, sha256="")])
    what = seismic._Sorted(request, data, Path("/"), Tier(Path("/scratch"), None), work.__name__)
    sorts = [{"tier": tier, "runs_s": 1.0, "merge_s": 1.0, "direct": True} for tier in ("/", "/scratch")]
    ended = Ended(result={"sorts": sorts[:tiers], "base": 0, "peak": MIB})
    outcome = TeamOutcome([JobOutcome(0, "/", ended=ended)], 0, 2.0, interrupted=of_sort)
    return seismic._judged(what, outcome, Slope(0, 2.0, 1.0, 1.0)), begun


@pytest.mark.parametrize("is_of_sort", [False, True])
def test_an_interrupted_run_keeps_what_it_measured(monkeypatch: pytest.MonkeyPatch, is_of_sort: bool) -> None:
    found, begun = judged(monkeypatch, 1 if is_of_sort else 2, is_of_sort, not is_of_sort)
    assert begun == ([] if is_of_sort else [False])  # no check after Ctrl-C, and one is killed at once
    assert found.interrupted
    assert "traces" in [each.name for each in found.values]
    assert ("gain" in [each.name for each in found.values]) != is_of_sort
    (check,) = (each for each in found.checks if each.name == "traces sorted")
    assert (check.outcome, check.actual) == ("warning", "not verified: interrupted")


def test_neither_storage_of_the_runs_always_comes_first() -> None:
    """The second sort may find caches of servers full."""
    orders = [seismic.in_random_order([Path(f"/{number}"), Path("/scratch")], 1) for number in range(20)]
    assert 5 < sum(order[0] == Path("/scratch") for order in orders) < 15
    assert seismic.in_random_order([Path("/3"), Path("/scratch")], 1) == orders[3]


def test_before_two_sorts_the_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shots.sgy").write_bytes(bytes(9 * MIB))
    job = Job(0, PosixStorage(tmp_path), lambda _: None, threading.Event())
    read: list[int] = []
    monkeypatch.setattr(job, "begin", lambda: read.append(job.storage.counts.received_bytes))
    monkeypatch.setattr(work, "_sort_once", lambda *_: {})
    parameters = {"survey": {"samples": 16, "shots": 1, "seed": 1}, "memory": 8 * MIB}
    for tiers in (["/a"], ["/a", "/b"]):
        work.sort(job, parameters | {"tiers": tiers, "source": str(tmp_path / "shots.sgy")})
    assert read == [0, 9 * MIB]


@pytest.mark.slow
def test_a_damaged_input_ends_the_run(tmp_path: Path) -> None:
    run_of(tmp_path)
    (data,) = tmp_path.glob("penstock-data-*/shots-*.sgy")
    with data.open("r+b") as file:
        file.seek(DATA_AT + 500)
        file.write(b"\0\0\0\0")
    outcome, actual = check_of(run_of(tmp_path), "traces sorted")
    assert outcome == "failed"
    assert "before they were sorted" in actual


def test_keys_sort_as_cdp_and_offset_do() -> None:
    rows = numpy.zeros(5, trace_type(16))
    rows["cdp"], rows["offset"] = [1, 1, -3, 2, 1], [-50, 20, 9, -(2**31), 2**31 - 1]
    order = numpy.argsort(keys_of(rows)).tolist()
    assert order == [2, 0, 1, 4, 3]


def test_too_little_memory_is_refused_with_the_number_of_runs() -> None:
    with pytest.raises(UsageError, match=r"too little to merge [0-9]+ runs in one pass"):
        sort_plan(10_000_000, 1500, 4 * MIB)
    with pytest.raises(UsageError, match="NOWHERE is not set"):
        require_tier("$NOWHERE")


@pytest.mark.parametrize("memory", [5, 16, 64, 256])
@pytest.mark.parametrize("samples", [16, 1500, 8000])
def test_buffers_of_a_plan_fit_into_the_memory(memory: int, samples: int) -> None:
    size = trace_bytes(samples)
    plan = sort_plan(4 * memory * MIB // size, samples, memory * MIB)
    assert 2 * plan.run_traces * size + 3 * plan.chunk_bytes < memory * MIB
    assert 2 * plan.runs * plan.block_traces * size + 3 * plan.chunk_bytes < memory * MIB
