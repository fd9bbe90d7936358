"""Each condition of a sound measurement, met and not met."""

import re
from pathlib import Path
from typing import Any

import pytest
from bench_documents import (
    SECOND,
    frames_document,
    histogram,
    machine,
    paced_document,
    step_of,
    verdict_of,
)

from penstock.bench.judge.checks import (
    LARGE_ENOUGH,
    check_read,
    check_read_back,
    check_size,
    check_steady_phase,
    check_storage_was_written,
    frame_checks,
    machine_checks,
    validity_of,
)
from penstock.bench.judge.conditions import direct_cached, own_cache
from penstock.bench.judge.generator_checks import check_handing_over, check_own_work, check_running
from penstock.bench.judge.rank_checks import ended_together
from penstock.files.storage import Mount
from penstock.model.bench.load import LoadDocument, StreamPhase
from penstock.model.bench.runs import StreamFigures


def outcomes(
    document: LoadDocument, ceiling_hz: float | None = 1000.0, memory: bool = False
) -> dict[str, str]:
    """The checks that are not ok."""
    checks = frame_checks(document, ceiling_hz, memory)
    assert all(check.advice for check in checks if check.outcome != "ok")
    return {check.name: check.outcome for check in checks if check.outcome != "ok"}


def test_a_sound_run_passes_all() -> None:
    checks = frame_checks(frames_document(), 1000.0, False)
    assert validity_of(checks) == "valid", [check for check in checks if check.outcome != "ok"]
    assert len({check.name for check in checks}) == len(checks) == 11


def plan_of(direct: bool = False, **changes: Any) -> dict[str, Any]:
    """Of a run whose files did not use direct I/O, whether it asked for that or not."""
    plan = frames_document().plan.model_dump()
    plan["backend"] |= changes | {"direct": direct}
    return {"plan": plan, "storage": {"direct": False}}


@pytest.mark.parametrize(
    ("changes", "name", "outcome"),
    [
        ({"problem": "no space"}, "complete", "failed"),
        ({"interrupted": True}, "complete", "warning"),
        (
            {"due": 51, "seconds": {"last_due": 5, "first_done": 0, "last_done": 5, "completed": 5}},
            "long enough",
            "warning",
        ),
        (
            {"due": 5, "seconds": {"last_due": 0, "first_done": 0, "last_done": 0.5, "completed": 0.5}},
            "long enough",
            "failed",
        ),
        (plan_of(sync="none"), "storage, not the page cache", "failed"),
        (plan_of(sync="end"), "storage, not the page cache", "warning"),
        ({"machine": machine(steal=3)}, "no steal", "warning"),
        ({"machine": machine(steal=10)}, "no steal", "failed"),
        ({"machine": machine(user=20)}, "machine quiet", "warning"),
        (
            {"generator": {"pacer_goes_first": True, "pacer_waited_ns": 3 * SECOND, "writers": []}},
            "processors available",
            "warning",
        ),
    ],
)
def test_each_condition_is_noticed(changes: dict[str, Any], name: str, outcome: str) -> None:
    assert outcomes(frames_document(**changes)) == {name: outcome}


def test_conditions_of_memory_file_systems_and_direct_io() -> None:
    assert outcomes(frames_document(**plan_of(sync="none")), memory=True) == {}
    assert outcomes(frames_document(**plan_of(sync="each"))) == {}


def test_content_that_storage_may_compress_is_told() -> None:
    plan = frames_document().plan.model_dump() | {"content": "zeros"}
    assert outcomes(frames_document(plan=plan)) == {"incompressible content": "warning"}


def test_the_generators_own_stalls_are_its_own() -> None:
    times = frames_document().times
    assert times is not None
    stalled = times.model_dump() | {"jitter": histogram(*[10_000] * 299, 2 * SECOND)}
    assert outcomes(frames_document(times=stalled)) == {"generator on schedule": "failed"}
    slow = times.model_dump() | {"jitter": histogram(*[10_000] * 200, *[20_000_000] * 100)}
    assert outcomes(frames_document(times=slow)) == {"generator on schedule": "warning"}


@pytest.mark.parametrize(("ceiling", "outcome"), [(None, "warning"), (15.0, "warning"), (10.5, "failed")])
def test_the_generators_ceiling_has_to_be_above_the_rate(ceiling: float | None, outcome: str) -> None:
    assert outcomes(frames_document(), ceiling) == {"generator not the bottleneck": outcome}


