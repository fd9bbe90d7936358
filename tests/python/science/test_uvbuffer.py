"""A buffer's load is what its source describes, its first limit is named right, and a wrong byte is found."""

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from limited_buffers import SHORT, target_of

from penstock.bench.data.folder import BenchFolder
from penstock.bench.run.run import Telling
from penstock.bench.science.uvbuffer.buffer import PASSES, Buffer
from penstock.bench.science.uvbuffer.limits import KINDS, Kind, Limits, limits_of, needed_by
from penstock.bench.science.uvbuffer.parameters import UvbufferParameters
from penstock.bench.science.uvbuffer.run import WORK, BufferRequest, _findings, full_case, run_buffer
from penstock.bench.science.uvbuffer.visibilities import Content, problem_of
from penstock.bench.statistics.values import derived_of, readings_of, values_of
from penstock.cli.option_table import validated
from penstock.model.bench.runs import Run
from penstock.model.errors import UsageError
from penstock.model.units import human_number

LIMITED = "limited_buffers"
ROOT = Path(__file__).parents[3]


def run_of(place: Path, module: str = WORK, **changed: Any) -> Run:
    parameters = UvbufferParameters.model_validate(SHORT | changed)
    buffer = parameters.buffer
    jobs = buffer.writers + buffer.readers + 1
    request = BufferRequest(buffer, parameters.seed, parameters.workload("uvbuffer", jobs))
    with BenchFolder.make(place) as folder:
        return run_buffer(request, folder, Telling(lambda _: None, lambda _: None), module)


def check_of(run: Run, name: str) -> tuple[str, str]:
    return next((each.outcome, each.actual) for each in run.checks if each.name == name)


def limited(place: Path, patch: pytest.MonkeyPatch, kind: str, share: float, **changed: Any) -> Run:
    patch.setenv("LIMIT", f"{kind}:{share * target_of(kind)}")
    return run_of(place, LIMITED, **changed)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(name, marks=() if name in ("deletes", "write bandwidth") else pytest.mark.slow)
        for name, *_ in KINDS
    ],
)
def test_the_first_limit_is_named(memory: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    run = limited(memory, monkeypatch, kind, 0.4, seconds=4.8)
    assert run.science is not None
    assert run.science.findings[0].startswith(f"the first limit is {kind}: ")
    who = {"opens": "readers", "read bandwidth": "readers", "deletes": "the deleter"}.get(kind, "writers")
    assert re.search(
        rf"were due \([0-9.]+ %.*; {who} spent [0-9.]+ % of the time on it$", run.science.findings[0]
    )
    # Less than 0.4 where its processes were kept off the processor, which may take 3 of the 4.2 s that count.
    assert 0.1 < values_of(run)[f"{kind} share"].value < 0.55
    assert check_of(run, "content")[0] == "ok"
    needed = derived_of(run)[f"storages for {kind}"].value
    assert needed == pytest.approx(_full(kind) / values_of(run)[kind].value, rel=0.011, abs=1)


@pytest.mark.parametrize(
    ("capacity", "decides", "most"), [(10**9, "capacity", 303_000_000), (10**18, "opens", 1_160_000)]
)
def test_the_finding_has_the_number_of_storages_needed(capacity: int, decides: str, most: float) -> None:
    full = 5 * 1e8 / 43200
    kind = Kind("opens", "read", False, target_per_s=1.0, done_per_s=0.01, busy=0.5, full_per_s=full)
    needed = needed_by(Limits([kind], {"read": 0.1}), capacity)
    assert (needed.decides, needed.most) == (decides, most)
    (said,) = full_case(needed, capacity)
    assert f" takes {human_number(most)} such storages" in said
    assert said.endswith(f"; {decides} decides")


@pytest.mark.parametrize(
    ("taken_s", "first", "words"),
    [
        (
            {"delete": 2.0, "list": 7.0},
            "directory listings",
            "5 deletes/s were reached and 10 deletes/s were due",
        ),
        ({"delete": 6.0, "list": 3.0}, "deletes", "5/s were reached and 10/s were due"),
    ],
)
def test_the_time_of_a_listing_is_not_that_of_deletes(
    taken_s: dict[str, float], first: str, words: str
) -> None:
    """Of a deleter that is late, and of other jobs that are not."""
    buffer = Buffer(10, 4096, interval_s=1.0, block=1, life_s=1.0, seconds=11.0, writers=1, readers=1)
    done = {"write": 100, "read": 500, "delete": 50}
    results = [
        {"role": role, "counts": {"done": count}, "taken_s": taken_s if role == "delete" else {}}
        for role, count in done.items()
    ]
    limits = limits_of(buffer, results)
    assert limits.first.name == first
    assert limits.headroom == pytest.approx(0.5 / 0.9)
    (said,) = _findings(limits)
    assert said.startswith(f"the first limit is {first}: {words}")


def _full(kind: str) -> float:
    full = 7e12 if "bandwidth" in kind else 1e8 / 43200
    return full * (5 if kind in ("opens", "read bandwidth") else 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_named_in_each_of_twenty_runs(
    memory: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chosen = random.Random(seed)
    kind = KINDS[seed % len(KINDS)][0]
    run = limited(memory, monkeypatch, kind, chosen.uniform(0.3, 0.8), seconds=6.0)
    assert run.science is not None
    assert run.science.findings[0].startswith(f"the first limit is {kind}: ")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("byte:9", "snapshot 2, channels from 10 on: the checksum"),
        (
            "stale:10",
            "snapshot 2, channels from 20 on: it has the content of snapshot 2, channels from 10 on",
        ),
    ],
)
def test_a_wrong_file_is_named_and_makes_the_run_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, said: str
) -> None:
    monkeypatch.setenv("LIMIT", wrong)
    run = run_of(tmp_path, LIMITED, seconds=5.0)  # the reader may be late by 4 s
    outcome, actual = check_of(run, "content")
    assert (outcome, run.validity) == ("failed", "invalid")
    assert actual.startswith(said)


