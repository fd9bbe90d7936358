"""`penstock compare` as a user runs it, on documents in files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from bench_documents import paced_document, run_of, searched, step_of, verdict_of
from comparable import campaign_of, run_at, set_of
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from penstock.bench.campaign.entries import read_entry
from penstock.bench.compare import storages
from penstock.bench.compare.sets import read_sets
from penstock.bench.compare.targets import newest_sets
from penstock.bench.judge.checks import frame_checks
from penstock.bench.judge.rank_checks import make_check
from penstock.cli import application
from penstock.files.catalogue import Catalogue, default_path
from penstock.model.bench.campaigns import Campaign, CaseFailure
from penstock.model.bench.comparisons import Comparison, Trend, ValueComparison
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Check, Run, StepKind, StreamFigures
from penstock.model.errors import UsageError
from penstock.report.comparisons import size_text, summary_text
from penstock.report.pages.documents import page_of
from penstock.report.pages.markdown import markdown_of

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "reference"


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(
        application, ["compare", *(str(each) for each in arguments)], catch_exceptions=False
    )


def valid_document(text: str, kind: str) -> Comparison | Trend:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return (Comparison if kind == "comparison" else Trend).model_validate_json(text)


def folder_of(path: Path, factor: float, first: int, kernel: str = "6") -> Path:
    """Six runs, every other minute."""
    path.mkdir()
    numbers = numpy.random.default_rng(first)
    for block in range(6):
        run = run_at(first + 2 * block, factor * 1e7 * numbers.lognormal(0, 0.01), kernel=kernel)
        (path / f"{block}.json").write_text(run.model_dump_json())
    return path


def test_folders_of_runs_that_were_made_in_turn(tmp_path: Path) -> None:
    before, after = folder_of(tmp_path / "a", 1, 0), folder_of(tmp_path / "b", 0.9, 1, kernel="7")
    found = compare(before, after, "--json")
    assert found.exit_code == 1, found.output
    comparison = valid_document(found.stdout, "comparison")
    assert isinstance(comparison, Comparison)
    (row,) = (row for row in comparison.values if row.value == "throughput")
    assert (row.outcome, row.design, row.pairs) == ("worse", "in blocks", 6)
    assert row.effect == pytest.approx(0.9, rel=0.02)
    assert [each.name for each in comparison.conditions] == ["kernel"]
    shown = compare(before, after)
    assert "B is worse" in shown.stdout
    told = " ".join(shown.stdout.split())
    assert "The change is that between neighbouring runs of both sets, the geometric mean" in told
    assert "between the means" not in told
    lines = shown.stdout.splitlines()
    assert lines[0] == "B is worse"
    assert lines[1].startswith("B is 9.9 % slower (throughput): change -")
    assert shown.stdout.index("kernel") < shown.stdout.index("latency p50")
    assert compare(after, before).exit_code == 0
    assert compare(before, after, "--threshold", "20%").exit_code == 0
    assert compare(before, after, "--threshold", "9%").exit_code in (1, 3)


def test_two_single_runs_cannot_tell(tmp_path: Path) -> None:
    for name, place in (("a", 0), ("b", 1)):
        (tmp_path / name).write_text(run_at(place, 1e7 * (1 + place)).model_dump_json())
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 3
    assert "one run each gives no information about noise" in " ".join(found.stdout.split())
    assert "+100 %" in found.stdout
    assert "The change is" not in found.stdout, "it is that of the two values"


def test_a_storage_that_was_as_fast_once_is_not_said_to_be_so(tmp_path: Path) -> None:
    for name, place in (("a", 0), ("b", 1)):
        (tmp_path / name).write_text(run_at(place, 1e7).model_dump_json())
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.stdout.splitlines()[0] == (
        "cannot tell: lost frames 0 % in A, 0 % in B; late frames 0 % in A, 0 % in B; B was as fast as A"
        " (latency p99), in one run each, which may be noise"
    )
    assert "B is" not in found.stdout


def test_runs_that_both_got_the_requested_rate_differ_in_lost_and_late_frames_and_latency() -> None:
    rows = [
        row_of("throughput", "B/s", "higher", 1e7, 1.001e7),
        row_of("lost", "share", "lower", 0.0, 0.001),
        row_of("late", "share", "lower", 0.01, 0.04),
        row_of("latency p50", "ms", "lower", 2.0, 2.0),
        row_of("latency p99", "ms", "lower", 5.0, 15.0),
    ]
    found = storages.compare(
        set_of("A", [0], throughput=[1.0]), set_of("B", [1], throughput=[1.0])
    ).model_copy(update={"values": rows})
    assert summary_text(found).startswith(
        "lost frames 0 % in A, 0.1 % in B; late frames 1 % in A, 4 % in B; B was 3 times slower (latency p99)"
    )
    slower = [row_of("throughput", "B/s", "higher", 1e7, 5e6), *rows[1:]]
    assert summary_text(found.model_copy(update={"values": slower})).startswith("B was 2 times slower (thr")
    unpaced = [rows[0], *rows[3:]]
    assert "as fast as A (throughput)" in summary_text(found.model_copy(update={"values": unpaced}))


def test_a_large_change_is_a_factor() -> None:
    assert size_text(194.0, "B/s", "ratio", "+") == "factor 195"
    assert size_text(0.5, "B/s", "ratio", "+") == "+50 %"


def row_of(name: str, unit: str, better: str, base: float, other: float) -> ValueComparison:
    """One run each."""
    return ValueComparison.model_validate(
        {
            "case": "frames",
            "value": name,
            "unit": unit,
            "better": better,
            "base": {"runs": 1, "low": base, "median": base, "high": base, "confidence": 0},
            "other": {"runs": 1, "low": other, "median": other, "high": other, "confidence": 0},
            "design": "apart",
            "outcome": "too few runs",
            "pairs": 0,
            "scale": "difference" if unit == "share" else "ratio",
            "effect": other - base if unit == "share" else other / base,
            "low": None,
            "high": None,
            "drift": None,
            "detectable": None,
            "p_value": None,
            "p_adjusted": None,
        }
    )


def test_an_interval_that_excludes_nothing_is_called_undetermined(tmp_path: Path) -> None:
    """Three runs of each between which the storage stalled: the change is -99.7 % to +102000 %."""
    for name, first in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        for n, speed in enumerate((1e7, 1e5, 3e8) if name == "a" else (2e7, 4e8, 1e6)):
            (tmp_path / name / f"{n}.json").write_text(run_at(first + 2 * n, speed).model_dump_json())
    ended = compare(tmp_path / "a", tmp_path / "b")
    found = " ".join(ended.stdout.split())
    assert ended.exit_code == 3, "nothing is known, so B is not called no worse"
    assert found.startswith("cannot tell: ")
    assert "(throughput), but the runs are too few to exclude chance" in found
    assert "+199 % too few runs" in found
    assert "undetermined (n = 3)" in found
    assert "throughput: its change is undetermined, because 3 and 3 runs are too few" in found
    assert "detectable from a factor of" in found
    assert "000 %" not in found
    threshold = " ".join(compare(tmp_path / "a", tmp_path / "b", "--threshold", "5%").stdout.split())
    assert "throughput: its change is undetermined, because 3 and 3 runs are too few" in threshold


def test_cases_of_campaigns(tmp_path: Path) -> None:
    noise = numpy.random.default_rng(2).normal(0, 0.01, (4, 6))
    ssd, nfs, ssd_2, nfs_2 = (1e7 * numpy.exp(row) for row in noise)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(campaign_of({"ssd": ssd, "nfs": nfs / 2}).model_dump_json())
    second.write_text(campaign_of({"ssd": ssd_2, "nfs": nfs_2}, start=1000).model_dump_json())
    both = valid_document(compare(first, second, "--json").stdout, "comparison")
    assert isinstance(both, Comparison)
    throughput = {row.case: row for row in both.values if row.value == "throughput"}
    assert {case: row.outcome for case, row in throughput.items()} == {
        "ssd": "indistinguishable",
        "nfs": "better",
    }
    assert {row.design for row in throughput.values()} == {"apart"}
    assert "The change is that between the means of both sets" in " ".join(
        compare(first, second).stdout.split()
    )
    one = valid_document(compare(first, "--base-case", "ssd", "--case", "nfs", "--json").stdout, "comparison")
    assert isinstance(one, Comparison)
    assert (one.values[0].case, one.values[0].outcome) == ("ssd / nfs", "worse")
    assert (one.values[0].design, one.values[0].pairs) == ("in blocks", 6)
    assert {row.case for row in both.values} == {"ssd", "nfs"}
    refused = compare(first, second, "--case", "tape")
    assert refused.exit_code == 2
    assert "ssd" in refused.output


def test_runs_of_a_campaign_are_paired_by_their_block(tmp_path: Path) -> None:
    """Also where one of a block is invalid: its partner is left out, and not paired with a neighbour."""
    mood = [1e7, 5e7, 2e7, 9e7, 4e7]
    campaign = campaign_of({"ssd": mood, "nfs": [2 * each for each in mood]})
    bad = Check(name="c", outcome="failed", expected="e", actual="a", bias="either", advice="do")
    broken = campaign.runs[5].model_copy(
        update={"run": campaign.runs[5].run.model_copy(update={"validity": "invalid", "checks": [bad]})}
    )
    runs = [*campaign.runs[:5], broken, *campaign.runs[6:]]
    path = tmp_path / "c.json"
    path.write_text(campaign.model_copy(update={"runs": runs}).model_dump_json())
    found = compare(path, "--base-case", "ssd", "--case", "nfs", "--json")
    comparison = valid_document(found.stdout, "comparison")
    assert isinstance(comparison, Comparison)
    assert comparison.values[0].pairs == 4
    # Each run has an error of its own, of a thousandth; neighbours of other blocks differ by factors.
    assert comparison.values[0].low == pytest.approx(2, rel=0.01)
    assert comparison.values[0].high == pytest.approx(2, rel=0.01)
    assert (comparison.other.runs, comparison.other.invalid) == (4, 1)


def test_a_verdict_has_cases_of_all_that_is_the_same_in_each(tmp_path: Path) -> None:
    at = [paced_document(rate, 300, started=f"2026-01-0{day}T00:00:00Z") for day, rate in enumerate(
        (10.0, 0.0, 17.0, 10.0), start=1)]  # fmt: skip
    kinds: tuple[StepKind, ...] = ("rate", "full speed", "search", "soak")
    steps = [step_of(kind, document) for kind, document in zip(kinds, at, strict=True)]
    path = tmp_path / "verdict.json"
    path.write_text(verdict_of(*steps, search=searched()).model_dump_json())
    (found,) = read_sets([path])
    assert list(found.cases) == ["at the detector's rate", "unpaced", "search", "soak"]
    (search,) = found.cases["search"]
    assert {name: value.value for name, value in search.values.items()} == {"sustained": 2e7}
    assert search.values["sustained"].error == pytest.approx(1e6 / 12**0.5)


def test_two_verdicts_of_one_storage_are_comparable(tmp_path: Path) -> None:
    """The number of unpaced frames follows from their rate; the preliminary check does not count."""
    kinds: tuple[StepKind, ...] = ("rate", "probe", "full speed", "soak")
    paths = []
    for day, frames in ((1, 100), (2, 137)):
        at = [(10.0, 300), (0.0, 20), (0.0, frames), (10.0, 300)]
        documents = [
            paced_document(rate, due, started=f"2026-01-0{day}T0{hour}:00:00Z")
            for hour, (rate, due) in enumerate(at)
        ]
        steps = [step_of(kind, document) for kind, document in zip(kinds, documents, strict=True)]
        paths.append(tmp_path / f"{day}.json")
        paths[-1].write_text(verdict_of(*steps, search=searched()).model_dump_json())
    found = compare(*paths, "--json")
    assert found.exit_code == 3, found.output  # one run each says nothing
    comparison = valid_document(found.stdout, "comparison")
    assert isinstance(comparison, Comparison)
    assert comparison.parameters == []
    assert {row.case for row in comparison.values} == {"at the detector's rate", "unpaced", "soak"}


def verdict_at(
    path: Path,
    day: int,
    held_hz: float = 20.0,
    answer: str = "yes",
    frames: int = 300,
    target: str = "/x",
    ring_frames: int = 0,
    unpaced_s_max: float = 0.0,
) -> Path:
    """A verdict whose bracket is 5 % wide."""
    at = [(10.0, frames), (0.0, 100), (held_hz, 210)]
    steps = []
    for hour, ((rate, due), kind) in enumerate(zip(at, ("rate", "full speed", "search"), strict=True)):
        document = paced_document(rate, due, started=f"2026-01-{day:02}T0{hour}:00:00Z")
        if rate == 10.0 and ring_frames:
            plan = document.plan.model_dump()
            plan["workload"]["ring_frames"] = ring_frames
            document = LoadDocument.model_validate(document.model_dump() | {"plan": plan})
        if rate == 0.0:
            plan = document.plan.model_dump()
            plan["workload"]["seconds_max"] = unpaced_s_max
            document = LoadDocument.model_validate(document.model_dump() | {"plan": plan})
        step = step_of(kind, document)  # type: ignore[arg-type]
        steps.append(step.model_copy(update={"run": step.run.model_copy(update={"target": target})}))
    verdict = verdict_of(*steps, search=searched(held_hz, 1.05 * held_hz))
    said = {"answer": answer, "confidence": 0.95 if answer in ("yes", "no") else 0.75}
    path.write_text(verdict.model_copy(update=said).model_dump_json())
    return path


def test_verdicts_stand_side_by_side(tmp_path: Path) -> None:
    first, second = (
        verdict_at(tmp_path / "a", 1, 90.0),
        verdict_at(tmp_path / "b", 2, 10.0, answer="likely yes"),
    )
    found = compare(first, second)
    assert found.exit_code == 3, found.output
    lines = found.stdout.splitlines()
    assert lines[:2] == [
        "cannot tell: B was 9 times slower (sustained), in one run each, which may be noise",
        "",
    ]
    assert f"A {first}: 1 verdict (3 steps)," in " ".join(found.stdout.split())
    words = [" ".join(line.split()) for line in lines]
    assert "verdict answer yes (95 %) likely yes (75 %)" in words
    assert (
        "verdict sustained at least 90 MB/s, less than 94.5 MB/s at least 10 MB/s, less than 10.5 MB/s"
        in words
    )
    assert "verdict margin factor 9 factor 1" in words
    assert any(line.startswith("search sustained 90 MB/s 10 MB/s -88.9 % too few runs") for line in words)
    assert words[-1] == "- one run each gives no information about noise"
    assert "indistinguishable" not in found.stdout


def test_the_page_of_two_verdicts_has_them_in_its_table(tmp_path: Path) -> None:
    first, second = verdict_at(tmp_path / "a", 1, 90.0), verdict_at(tmp_path / "b", 2, 10.0, answer="no")
    base, other = read_sets([first, second])
    page = page_of(storages.compare(base, other), "x.json")
    assert page.answer == "B is worse"
    text = markdown_of([page])
    assert (
        "- A sustains the X, B does not; B was 9 times slower (sustained), in one run each, which may be"
        " noise." in text
    )
    assert "| verdict | answer | yes (95 %) | no (95 %) |  |  | worse |  |" in text
    assert "| search | sustained | 90 MB/s | 10 MB/s | -88.9 % | no interval | too few runs |  |" in text


@pytest.mark.parametrize(
    ("answers", "outcome", "answer"),
    [
        (("yes", "no"), "worse", "worse"),
        (("no", "yes"), "better", "cannot tell"),
        (("likely yes", "no"), None, "cannot tell"),
        (("yes", "yes"), None, "cannot tell"),
    ],
)
def test_verdicts_that_contradict_each_other_with_confidence_decide(
    tmp_path: Path, answers: tuple[str, str], outcome: str | None, answer: str
) -> None:
    """Metrics of one run each decide nothing."""
    first, second = (verdict_at(tmp_path / str(day), day, answer=said) for day, said in enumerate(answers, 1))
    comparison = valid_document(compare(first, second, "--json").stdout, "comparison")
    assert isinstance(comparison, Comparison)
    assert (comparison.verdicts, comparison.answer) == (outcome, answer)
    if outcome == "worse":
        assert "A sustains the X, B does not; B was" in compare(first, second).stdout


def test_verdicts_that_differ_only_in_length_are_compared(tmp_path: Path) -> None:
    first = verdict_at(tmp_path / "a", 1, unpaced_s_max=8.0)
    second = verdict_at(tmp_path / "b", 2, frames=600, ring_frames=50, unpaced_s_max=32.0)
    comparison = valid_document(compare(first, second, "--json").stdout, "comparison")
    assert isinstance(comparison, Comparison)
    assert comparison.parameters == []
    assert [(each.case, each.name, each.base, each.other) for each in comparison.conditions] == [
        ("at the detector's rate", "length", "30 s", "60 s"),
        ("at the detector's rate", "frames that stay", "all", "the newest 50"),
        ("unpaced", "length", "at most 8 s", "at most 32 s"),
    ]


def test_an_unpaced_run_is_not_a_sustained_rate(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for day, path in enumerate(paths, 1):
        documents = (
            paced_document(rate, due, started=f"2026-01-{day:02}T0{hour}:00:00Z")
            for hour, (rate, due) in enumerate(((0.0, 100), (10.0, 300)))
        )
        full, at_rate = documents
        steps = [step_of("full speed", full), step_of("rate", at_rate)]
        path.write_text(verdict_of(*steps).model_dump_json())
    (facts,) = read_sets(paths)[0].verdicts
    assert facts.sustained_bytes_per_s == 10**7
    assert facts.unpaced_bytes_per_s != 10**7
    shown = [" ".join(line.split()) for line in compare(*paths).stdout.splitlines()]
    assert "verdict sustained at least 10 MB/s at least 10 MB/s" in shown
    assert any(line.startswith("verdict unpaced ") for line in shown)


def verdict_of_too_slow_storage(path: Path, day: int, is_step_invalid: bool) -> Path:
    """An unpaced run with half the needed throughput, and a step that was not sustained."""
    full = paced_document(0.0, 100, started=f"2026-01-{day:02}T00:00:00Z")
    step = step_of("rate", paced_document(10.0, 300, started=f"2026-01-{day:02}T01:00:00Z"))
    validity = "invalid" if is_step_invalid else "warned"
    checks = [make_check("generator not the bottleneck", "failed", "2 times", "1.1 times")]
    run = step.run.model_copy(update={"validity": validity, "checks": checks if is_step_invalid else []})
    slow = step.model_copy(update={"outcome": "not held", "run": run})
    unpaced = step_of("full speed", full)
    said = {"answer": "no", "confidence": 0.95, "unpaced_bytes_per_s": 5e6, "measured_bytes_per_s": 5e6}
    verdict = verdict_of(unpaced, step).model_copy(update=said | {"steps": [unpaced, slow]})
    path.write_text(verdict.model_dump_json())
    return path


def test_step_that_was_not_sustained_is_not_called_invalid(tmp_path: Path) -> None:
    paths = [verdict_of_too_slow_storage(tmp_path / "ab"[day - 1], day, day == 2) for day in (1, 2)]
    found = " ".join(compare(*paths).stdout.split())
    assert "1 verdict (1 step), at the detector's rate: not sustained (metrics left out), from" in found
    assert "invalid" not in found
    assert (
        f"- at the detector's rate: not sustained in {paths[1]}; metrics left out (failed checks: generator"
        " not the bottleneck)" in found
    )
    assert f"- at the detector's rate: metrics only in {paths[0]}" in found


def test_comparison_shows_the_unpaced_margin_of_verdicts_that_sustained_nothing(tmp_path: Path) -> None:
    paths = [verdict_of_too_slow_storage(tmp_path / "ab"[day - 1], day, True) for day in (1, 2)]
    shown = [" ".join(line.split()) for line in compare(*paths).stdout.splitlines()]
    assert "verdict margin factor 0.5 (unpaced) factor 0.5 (unpaced)" in shown


def index_of(*paths: Path) -> Catalogue:
    index = Catalogue(default_path())
    index.forget([each.id for each in index.documents()])
    for path in paths:
        index.add(read_entry(path))
    return index


def test_two_targets_are_compared_by_their_newest_measurements(tmp_path: Path) -> None:
    """The old verdict of one of them, its run of another workload and an invalid one do not count."""
    ssd, nfs = tmp_path / "ssd", tmp_path / "nfs"
    for folder in (ssd, nfs):
        folder.mkdir()
        (folder / "other.json").write_text("{}")
    old = verdict_at(tmp_path / "1", 1, 50.0, target=str(ssd))
    newest = verdict_at(tmp_path / "2", 9, 80.0, target=str(ssd), frames=600)
    other = verdict_at(tmp_path / "3", 8, 20.0, target=str(nfs))
    invalid = verdict_at(tmp_path / "4", 10, 1.0, answer="invalid", target=str(nfs))
    strays = []
    for day, frame_bytes, folder in ((-1, 9, ssd), (-2, 9, nfs), (30, 7, ssd)):
        run = run_at(60 * 24 * day, frame_bytes=frame_bytes).model_copy(update={"target": str(folder)})
        strays.append(tmp_path / f"run{day}")
        strays[-1].write_text(run.model_dump_json())
    index_of(old, newest, other, invalid, *strays)
    found = compare(ssd, nfs, "--json")
    comparison = valid_document(found.stdout, "comparison")
    assert isinstance(comparison, Comparison), found.output
    assert (comparison.base.name, comparison.other.name) == (str(ssd), str(nfs))
    assert [v.sustained_bytes_per_s for v in comparison.base.verdicts] == [8e7]
    assert [v.sustained_bytes_per_s for v in comparison.other.verdicts] == [2e7]
    assert "cannot tell: B was 4 times slower (sustained), in one run each" in compare(ssd, nfs).stdout


def test_measurements_of_the_newest_day_count_together(tmp_path: Path) -> None:
    paths = [
        verdict_at(tmp_path / f"{name}{day}", day, target=f"/{name}")
        for name, days in (("a", (1, 5, 6)), ("b", (2,)))
        for day in days
    ]
    first, second = newest_sets([Path("/a"), Path("/b")], index_of(*paths))
    assert [len(each.verdicts) for each in (first, second)] == [2, 1]


def test_targets_of_one_campaign_are_compared_block_by_block(tmp_path: Path) -> None:
    numbers = numpy.random.default_rng(3).lognormal(0, 0.01, (2, 4))
    campaign = campaign_of({"rate=1 target=ssd": 2e7 * numbers[0], "rate=1 target=nfs": 1e7 * numbers[1]})
    folders = {"ssd": "/fast", "nfs": "/slow/data"}
    runs = [
        each.model_copy(
            update={"run": each.run.model_copy(update={"target": folders[each.case.partition("target=")[2]]})}
        )
        for each in campaign.runs
    ]
    path = tmp_path / "c.json"
    whole = Campaign.model_validate(
        campaign.model_dump()
        | {
            "runs": [each.model_dump() for each in runs],
            "targets": [{"name": name, "path": place} for name, place in folders.items()],
            "cases": [{"name": f"rate=1 target={name}", "target": name} for name in folders],
        }
    )
    path.write_text(whole.model_dump_json())
    base, other = newest_sets([Path("/fast"), Path("/slow/data")], index_of(path))
    comparison = storages.compare(base, other)
    (row,) = (row for row in comparison.values if row.value == "throughput")
    assert (row.case, row.outcome, row.design, row.pairs) == ("rate=1", "worse", "in blocks", 4)
    assert row.effect == pytest.approx(0.5, rel=0.02)


def test_targets_without_a_common_measurement_say_what_they_have(tmp_path: Path) -> None:
    ssd, nfs = tmp_path / "ssd", tmp_path / "nfs"
    ssd.mkdir()
    verdict = verdict_at(tmp_path / "1", 1, target=str(ssd))
    run = tmp_path / "2"
    run.write_text(run_at(0).model_copy(update={"target": str(nfs)}).model_dump_json())
    index_of(verdict, run)
    refused = compare(ssd, nfs)
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert f"{ssd} has a verdict X; {nfs} has a run of frames" in said
    unknown = compare(ssd, tmp_path / "tape")
    assert unknown.exit_code == 2
    assert "tape is neither a document nor a folder of documents, and the run index has no" in " ".join(
        unknown.output.split()
    )
    (ssd / "a.json").write_text(verdict.read_text())
    tape = tmp_path / "tape"
    tape.mkdir()
    folders = compare(ssd, tape)
    assert folders.exit_code == 2
    assert f"the run index has no valid measurement of {tape}" in " ".join(folders.output.split())
    mixed = compare(verdict, nfs)
    assert mixed.exit_code == 2
    assert f"nfs is neither a document nor a folder of documents, but {verdict} is" in " ".join(
        mixed.output.split()
    )


def test_other_parameters_are_refused_unless_that_is_meant(tmp_path: Path) -> None:
    for name, place in (("a", 0), ("b", 1)):
        (tmp_path / name).write_text(run_at(place, frame_bytes=10 ** (5 + place)).model_dump_json())
    refused = compare(tmp_path / "a", tmp_path / "b")
    assert refused.exit_code == 2
    assert "differ in frame size: 100 kB and 1 MB" in refused.output
    assert "--force" in refused.output
    assert compare(tmp_path / "a", tmp_path / "b", "--force").exit_code == 3


def test_different_workloads_are_named_with_their_units(tmp_path: Path) -> None:
    for name, day, frame_bytes in (("a", 0, 131072), ("b", 1, 10**6)):
        (tmp_path / name).write_text(run_at(60 * 24 * day, frame_bytes=frame_bytes).model_dump_json())
    words = " ".join(compare(tmp_path / "a", tmp_path / "b", "--force").stdout.split())
    assert "frame size 128 KiB" in words
    assert "but the workloads differ in frame size: 128 KiB and" in words
    assert "frame_bytes" not in words


def test_only_the_cause_of_different_workloads_is_named(tmp_path: Path) -> None:
    """Queue and deadline follow from the rate, and all steps of a verdict have the same parameters."""
    for day, rate in ((1, 2.0), (2, 100.0)):
        kinds: tuple[StepKind, ...] = ("rate", "soak")
        steps = []
        for hour, kind in enumerate(kinds):
            document = paced_document(rate, 300, started=f"2026-01-0{day}T0{hour}:00:00Z").model_dump()
            document["plan"]["workload"] |= {"buffer_frames": int(rate), "late_after_s": 1 / rate}
            steps.append(step_of(kind, LoadDocument.model_validate(document)))
        (tmp_path / str(day)).write_text(verdict_of(*steps).model_dump_json())
    refused = compare(tmp_path / "1", tmp_path / "2")
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert "differ in rate: 2 Hz and 100 Hz what to do" in said


def test_a_set_without_a_valid_run_is_invalid(tmp_path: Path) -> None:
    bad = Check(name="c", outcome="failed", expected="e", actual="a", bias="either", advice="do")
    (tmp_path / "a").write_text(run_at(0, checks=[bad]).model_dump_json())
    (tmp_path / "b").write_text(run_at(1).model_dump_json())
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 4
    assert "1 invalid run left out" in found.stdout


def test_a_trend_of_a_folder(tmp_path: Path) -> None:
    nights = tmp_path / "nights"
    nights.mkdir()
    numbers = numpy.random.default_rng(5)
    for night in range(10):
        level = 1e7 * (0.5 if night > 6 else 1) * numbers.lognormal(0, 0.01)
        (nights / f"{night}.json").write_text(run_at(1440 * night, level).model_dump_json())
    found = compare("--trend", nights, "--json")
    assert found.exit_code == 1
    trend = valid_document(found.stdout, "trend")
    assert isinstance(trend, Trend)
    (row,) = (row for row in trend.rows if row.value == "throughput")
    assert (row.movement, row.jumped_at) == ("jumped", [str(nights / "7.json")])
    assert "███████▁▁▁" in compare("--trend", nights).stdout


def test_the_document_is_written_into_a_new_file_only(tmp_path: Path) -> None:
    before, after = folder_of(tmp_path / "a", 1, 0), folder_of(tmp_path / "b", 1, 1)
    output = tmp_path / "c.json"
    assert compare(before, after, "--output", output).exit_code == 0
    valid_document(output.read_text(encoding="utf-8"), "comparison")
    written = output.read_bytes()
    assert compare(before, after, "--output", output).exit_code == 2
    assert output.read_bytes() == written


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"format": "penstock-run 2"}', "cannot be read"),
        ('{"format": "penstock-run 1", "workload": "frames"}', "cannot be read"),
        ("\x00\xff", "cannot be read"),
    ],
)
def test_files_that_are_no_documents_are_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "it.json"
    if content is not None:
        path.write_text(content, encoding="latin-1")
    with pytest.raises(UsageError, match=words) as error:
        read_sets([path])
    assert "it.json" in error.value.message
    assert error.value.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [("carried_bytes_per_s", float("nan")), ("stall_s", -1.0), ("carried_bytes_per_s", 1e400)],
)
def test_impossible_values_are_refused(tmp_path: Path, field: str, value: float) -> None:
    document = run_at(0).model_dump()
    document["frames"][field] = value
    path = tmp_path / "it.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"not valid|finite number"):
        read_sets([path])


def test_times_without_a_zone_and_runs_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    run = run_at(0)
    (tmp_path / "a.json").write_text(run.model_dump_json())
    shutil.copy(tmp_path / "a.json", tmp_path / "b.json")
    with pytest.raises(UsageError, match="there twice"):
        read_sets([tmp_path])
    local = run.model_copy(
        update={"document": run.document.model_copy(update={"started": "2026-01-01T00:00"})}
    )
    (tmp_path / "a.json").write_text(local.model_dump_json())
    with pytest.raises(UsageError, match="time zone"):
        read_sets([tmp_path / "a.json"])


@pytest.mark.parametrize("threshold", ["5", "abc", "-5%", "nan%", "1e3%", "101%"])
def test_thresholds_are_shares(tmp_path: Path, threshold: str) -> None:
    found = compare(tmp_path / "a", tmp_path / "b", f"--threshold={threshold}")
    assert found.exit_code == 2
    assert "write for example 5%" in found.output


def test_arguments_that_do_not_fit_together(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = tmp_path / "a.json"
    path.write_text(run_at(0).model_dump_json())
    for arguments in ([path], [path] * 3, ["--trend", path, "--threshold", "5%"], [tmp_path / "empty", path]):
        assert compare(*arguments).exit_code == 2


def test_what_failed_is_not_no_worse(tmp_path: Path) -> None:
    """Three runs that are as good as before, and three that came to nothing."""
    base = campaign_of({"one": [1e7, 1.01e7, 0.99e7, 1e7, 1.01e7, 0.99e7]})
    other = campaign_of({"one": [1e7, 1.01e7, 0.99e7]}, start=1000)
    failures = [CaseFailure(case="one", block=each, problem="EIO", when="x") for each in (3, 4, 5)]
    other = other.model_copy(update={"blocks": 6, "failures": failures})
    (tmp_path / "a.json").write_text(base.model_dump_json())
    (tmp_path / "b.json").write_text(other.model_dump_json())
    found = compare(tmp_path / "a.json", tmp_path / "b.json", "--json")
    comparison = valid_document(found.stdout, "comparison")
    assert isinstance(comparison, Comparison)
    assert (found.exit_code, comparison.other.failed) == (3, 3)
    assert any("3 runs of" in note and "failed" in note for note in comparison.notes)


def test_a_case_without_a_sound_run_is_not_no_worse(tmp_path: Path) -> None:
    bad = Check(name="c", outcome="failed", expected="e", actual="a", bias="either", advice="do")
    base = campaign_of({"one": [1e7] * 6, "two": [1e7] * 6})
    other = campaign_of({"one": [1e7] * 6, "two": [1e7] * 6}, start=1000)
    runs = [
        each.model_copy(update={"run": run_at(2000 + number, checks=[bad])}) if each.case == "two" else each
        for number, each in enumerate(other.runs)
    ]
    (tmp_path / "a.json").write_text(base.model_dump_json())
    (tmp_path / "b.json").write_text(other.model_copy(update={"runs": runs}).model_dump_json())
    found = compare(tmp_path / "a.json", tmp_path / "b.json")
    assert found.exit_code == 3
    assert "two: no run of" in " ".join(found.stdout.split())


def test_ranks_are_parameters_and_a_template_is_none(tmp_path: Path) -> None:
    def with_image(place: float, template: str, ranks: int = 1) -> Run:
        run = run_at(place)
        document = run.document.model_dump()
        document["plan"]["workload"]["image"] = {
            "template": template, "suffix": "cbf", "pixels_at": 0, "pixels_bytes": 0, "differences": True,
        }  # fmt: skip
        part = {"rank": 0, "host": "h", "lead_ahead_ns": 0, "clock_error_ns": 0, "late_ns": 0}
        document["job"] = {"ranks": ranks, "library": "MPI", "parts": [part]} if ranks > 1 else None
        return run.model_copy(update={"document": LoadDocument.model_validate(document)})

    runs = {"a": with_image(0, "/tmp/1/t"), "b": with_image(1, "/tmp/2/t"), "c": with_image(2, "/t", 4)}
    for name, run in runs.items():
        (tmp_path / name).write_text(run.model_dump_json())
    assert compare(tmp_path / "a", tmp_path / "b").exit_code == 3, "one run each"
    refused = compare(tmp_path / "a", tmp_path / "c")
    assert refused.exit_code == 2
    assert "differ in ranks: 1 and 4" in " ".join(refused.output.split())


def test_a_verdict_beside_something_else_is_another_measurement(tmp_path: Path) -> None:
    for day, beside in ((1, ""), (2, "read /data --threads 8")):
        document = paced_document(10.0, 300, started=f"2026-01-0{day}T00:00:00Z")
        verdict = verdict_of(step_of("rate", document), searches=True, beside=beside)
        (tmp_path / f"{day}.json").write_text(verdict.model_dump_json())
    refused = compare(tmp_path / "1.json", tmp_path / "2.json")
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert "beside" in said
    assert "read /data --threads 8" in said
    assert compare(tmp_path / "1.json", tmp_path / "2.json", "--force").exit_code == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"problem": "write x: the storage reports an input/output error"}, "input/output error"),
        ({"interrupted": True}, ""),
    ],
)
def test_runs_that_ended_with_an_error_are_counted_against_their_storage(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    before, after = folder_of(tmp_path / "a", 1, 0), folder_of(tmp_path / "b", 1, 1)
    assert compare(before, after).exit_code == 0
    run = run_at(30)
    document = LoadDocument.model_validate(run.document.model_dump() | changes)
    run = run_of(document, list(frame_checks(document, 1000.0, False)))
    (after / "6.json").write_text(run.model_dump_json())
    found = compare(before, after)
    assert found.exit_code == (3 if told else 0), found.output
    assert told in " ".join(found.stdout.split())


def test_other_bytes_than_were_written_are_counted_against_their_storage(tmp_path: Path) -> None:
    run = run_at(0)
    assert run.frames is not None
    read = StreamFigures(
        phase="read",
        bytes=10**9,
        bytes_per_s=1e8,
        first_done_s=10.0,
        last_done_s=10.0,
        service_ms=run.frames.service_ms,
        cached_share=0.0,
        mismatches=3,
    )
    run = run.model_copy(update={"frames": None, "streams": [read], "validity": "invalid"})
    (tmp_path / "a.json").write_text(run.model_dump_json())
    (found,) = read_sets([tmp_path / "a.json"])
    assert found.runs[0].fault == "3 blocks returned different bytes than were written"


def test_a_command_that_breaks_down_gives_no_answer(tmp_path: Path) -> None:
    """The exit code of other commands, 1, is "worse" here, or a "no"."""
    for name, place in (("a", 0), ("b", 1)):
        (tmp_path / name).write_text(run_at(place).model_dump_json())
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "penstock", "compare", str(tmp_path / "a"), str(tmp_path / "b")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert finished.stderr.startswith("error: standard output cannot be written: no space left")
    assert finished.returncode == 5