def test_latency_that_rises_to_the_end_is_not_steady() -> None:
    records = frames_document().records
    assert records is not None
    done = [n * SECOND // 10 + n * 2_000_000 for n in range(300)]
    assert outcomes(frames_document(records=records.model_dump() | {"done_ns": done})) == {
        "steady latency": "warning"
    }


@pytest.mark.parametrize(("later_ms", "expected"), [(3, {}), (30, {"steady latency": "warning"})])
def test_latency_matters_beside_the_time_that_a_frame_has(later_ms: int, expected: dict[str, str]) -> None:
    """From 1 ms to 3 ms is nothing at 10 Hz, however sure it is."""
    records = frames_document().records
    assert records is not None
    done = [n * SECOND // 10 + (1 if n < 150 else later_ms) * 1_000_000 + n % 7 for n in range(300)]
    assert outcomes(frames_document(records=records.model_dump() | {"done_ns": done})) == expected


@pytest.mark.parametrize("rate_hz", [0.0, 10.0])
def test_bandwidth_that_falls_half_way_is_not_steady(rate_hz: float) -> None:
    document = frames_document()
    assert document.records is not None
    plan = document.plan.model_dump()
    plan["workload"]["rate_hz"] = rate_hz
    periods = [0.1] * 150 + [0.1 / 0.7] * 150
    done = [int(sum(periods[: n + 1]) * SECOND) for n in range(300)]
    found = outcomes(frames_document(plan=plan, records=document.records.model_dump() | {"done_ns": done}))
    assert found["steady bandwidth"] == "warning"
    assert set(found) <= {"steady bandwidth", "steady latency"}


def stream_phase(bytes_each: list[int]) -> StreamPhase:
    columns = dict.fromkeys(
        ("due", "dropped", "done", "late", "held_max", "time_max_ns"), [0] * len(bytes_each)
    )
    return StreamPhase.model_validate(
        {
            "phase": "write",
            "bytes": sum(bytes_each),
            "operations": 1,
            "mismatches": None,
            "cached_bytes": None,
            "times": {"service": histogram(1)},
            "threads": [],
            "series": {"interval_s": 0.5, "bytes": bytes_each, **columns},
        }
    )


def compared(verify_ns: int | None, done_s: list[float]) -> StreamPhase:
    threads = [{"bytes": 1, "done_s": seconds, "waited_ns": 0} for seconds in done_s]
    changes = {"phase": "read", "verify_ns": verify_ns, "threads": threads}
    return StreamPhase.model_validate(stream_phase([1]).model_dump() | changes)


def paused(seconds: float) -> StreamPhase:
    """Half of which the generator stood still in."""
    gaps = {"longest_ns": round(seconds * 5e8), "sum_ns": round(seconds * 5e8)}
    return StreamPhase.model_validate(compared(None, [seconds]).model_dump() | {"gaps": gaps})


def test_a_pause_in_a_phase_that_is_too_short_spoils_no_other() -> None:
    even = StreamPhase.model_validate(
        paused(12).model_dump() | {"phase": "write", "gaps": {"longest_ns": 0, "sum_ns": 0}}
    )

    def outcome(*phases: StreamPhase) -> str:
        told = [phase.model_dump() for phase in phases]
        (check,) = check_running(frames_document(generator=None, phases=told))
        return check.outcome

    assert outcome(even, paused(0.9)) == "ok"
    assert outcome(even, paused(1.1)) == "failed"
    assert outcome(paused(0.9)) == "failed", "there is no other"


def test_comparing_what_was_read_is_no_bottleneck() -> None:
    """Of the time of all threads together, which the last one's is."""
    (check,) = check_own_work(compared(SECOND, [10.0, 10.0]))
    assert (check.outcome, check.actual) == ("ok", "5.0 %")
    (check,) = check_own_work(compared(3 * SECOND, [10.0, 5.0]))
    assert (check.name, check.outcome) == ("generator not the bottleneck (read)", "warning")
    assert (check.actual, check.bias) == ("15.0 %", "worse")
    assert "--no-verify" in check.advice
    assert list(check_own_work(compared(None, [10.0]))) == []
    assert list(check_own_work(compared(SECOND, []))) == []


def test_making_what_is_written_is_no_bottleneck() -> None:
    threads = [{"bytes": 1, "done_s": 10.0, "waited_ns": 0}] * 2
    changes = {"phase": "write", "threads": threads}
    phase = stream_phase([1]).model_dump() | changes
    (check,) = check_own_work(StreamPhase.model_validate(phase | {"fill_ns": SECOND}))
    assert (check.name, check.outcome, check.actual) == (
        "generator not the bottleneck (write)",
        "ok",
        "5.0 %",
    )
    (check,) = check_own_work(StreamPhase.model_validate(phase | {"fill_ns": 2 * SECOND}))
    assert (check.outcome, check.bias, check.actual) == ("warning", "worse", "10.0 %")


@pytest.mark.parametrize(
    ("service_s", "outcome", "actual"), [(9.8, "ok", "2.0 %"), (6.0, "warning", "40.0 %")]
)
def test_writers_that_wait_for_the_generator_are_told(service_s: float, outcome: str, actual: str) -> None:
    """Two writers, done after 12 and 8 s, with 20 frames of so much in all; a third had nothing to do."""
    writers = [
        {"written": 10, "first_done_s": 1.0, "last_done_s": 12.0, "waited_ns": 0},
        {"written": 10, "first_done_s": 1.0, "last_done_s": 8.0, "waited_ns": 0},
        {"written": 0, "first_done_s": None, "last_done_s": None, "waited_ns": 0},
    ]
    generator = {"pacer_goes_first": False, "pacer_waited_ns": 0, "writers": writers}
    times = paced_document(0.0, 20).model_dump()["times"]
    times["service"] = histogram(*[int(service_s / 10 * SECOND)] * 20)
    document = paced_document(0.0, 20, generator=generator, times=times)
    (check,) = check_handing_over(document)
    assert (check.name, check.outcome, check.actual) == ("generator not the bottleneck", outcome, actual)
    assert check in frame_checks(document, None, False)
    assert check.name not in [each.name for each in frame_checks(paced_document(0.0, 20), None, False)]


@pytest.mark.parametrize(
    ("own_ns", "storage_ns", "outcome"),
    [(0, None, "ok"), (0, SECOND, "ok"), (0, 3 * SECOND, "warning"), (3 * SECOND, SECOND, "warning")],
)
def test_threads_of_the_back_end_want_processors_too(
    own_ns: int, storage_ns: int | None, outcome: str
) -> None:
    """A store checks, writes and indexes in threads of its own."""
    threads = [{"bytes": 1, "done_s": 30.0, "waited_ns": own_ns}]
    changes = {"storage_waited_ns": storage_ns, "threads": threads}
    phase = stream_phase([1]).model_dump() | changes
    stream = {"kind": "stream", "thread_bytes": 1, "transfer_bytes": 1}
    plan = frames_document().plan.model_dump() | {"workload": stream}
    document = frames_document(plan=plan, phases=[phase], generator=None)
    (found,) = (one for one in machine_checks(document, 30.0) if one.name == "processors available")
    assert found.outcome == outcome
    assert re.fullmatch(r"waiting for a processor: [0-9.]+ % of the time", found.actual)


@pytest.mark.parametrize(
    ("slow", "expected"),
    [(1, "cannot be assessed: the scatter is too large"), (900, "at the end, within the l")],
)
def test_a_stream_that_scatters_too_much_cannot_be_called_steady(slow: int, expected: str) -> None:
    """A storage that stands still now and then moves hundreds of times as much in one tenth as in another."""
    tenths = [slow, slow, 1000, slow, slow, 1000, slow, 1000, slow, 1000]
    (check,) = check_steady_phase(stream_phase([each for each in tenths for _ in range(6)] + [0]), "--size")
    assert expected in check.actual


def test_a_stream_that_falls_is_not_steady() -> None:
    even = [1000 + n % 7 for n in range(60)]
    (check,) = check_steady_phase(stream_phase([*even, 0]), "--size")  # the last interval is not whole
    assert check.outcome == "ok"
    (check,) = check_steady_phase(stream_phase([*even[:30], *(7 * n // 10 for n in even[30:]), 0]), "--size")
    assert (check.name, check.outcome, check.bias) == ("steady bandwidth (write)", "warning", "better")
    assert check.actual == "slower at the end: -30 %"
    assert check.advice.startswith("increase --size, so that ")
    assert list(check_steady_phase(stream_phase(even[:40]), "--size")) == []


@pytest.mark.parametrize(
    ("direct", "cached", "mismatches", "expected"),
    [
        (True, 0.0, 0, ["ok", "ok"]),
        (True, None, 0, ["ok", "ok"]),
        (True, 1.0, 0, ["ok", "failed"]),  # a file system that takes O_DIRECT, and caches
        (False, 0.0, 0, ["ok", "ok"]),
        (False, 0.05, 0, ["ok", "warning"]),
        (False, 0.5, 2, ["failed", "failed"]),
        (False, None, None, ["warning"]),
    ],
)
def test_reads_are_of_storage_and_right(
    direct: bool, cached: float | None, mismatches: int | None, expected: list[str]
) -> None:
    figures = StreamFigures(
        phase="read",
        bytes=1,
        bytes_per_s=1,
        first_done_s=1,
        last_done_s=1,
        service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
        cached_share=cached,
        mismatches=mismatches,
    )
    document = frames_document(storage={"direct": direct})
    checks = [*check_read_back(figures), *check_read(document, figures, False)]
    assert [check.outcome for check in checks] == expected


def test_direct_writes_that_are_cached_below_are_no_direct_writes() -> None:
    document = frames_document(**plan_of(sync="none") | {"storage": {"direct": True}})
    assert check_storage_was_written(document, 1, False).outcome == "ok"
    check = check_storage_was_written(document, 1, False, "loop0 is a loop device whose file is cached")
    assert (check.outcome, check.bias, check.advice) == ("failed", "better", "use --sync each")
    assert "loop0" in check.actual
    figures = StreamFigures(
        phase="read",
        bytes=1,
        bytes_per_s=1,
        first_done_s=1,
        last_done_s=1,
        service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
        cached_share=0.0,
        mismatches=None,
    )
    (read,) = check_read(document, figures, False, "loop0 is a loop device whose file is cached")
    assert (read.outcome, read.bias) == ("warning", "better")


@pytest.mark.parametrize(("sync", "outcome"), [("none", "failed"), ("end", "warning"), ("each", "warning")])
def test_refused_direct_io_is_reported_with_the_option_that_avoids_it(sync: str, outcome: str) -> None:
    document = frames_document(**plan_of(direct=True, sync=sync))
    check = check_storage_was_written(document, 1, False)
    assert (check.outcome, "rejects direct I/O" in check.actual) == (outcome, True), check
    assert check.advice.startswith("use --buffered"), "the option was not given, so it cannot be left out"
    assert sync == "each" or "--sync each" in check.advice


@pytest.mark.parametrize(
    ("read", "own_cache", "outcome"),
    [
        (1 << 30, "", "ok"),  # the page cache is looked into
        (1 << 30, "zfs has its own cache", "warning"),
        (1 << 40, "zfs has its own cache", "ok"),
    ],
)
def test_reads_are_larger_than_caches_that_nobody_sees(read: int, own_cache: str, outcome: str) -> None:
    figures = StreamFigures(
        phase="read",
        bytes=read,
        bytes_per_s=1,
        first_done_s=1,
        last_done_s=1,
        service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
        cached_share=0.0,
        mismatches=0,
    )
    document = frames_document(storage={"direct": False})
    document.machine["before"]["memory_bytes"]["total"] = 16 << 30
    (check,) = check_size(document, figures, False, own_cache)
    assert (check.name, check.outcome, check.bias) == (LARGE_ENOUGH, outcome, "better")
    assert "of memory" in check.actual
    assert own_cache in check.actual
    assert list(check_size(document, figures, True, own_cache)) == [], "memory is meant"
    write = figures.model_copy(update={"phase": "write"})
    assert list(check_size(document, write, False, own_cache)) == []


def test_file_systems_with_caches_of_their_own_are_known(tmp_path: Path) -> None:
    for kind in ("zfs", "gpfs", "fuse.sshfs", "fuseblk", "9p", "virtiofs"):
        mount = Mount("/mnt", kind, "/dev/x", "1:1", {})
        assert own_cache(mount, tmp_path) == f"{kind} has its own cache"
    for kind in ("ext4", "xfs", "nfs4", "lustre", "tmpfs", "fusectl"):
        assert own_cache(Mount("/mnt", kind, "/dev/x", "1:1", {}), tmp_path) == ""


def test_caches_below_direct_io_are_found(tmp_path: Path) -> None:
    def mount_of(kind: str, device: str = "1:1", **options: str) -> Mount:
        return Mount("/mnt", kind, "/dev/x", device, options)

    assert direct_cached(mount_of("ext4"), tmp_path) == ""
    assert "data=journal" in direct_cached(mount_of("ext4", data="journal"), tmp_path)
    assert direct_cached(mount_of("ext4", data="ordered"), tmp_path) == ""
    for kind in ("zfs", "fuse.sshfs", "fuseblk", "9p", "virtiofs"):
        assert direct_cached(mount_of(kind), tmp_path) == f"{kind} accepts direct I/O but may cache it"
    assert direct_cached(mount_of("gpfs"), tmp_path) == ""
    loop, mapper = tmp_path / "loop3", tmp_path / "dm-0"
    for folder in (loop / "slaves", loop / "loop", mapper / "slaves"):
        folder.mkdir(parents=True)
    (mapper / "slaves" / "loop3").symlink_to(loop)
    (tmp_path / "254:0").symlink_to(mapper)
    (tmp_path / "7:3").symlink_to(loop)
    for dio, found in (("1", ""), ("0", "loop3 is a loop device whose file is cached")):
        (loop / "loop" / "dio").write_text(dio + "\n")
        assert direct_cached(mount_of("xfs", "7:3"), tmp_path) == found
        assert direct_cached(mount_of("xfs", "254:0"), tmp_path) == found


def test_a_run_as_fast_as_it_goes_is_long_enough_or_void() -> None:
    short = paced_document(0.0, 100, duration_s=0.04)
    (found,) = (check for check in frame_checks(short, None, False) if check.name == "long enough")
    assert found.outcome == "failed"
    assert found.advice.startswith("increase --frames, so that ")
    (found,) = (c for c in frame_checks(short, None, False, longer="--soak") if c.name == "long enough")
    assert found.advice.startswith("increase --soak, so that ")
    long = paced_document(0.0, 100, duration_s=20.0)
    assert {c.name: c.outcome for c in frame_checks(long, None, False)}["long enough"] == "ok"


@pytest.mark.parametrize(("share", "outcome"), [(0.9, "ok"), (0.6, "warning"), (0.2, "failed")])
def test_threads_that_end_far_apart_are_not_one_measurement(share: float, outcome: str) -> None:
    assert ended_together("threads", share, "more").outcome == outcome


def test_storage_that_hangs_is_a_no_and_no_error() -> None:
    counts = frames_document(dropped=10).frames
    assert counts is not None
    hung = frames_document(
        dropped=10,
        problem="5 frames were not done 60 s after the last one was due",
        frames=counts.model_dump() | {"unfinished": 5, "written": 285},
    )
    assert outcomes(hung) == {"complete": "warning"}
    verdict = verdict_of(step_of("rate", hung, *frame_checks(hung, 1000.0, False)), problem=hung.problem)
    assert (verdict.answer, verdict.lost) == ("no", 15)


def test_ten_seconds_are_ten_seconds() -> None:
    """The last of 100 frames at 10 Hz is due, and done, before they are over."""
    seconds: Any = {"last_due": 9.8, "first_done": 0, "last_done": 9.802, "completed": 9.802}
    assert "long enough" not in outcomes(frames_document(due=100, seconds=seconds))
    assert outcomes(frames_document(due=99, seconds=seconds))["long enough"] == "warning"


@pytest.mark.parametrize(("due", "outcome"), [(1, "failed"), (9, "warning")])
def test_few_frames_at_a_low_rate_last_as_long_as_they_took(due: int, outcome: str) -> None:
    last_s = (due - 1) * 1.2
    seconds = {"last_due": last_s, "first_done": 0, "last_done": last_s + 0.002, "completed": last_s + 0.002}
    document = paced_document(1 / 1.2, due, seconds=seconds)
    assert outcomes(document)["long enough"] == outcome


def test_a_generator_that_is_stopped_often_is_no_better_for_its_late_frames() -> None:
    found = frames_document()
    assert found.times is not None
    assert found.generator is not None
    slow = found.times.model_dump() | {"jitter": histogram(*[10_000] * 200, *[20_000_000] * 100)}
    gaps = {"longest_ns": SECOND // 12, "sum_ns": 4 * SECOND}
    stopped = frames_document(times=slow, generator=found.generator.model_dump() | {"gaps": gaps})
    assert outcomes(stopped) == {"generator on schedule": "failed"}