def test_a_run_has_all_its_values_and_leaves_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, writers=2, readers=2)
    parameters = UvbufferParameters.model_validate(SHORT)
    # A consumer that looks late sees no signal.
    assert set(readings_of(run)) | {"signal"} == {*parameters.values(), *parameters.derived()}
    assert next(iter(values_of(run))) == "sustained"
    assert run.science is not None
    assert [job.problem for job in run.science.jobs] == [None] * 5
    assert 4 * 3 <= derived_of(run)["files at once"].value <= 4 * 13
    assert list(tmp_path.iterdir()) == []


def test_a_long_run_needs_no_more_space_than_a_short_one() -> None:
    short, long = (
        UvbufferParameters.model_validate({"seconds": seconds}).job() for seconds in (40.0, 86400.0)
    )
    assert (short.bytes, short.files) == (long.bytes, long.files)
    # 64 files per second, with a life of 12 s and a block of 4 s; the margin is a half.
    assert long.files == 1.5 * 64 * (12 + 4)
    assert long.bytes == long.files * (512 << 10)


def test_the_schedule_is_that_of_the_source() -> None:
    buffer = Buffer(6, 8192, 0.5, 4, 6.5, 20.0, writers=2, readers=3)
    written = {due.number: due.at_s for writer in range(2) for due in buffer.writes(writer)}
    deleted = {due.number: due.at_s for due in buffer.deletes()}
    assert sorted(written) == list(range(6 * buffer.snapshots)) == sorted(deleted)
    for (last, block), reader in itertools.product(buffer.blocks(), range(3)):
        reads = list(buffer.reads(reader, block))
        assert len(reads) == PASSES * 2 * 4
        assert all(written[each.number] <= last.at_s <= each.at_s < deleted[each.number] for each in reads)
        channels = [each.number % 6 for each in reads]
        assert channels == [reader] * 4 + [reader + 3] * 4 + (channels[8:])
        assert [each.number // 6 - 4 * block for each in reads[:4]] == [0, 1, 2, 3]
        assert [each.at_s for each in reads] == sorted(each.at_s for each in reads)
    all_reads = [due for reader in range(3) for due in buffer.reads(reader, 1)]
    assert len({due.at_s for due in all_reads}) == PASSES * buffer.files * buffer.block
    span = max(due.at_s for due in all_reads) - min(due.at_s for due in all_reads)
    assert len(all_reads) / span == pytest.approx(5 * buffer.files_per_s, rel=0.01)


def test_each_byte_of_a_file_counts() -> None:
    content = Content(8192, 4, 1)
    good = bytes(content.fill(9))
    assert problem_of(memoryview(good), 9, 4) == ""
    chosen = random.Random(2)
    for at in [*range(48), *(chosen.randrange(48, 8192) for _ in range(200))]:
        bad = bytearray(good)
        bad[at] ^= 1 << chosen.randrange(8)
        assert problem_of(memoryview(bad), 9, 4), at
    assert "content of snapshot 2, channels from 10 on" in problem_of(memoryview(good), 10, 4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lifetime": 0.5}, "shorter than 3 blocks"),
        ({"seconds": 0.6}, "must exceed the lifetime"),
        ({"readers": 5}, "5 exceeds the 4 files of a snapshot"),
    ],
)
def test_impossible_loads_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        UvbufferParameters.model_validate(SHORT | changed)


def test_the_remedy_of_a_short_run_names_both_options() -> None:
    with pytest.raises(UsageError) as refused:
        validated(UvbufferParameters, {"seconds": 5.0})
    assert "seconds: 5 must exceed the lifetime of 12 s" in refused.value.message
    assert refused.value.remedy == "increase --seconds, or reduce --lifetime"


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, 'tests/python/science')\n"
        "from pathlib import Path; from test_uvbuffer import run_of\n"
        f"print(run_of(Path({str(tmp_path)!r}), seconds=60).model_dump_json())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*/uv-*"))) < 12 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    run = Run.model_validate_json(process.communicate(timeout=60)[0])
    assert run.document.interrupted
    assert check_of(run, "complete") == ("warning", "it was interrupted")
    assert values_of(run)["creates"].value > 0
    assert list(tmp_path.iterdir()) == []
