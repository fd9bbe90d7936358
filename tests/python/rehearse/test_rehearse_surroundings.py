"""What else a rehearsal notices: memory, the page cache, other programs."""

from pathlib import Path
from typing import Any

import pytest
from bench_documents import CONDITIONS
from test_rehearse_notes import request_of

from penstock.bench.rehearse.chain import Chain
from penstock.bench.rehearse.processors import Processors, processors
from penstock.bench.rehearse.surroundings import check_past_the_cache, series_checks
from penstock.model.bench.runs import Meanwhile
from penstock.model.configuration import Configuration
from penstock.model.events import RecorderSeriesEnd
from penstock.model.plans import RecorderPlan


def plan_of(**store: Any) -> RecorderPlan:
    return Configuration.model_validate({"store": store}).plan({})


@pytest.mark.parametrize(
    ("store", "facts", "outcome", "words"),
    [
        ({}, {}, "ok", "direct I/O"),
        ({"direct": False}, {}, "warning", "store.direct is false, and store.durability is none"),
        ({"direct": False, "durability": "segment"}, {}, "ok", "with a sync (store.durability: segment)"),
        ({}, {"direct_refused": True}, "warning", "the file system rejects direct I/O"),
        ({}, {"direct_cached": "zfs keeps it"}, "warning", "zfs keeps it"),
        ({"direct": False}, {"file_system": "tmpfs"}, "ok", "the target is memory"),
    ],
)
def test_page_cache_is_no_storage(
    store: dict[str, Any], facts: dict[str, Any], outcome: str, words: str
) -> None:
    refused = facts.pop("direct_refused", False)
    conditions = CONDITIONS.model_copy(update=facts)
    check = check_past_the_cache(plan_of(**store), conditions, direct_refused=refused)
    assert check.outcome == outcome
    assert words in check.actual


def found(moved: int, others: float | None = 0.0, memory: str = "", runs: tuple[str, ...] = ()) -> list[str]:
    """Names of the checks that a series of 100 MB does not pass."""
    meanwhile = Meanwhile(
        device="vda", device_read_bytes=0, device_written_bytes=moved, other_runs=list(runs)
    )
    end = RecorderSeriesEnd(event="series_end", stored_bytes=10**8, frames_written=100, seconds=10.0)
    conditions = CONDITIONS.model_copy(update={"memory": memory})
    checks = series_checks(plan_of(), conditions, meanwhile, end, others, direct_refused=False)
    return [check.name for check in checks if check.outcome != "ok"]


def test_checks_of_a_series_are_those_of_a_verdict() -> None:
    assert found(101_000_000) == []
    assert found(101_000_000, None) == []
    assert found(20_000_000) == ["moved by the device"]
    assert found(300_000_000) == ["storage used exclusively"]
    assert found(101_000_000, runs=("/x/penstock-bench-1",)) == ["storage used exclusively"]
    assert found(101_000_000, others=0.4) == ["machine quiet"]
    assert found(101_000_000, memory="tmpfs keeps files in memory") == ["storage, not memory"]


def fake_process(proc: Path, number: int, parent: int, ticks: int) -> None:
    (proc / str(number)).mkdir(exist_ok=True)
    fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0"]
    (proc / str(number) / "stat").write_text(f"{number} (a) b) {' '.join(fields)}", encoding="utf-8")


def test_others_share_leaves_out_this_process_and_what_it_started(tmp_path: Path) -> None:
    def look(user: int, idle: int, own: int, child: int, other: int) -> Processors:
        (tmp_path / "stat").write_text(f"cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1\n", encoding="utf-8")
        for number, parent, ticks in ((7, 1, own), (8, 7, 0), (9, 8, child), (10, 1, other)):
            fake_process(tmp_path, number, parent, ticks)
        seen = processors(tmp_path, 7)
        assert seen is not None
        return seen

    before = look(user=1000, idle=1000, own=10, child=20, other=900)
    now = look(user=1090, idle=1010, own=20, child=60, other=940)
    assert before.others_share(now) == pytest.approx(0.4)
    assert now.others_share(now) is None
    assert processors(tmp_path / "none") is None
    assert processors() is not None


def test_refused_direct_io_is_shown_and_other_warnings_are_not(tmp_path: Path) -> None:
    shown: list[str] = []
    request = request_of(folder=str(tmp_path))
    chain = Chain(request, request.configuration.plan({}), lambda _: None, shown.append)
    chain._take_log("[10:00:00] [recorder] [warning] the storage stalls")
    assert (shown, chain.direct_refused) == ([], False)
    refused = "[10:00:00] [recorder] [warning] no direct I/O for /x/a.h5 (Invalid argument): data is written"
    chain._take_log(refused)
    chain._take_log("[10:00:00] [recorder] [error] a file is gone")
    assert (shown[0], len(shown), chain.direct_refused) == (refused, 2, True)
