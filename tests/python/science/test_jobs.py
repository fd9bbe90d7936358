"""Jobs begin together, are stopped together, and are counted by a slope with clipped ends."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest

from penstock.bench.science.jobs.beside import JobsBeside
from penstock.bench.science.jobs.latencies import Latencies, together
from penstock.bench.science.jobs.slope import Course, clipped_slope
from penstock.bench.science.jobs.team import JobOutcome, JobRequest, run_jobs
from penstock.bench.science.jobs.words import Done
from penstock.bench.statistics.quantiles import quantile_ns
from penstock.model.errors import PenstockError

HERE = "jobs_of_tests"


def request_of(name: str, place: Path, **parameters: Any) -> JobRequest:
    return JobRequest(f"{HERE}:{name}", place, parameters)


def test_the_slope_is_that_of_the_time_in_which_all_jobs_work() -> None:
    """Known, staggered rates: 100, 40 and 7 units a second, with uneven reports."""
    random = numpy.random.default_rng(4711)
    courses = []
    for hz, begin, end in ((100, 0.0, 20.0), (40, 1.5, 21.0), (7, 0.7, 19.0)):
        at = numpy.unique(numpy.concatenate([[begin, end], random.uniform(begin, end, 400)]))
        base = 10**15  # ns of a machine that has been up for days
        courses.append(
            Course(
                [base + round(each * 1e9) for each in at],
                [round(1000 * hz * (each - begin)) for each in at],
                [round(5e6 * (each - begin)) for each in at],
            )
        )
    slope = clipped_slope(courses)
    assert slope.seconds == pytest.approx(17.5)
    assert slope.per_s == pytest.approx(147_000, rel=1e-4)
    assert slope.received_bytes_per_s == pytest.approx(15e6, rel=1e-4)


def test_a_long_course_is_thinned_out_and_has_the_same_slope() -> None:
    """Of rates that change all the time, from 40 000 reports of each job."""
    random = numpy.random.default_rng(4711)
    jobs, whole = [JobOutcome(number, "/data") for number in range(3)], []
    for number, job in enumerate(jobs):
        at = 10**15 + numpy.cumsum(random.integers(40_000_000, 90_000_000, 40_000)) + number * 10**11
        units = numpy.cumsum(random.exponential(50 * (1 + numpy.sin(at * 1e-11) ** 2)).astype(int))
        whole.append(Course(at.tolist(), units.tolist(), units.tolist()))
        for moment, count in zip(whole[-1].at_ns, whole[-1].units, strict=True):
            job.take(Done(at_ns=moment, units=count, asked_bytes=0, received_bytes=count, calls=0))
        assert len(job.reports) <= 1000
    thin, all_of_it = clipped_slope([job.course for job in jobs]), clipped_slope(whole)
    assert (thin.begin_ns, thin.seconds) == (all_of_it.begin_ns, all_of_it.seconds)
    assert thin.per_s == pytest.approx(all_of_it.per_s, rel=1e-3)


@pytest.mark.parametrize("courses", [[], [Course([], [], [])], [Course([5], [1], [1])]])
def test_without_a_common_time_there_is_no_slope(courses: list[Course]) -> None:
    assert clipped_slope(courses).per_s == 0.0


@pytest.mark.slow
def test_jobs_that_begin_late_do_not_bias_the_rate(tmp_path: Path) -> None:
    rates = (100, 40, 10)
    jobs = [request_of("steady", tmp_path, hz=hz, late_s=0.4 * number) for number, hz in enumerate(rates)]
    outcome = run_jobs(jobs, seconds=4)
    assert outcome.problem is None
    assert clipped_slope([job.course for job in outcome.jobs]).per_s == pytest.approx(sum(rates), rel=0.05)
    firsts = [job.reports[0].at_ns - outcome.go_ns for job in outcome.jobs]
    assert max(firsts) < 2e9


def test_the_first_job_that_is_through_stops_all(tmp_path: Path) -> None:
    begins = str(tmp_path / "job 1 works")
    jobs = [
        request_of("steady", tmp_path, hz=100, units=20, waits_for=begins),
        request_of("steady", tmp_path, hz=100, touches=begins),
    ]
    begun = time.monotonic()
    outcome = run_jobs(jobs, seconds=60, until="first")
    assert time.monotonic() - begun < 30
    assert outcome.problem is None
    done = [job.ended.result["done"] for job in outcome.jobs if job.ended]
    assert done[0] == 20
    assert 0 < done[1] < 60 * 100


@pytest.mark.parametrize(("name", "words"), [("dies", "exit code 7"), ("fails", "the file is gone")])
def test_a_job_that_ends_early_is_named_and_the_others_go_on(tmp_path: Path, name: str, words: str) -> None:
    outcome = run_jobs([request_of("steady", tmp_path, hz=50), request_of(name, tmp_path)], seconds=1)
    assert outcome.problem is not None
    assert outcome.problem.startswith("job 1: ")
    assert words in outcome.problem
    assert outcome.jobs[0].problem is None
    assert outcome.jobs[0].reports[-1].units > 0
    assert outcome.jobs[0].reports[-1].at_ns - outcome.go_ns > 0.9e9  # not at once, when the other ended


def test_a_job_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"job 1 did not start: ValueError: no library"):
        run_jobs([request_of("steady", tmp_path, hz=50), request_of("never_ready", tmp_path)], seconds=1)


def test_a_job_that_does_not_start_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="job 0 did not start: no profiles") as raised:
        run_jobs([request_of("knows_why_it_does_not_start", tmp_path)], seconds=1)
    assert raised.value.remedy == "make them"


def test_what_a_library_prints_does_no_harm(tmp_path: Path) -> None:
    outcome = run_jobs([request_of("talks", tmp_path)])
    assert outcome.problem is None
    assert outcome.jobs[0].ended is not None
    assert outcome.jobs[0].ended.result == {"said": True}


def test_a_flood_without_lines_or_text_takes_no_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run_jobs([request_of("floods", tmp_path, mib=400)], patience_s=30)
    assert outcome.problem is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_what_a_job_started_ends_with_it(tmp_path: Path) -> None:
    ended = run_jobs([request_of("leaves_a_child", tmp_path)]).jobs[0].ended
    assert ended is not None
    deadline = time.monotonic() + 60
    while _runs(str(ended.result["child"])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(str(ended.result["child"]))


@pytest.mark.slow
@pytest.mark.timeout(20)
def test_a_job_that_closes_its_output_and_stays_is_ended(tmp_path: Path) -> None:
    outcome = run_jobs([request_of("closes_its_output", tmp_path)])
    assert outcome.problem == "job 0: it closed its output, and did not end"


def test_jobs_that_are_stopped_after_a_silence_have_not_succeeded(tmp_path: Path) -> None:
    outcome = run_jobs([request_of("is_silent", tmp_path)], patience_s=1)
    assert outcome.jobs[0].problem is None
    assert outcome.problem == "no job did anything for 1 s, and all were stopped"


@pytest.mark.slow
def test_a_job_that_moves_bytes_is_not_silent(tmp_path: Path) -> None:
    outcome = run_jobs([request_of("copies", tmp_path, seconds=14)], patience_s=10)
    assert outcome.problem is None
    assert outcome.jobs[0].ended is not None
    assert outcome.jobs[0].ended.result == {"stopped": False}


def test_reads_and_writes_are_counted(tmp_path: Path) -> None:
    place = tmp_path / "new"
    outcome = run_jobs([request_of("writes", place, bytes=100_000)])
    ended = outcome.jobs[0].ended
    assert ended is not None
    assert ended.problem is None
    assert ended.result == {"got": 100_000, "size": 100_000, "names": ["file-0"]}
    assert outcome.jobs[0].reports[-1].received_bytes == 200_000
    assert ended.latencies.count == outcome.jobs[0].reports[-1].calls
    assert set(ended.spent_s) == {"writing", "reading"}


def test_an_interrupt_stops_all_and_keeps_what_they_have(tmp_path: Path) -> None:
    sent = threading.Event()

    def interrupt(units: int, _seconds: float) -> None:
        if units >= 10 and not sent.is_set():
            sent.set()
            os.kill(os.getpid(), signal.SIGINT)

    outcome = run_jobs([request_of("steady", tmp_path, hz=50) for _ in range(2)], 60, on_units=interrupt)
    assert outcome.interrupted
    assert [job.problem for job in outcome.jobs] == [None, None]
    assert sum(job.reports[-1].units for job in outcome.jobs) >= 10


def test_an_interrupt_kills_jobs_whose_work_is_of_no_use(tmp_path: Path) -> None:
    begun = time.monotonic()
    outcome = run_jobs(
        [request_of("pauses", tmp_path, pause_s=300)],
        on_go=lambda: os.kill(os.getpid(), signal.SIGINT),
        keeps=False,
    )
    assert outcome.interrupted
    assert time.monotonic() - begun < 45, "a job that is asked to stop has a minute"


def interrupt_when_jobs_start(count: int) -> None:
    """Sends this process a SIGINT once it has so many more children."""
    this = psutil.Process()
    wanted = len(this.children()) + count

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while len(this.children()) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # this process waits for them by then
        os.kill(this.pid, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


@pytest.mark.slow
def test_an_interrupt_before_the_start_ends_jobs_that_wait(tmp_path: Path) -> None:
    interrupt_when_jobs_start(2)
    begun = time.monotonic()
    outcome = run_jobs([request_of("steady", tmp_path, hz=50), request_of("slow_to_start", tmp_path)], 60)
    assert outcome.interrupted
    assert time.monotonic() - begun < 45


def test_an_interrupt_while_jobs_beside_start_ends_them(tmp_path: Path) -> None:
    before = psutil.Process().children()
    interrupt_when_jobs_start(1)
    with (
        pytest.raises(KeyboardInterrupt),
        JobsBeside([request_of("slow_to_start", tmp_path)], patience_s=60),
    ):
        raise AssertionError("it began")
    assert psutil.Process().children() == before


def test_no_jobs_start_beside_what_an_interrupt_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their thread gets no processor until then."""
    late: list[threading.Thread] = []

    def interrupt(thread: threading.Thread) -> None:
        late.append(thread)
        raise KeyboardInterrupt

    jobs = JobsBeside([request_of("steady", tmp_path, hz=50)], patience_s=60)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            jobs.__enter__()
    late[0].start()
    late[0].join()
    assert jobs.outcome is None


_COMMAND = """
import sys
from pathlib import Path
from penstock.bench.science.jobs.team import JobRequest, run_jobs
run_jobs([JobRequest("jobs_of_tests:steady", Path("/tmp"), {"hz": 10})] * 2, seconds=60,
         on_units=lambda units, seconds: print(units, flush=True))
"""


def test_no_job_outlives_a_killed_command() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND], stdout=subprocess.PIPE, env=environment
    ) as command:
        assert command.stdout is not None
        while int(command.stdout.readline() or b"1") < 1:
            pass
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        assert len(children) == 2
        command.kill()
    deadline = time.monotonic() + 20
    while any(map(_runs, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, children))


def _runs(process: str) -> bool:
    """One that nobody waits for is a zombie, and has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_latencies_keep_their_order_of_magnitude() -> None:
    random = numpy.random.default_rng(11)
    durations = (10 ** random.uniform(1, 11, 5000)).astype(int)
    one, other = Latencies(), Latencies()
    for number, each in enumerate(durations):
        (one if number % 2 else other).add(int(each))
    histogram = together([one.histogram(), other.histogram()])
    assert histogram.count == len(durations)
    for share in (0.01, 0.5, 0.9, 0.999):
        exact = numpy.sort(durations)[int(numpy.ceil(share * len(durations))) - 1]
        assert exact <= quantile_ns(histogram, share) <= exact * 1.004 + 1
