"""What a verdict makes of the runs that it has: the table of decision 49, and what is said around it."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from bench_documents import (
    MEANWHILE,
    SECOND,
    frames_document,
    histogram,
    paced_document,
    run_of,
    searched,
    simulated_document,
    step_from,
    step_of,
    verdict_of,
)
from report_documents import Parsed
from rich.console import Console

from penstock.bench.campaign.entries import entry_of
from penstock.bench.judge.checks import check_complete, check_long_enough
from penstock.bench.judge.exit_codes import exit_code_of
from penstock.bench.judge.holds import backlog_growth, outcome_of
from penstock.bench.judge.meanwhile import ALONE
from penstock.bench.judge.measured import measured_bandwidth
from penstock.bench.judge.verdict import carries_bytes_per_s, is_at_least
from penstock.bench.run.run import Access, frames_request
from penstock.bench.run.stages import VerdictRequest
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Answer, Check, Step, Verdict
from penstock.model.errors import ExitCode
from penstock.model.failure import NO_SPACE, Failure
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.runs import run_view
from penstock.report.verdicts import bracket_line, sustained_text, verdict_rows, verdict_view


def check(outcome: str, bias: str, name: str = "c") -> Check:
    return Check.model_validate(
        {"name": name, "outcome": outcome, "expected": "e", "actual": "a", "bias": bias, "advice": "do"}
    )


def at_rate(*checks: Check, kind: str = "rate", **changes: Any) -> Step:
    return step_of(kind, frames_document(**changes), *checks)  # type: ignore[arg-type]


def soak(*checks: Check, **changes: Any) -> Step:
    return at_rate(*checks, kind="soak", **changes)


def hindered(own_s: float = 0.2, waited_s: float = 0.2) -> Step:
    """Too slow by itself, with waits beside that."""
    return step_of("soak", simulated_document(own_s, waited_s=waited_s))


def faster(rate_hz: float) -> Step:
    """A run of the search that was sustained."""
    return step_of("search", paced_document(rate_hz, 300, duration_s=300 / rate_hz))


def too_slow(*checks: Check, own_s: float = 0.2, kind: str = "rate") -> Step:
    """Each write takes twice as long as there is."""
    return step_of(kind, simulated_document(own_s), *checks)  # type: ignore[arg-type]


def disturbed(*checks: Check, kind: str = "rate", own_s: float = 0.05, waited_s: float = 0.08) -> Step:
    """Writes of half the time that there is, which wait for processors for as long again."""
    return step_of(kind, simulated_document(own_s, waited_s=waited_s), *checks)  # type: ignore[arg-type]


def full_speed(*checks: Check, bytes_per_s: float = 20e6, waited: float = 0.0, writers: int = 1) -> Step:
    """300 MB, where 10 MB/s are needed; `waited`: share of the time of each write. Writers are in step."""
    frames = 300
    each = round(1e6 / bytes_per_s * SECOND)
    document = paced_document(0.0, frames, duration_s=frames * each / SECOND).model_dump()
    took = writers * each
    begins = [n // writers * took for n in range(frames)]
    document["plan"]["workload"]["writers"] = writers
    document["records"] |= {
        "start_ns": begins,
        "done_ns": [begin + took for begin in begins],
        "waited_ns": [round(waited * took)] * frames,
    }
    return step_of("full speed", LoadDocument.model_validate(document), *checks)


SHARED = check("warning", "worse", ALONE)
CACHED = check("warning", "better", "storage, not the page cache")


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        ("yes", [full_speed(), at_rate(), soak()]),
        ("yes", [full_speed(), at_rate(check("warning", "worse")), soak(check("failed", "worse"))]),
        ("likely yes", [full_speed(), disturbed(), at_rate(), soak()]),
        ("likely yes", [at_rate(), soak()]),
        ("likely yes", [full_speed(bytes_per_s=9e6), at_rate(), soak()]),
        ("likely yes", [full_speed(), step_of("rate", frames_document(due=60, duration_s=6.0))]),
        ("likely yes", [full_speed(waited=0.4), disturbed(), disturbed()]),
        ("cannot tell", [full_speed(bytes_per_s=10e6, waited=0.2), disturbed()]),
        ("cannot tell", [full_speed(CACHED), disturbed()]),
        ("cannot tell", [full_speed(), at_rate(CACHED), soak(CACHED)]),
        ("cannot tell", [disturbed()]),
        ("likely no", [full_speed(bytes_per_s=6e6, waited=0.25, writers=2), disturbed()]),
        ("cannot tell", [full_speed(bytes_per_s=6e6, waited=0.45), disturbed()]),
        ("cannot tell", [full_speed(bytes_per_s=7.7e6, waited=0.6), *[disturbed()] * 3]),
        (
            "likely no",
            [
                full_speed(bytes_per_s=7.7e6, waited=0.6),
                disturbed(),
                disturbed(own_s=0.07, waited_s=0.06),
                disturbed(kind="soak"),
            ],
        ),
        ("no", [full_speed(bytes_per_s=6e6, waited=0.1), disturbed()]),
        ("no", [too_slow()]),
        ("no", [full_speed(), at_rate(), too_slow(kind="soak")]),
        ("no", [too_slow(check("warning", "worse"))]),
        ("likely no", [full_speed(), too_slow(own_s=0.105)]),
        ("likely no", [full_speed(), at_rate(), too_slow(own_s=0.105, kind="soak")]),
        ("no", [full_speed(), at_rate(), faster(20), too_slow(kind="soak")]),
        ("likely yes", [full_speed(), at_rate(), hindered(0.105)]),
        ("likely yes", [full_speed(), at_rate(), hindered()]),
        ("likely yes", [at_rate(), faster(20), hindered()]),
        ("likely yes", [full_speed(), at_rate(due=200, duration_s=20.0), hindered(0.105)]),
        ("cannot tell", [full_speed(), at_rate(due=200, duration_s=20.0), hindered()]),
        ("cannot tell", [full_speed(), hindered()]),
        ("no", [full_speed(CACHED), hindered()]),
        ("no", [full_speed(bytes_per_s=11e6), at_rate(), hindered()]),
        ("likely no", [full_speed(bytes_per_s=11e6), hindered(waited_s=0.7)]),
        ("likely no", [full_speed(), too_slow(SHARED)]),
        ("no", [full_speed(bytes_per_s=5e6), too_slow(SHARED)]),
        ("invalid", [full_speed(), at_rate(check("failed", "better"))]),
        ("invalid", [full_speed(), at_rate(check("failed", "either"))]),
        ("cannot tell", []),
    ],
)
def test_the_answer_follows_from_the_table(answer: Answer, steps: list[Step]) -> None:
    verdict = verdict_of(*steps)
    assert verdict.answer == answer, verdict.reasons
    assert verdict.reasons
    expected = {"yes": 0.95, "no": 0.95, "likely yes": 0.75, "likely no": 0.75}.get(answer)
    assert verdict.confidence == expected
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_a_generator_that_was_late_is_a_handicap_and_no_doubt() -> None:
    late = check("failed", "worse", "generator on schedule")
    verdict = verdict_of(full_speed(), at_rate(late), soak(late))
    assert verdict.answer == "yes"
    assert len(verdict.notes) == 1
    assert verdict.notes[0].startswith("generator on schedule: ")
    assert "(at the detector's rate, soak)" in verdict.notes[0]


def test_the_first_reason_decides_and_names_the_cause() -> None:
    lost = verdict_of(full_speed(), too_slow())
    assert "frames were lost" in lost.reasons[0]
    assert "it alone would have lost" in lost.reasons[0]
    excused = verdict_of(full_speed(bytes_per_s=10e6, waited=0.2), disturbed())
    assert "waiting for processors took 61.5 % of the time" in excused.reasons[0]
    shared = verdict_of(full_speed(), too_slow(SHARED))
    assert "other programs used the same storage" in shared.reasons[1]


def test_a_no_says_what_the_storage_needs() -> None:
    verdict = verdict_of(
        full_speed(bytes_per_s=5e6), too_slow(), hints=["mount with async: it is mounted sync"]
    )
    advice = "\n".join(verdict.advice)
    assert "2 times as fast" in advice
    assert "--ratio 2.1" in advice
    assert "4.95 Hz" in advice
    assert "--layout file_a_writer" in advice
    assert "mount with async" in advice
    assert verdict_of(full_speed(), at_rate(), soak(), hints=["x"]).advice == []


def test_a_no_for_uncompressed_frames_of_a_detector_that_compresses_asks_the_right_question_first() -> None:
    command = "penstock verdict eiger2-16m /data --yes"
    verdict = verdict_of(full_speed(bytes_per_s=5e6), too_slow(), command=command, typical_ratio=7.0)
    assert verdict.answer == "no"
    assert f"{command} --ratio 7" in verdict.advice[0]
    assert "1.43 MB/s" in verdict.advice[0]
    shown = text_of(verdict).splitlines()
    assert "10 MB/s are needed without compression" in shown[1]
    assert "(--ratio 7) it needs 1.43 MB/s" in shown[1]
    assert "needs 1.43 MB/s" in page_of(verdict, "v.json").banners[0].text
    plain = verdict_of(full_speed(bytes_per_s=5e6), too_slow(), command=command)
    assert "--ratio 7" not in text_of(plain)


def text_of(verdict: Verdict) -> str:
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(verdict_view(verdict))
    return console.export_text()


def test_a_storage_that_stalls_and_is_fast_enough_is_told() -> None:
    freeze = simulated_document([0.01] * 100 + [2.0] + [0.01] * 199, buffer=stall(1.95))
    verdict = verdict_of(full_speed(), step_of("rate", freeze))
    assert verdict.answer == "no"
    assert "what stalls the storage" in verdict.advice[0]
    assert "1.95 s" in verdict.advice[0]
    assert "--buffer-seconds" in verdict.advice[1]


def stall(seconds: float) -> dict[str, Any]:
    return {"held_max": 10, "stall_s": seconds, "stall_end_s": 12.0}


def test_a_likely_answer_has_the_command_that_makes_it_certain() -> None:
    command = "penstock verdict pilatus-6m /data --yes"
    assert verdict_of(full_speed(), at_rate(), soak(), command=command).next_command == ""
    near = verdict_of(full_speed(), at_rate(), soak(), search=searched(10.0, 10.3), command=command)
    assert near.next_command == f"{command} --soak 300"
    again = verdict_of(full_speed(waited=0.4), disturbed(), command=command)
    assert again.next_command == command


def test_a_doubt_about_the_unpaced_run_is_removed_by_a_longer_one() -> None:
    """Of that a longer soak shows nothing; the unpaced run is a share of the run at the detector's rate."""
    command = "penstock verdict pilatus-6m /data --seconds 30 --soak=60 --yes --target 'a b'"
    runs = at_rate(), soak()
    slow = verdict_of(full_speed(bytes_per_s=9e6), *runs, command=command)
    assert slow.answer == "likely yes"
    assert (
        slow.next_command == "penstock verdict pilatus-6m /data --soak=60 --yes --target 'a b' --seconds 300"
    )
    missing = verdict_of(*runs, command=command)
    assert (missing.answer, missing.next_command) == ("likely yes", command)
    both = verdict_of(
        full_speed(bytes_per_s=9e6), *runs, search=searched(10.0, 10.3), command="penstock verdict x /d"
    )
    assert both.next_command == "penstock verdict x /d --seconds 300 --soak 300"


def test_a_run_that_was_too_short_is_repeated_for_ten_seconds() -> None:
    """With the check of its duration, as each such run has."""
    short = frames_document(due=60, duration_s=6.0)
    step = step_of("rate", short, check_long_enough(6.0, "--seconds"))
    command = "penstock verdict x /d --seconds 6 --quick --yes"
    verdict = verdict_of(full_speed(), step, command=command)
    assert verdict.answer == "likely yes"
    assert verdict.next_command == "penstock verdict x /d --quick --yes --seconds 10"
    near = verdict_of(full_speed(), step, search=searched(10.0, 10.3), command=command)
    assert near.next_command == "penstock verdict x /d --yes --soak 300 --seconds 10"


def test_a_longer_soak_replaces_one_in_minutes() -> None:
    command = "penstock verdict x /d --minutes 1 --yes"
    near = verdict_of(full_speed(), at_rate(), soak(), search=searched(10.0, 10.3), command=command)
    assert near.next_command == "penstock verdict x /d --yes --soak 300"


def test_a_verdict_that_was_interrupted_has_its_own_command_again() -> None:
    command = "penstock verdict x /d --quick --yes"
    verdict = verdict_of(full_speed(), interrupted(), problem="it was interrupted", command=command)
    assert verdict.next_command == command
    short = f"{command} --seconds=8 --soak 0"
    longer = verdict_of(full_speed(), interrupted(), problem="it was interrupted", command=short)
    assert longer.next_command == f"{command} --soak 0 --seconds 10"
    no = verdict_of(too_slow(), problem="it was interrupted", command=command)
    assert (no.answer, no.next_command) == ("no", "")


def interrupted(due: int = 30) -> Step:
    """3 of 20 s."""
    document = frames_document(due=due, duration_s=due / 10, interrupted=True)
    assert document.frames is not None
    counts = document.frames.model_copy(update={"planned": 200})
    document = document.model_copy(update={"frames": counts})
    checks = check_complete(document), check_long_enough(due / 10, "--seconds")
    return step_of("rate", document, *checks)


def test_an_interrupted_run_is_short_and_no_doubt_about_the_storage() -> None:
    verdict = verdict_of(full_speed(), interrupted(), problem="it was interrupted", searches=True)
    assert verdict.answer == "cannot tell"
    assert verdict.reasons[0] == "at the detector's rate, 10 Hz: interrupted after 3 of 20 s"
    assert "none of 30 frames" in verdict.reasons[1]
    assert "may not show the storage" not in text_of(verdict)
    assert any(note.startswith("complete: interrupted after 3 of 20 s") for note in verdict.notes)
    assert verdict_rows(verdict)["unpaced"].startswith("20 MB/s")
    assert "unpaced: 20 MB/s" in Parsed(html_of([page_of(verdict, "v.json")])).words
    moment = verdict_of(full_speed(), interrupted(5), problem="it was interrupted")
    assert moment.answer == "cannot tell", "too short to be valid, and not invalid"
    assert moment.reasons[0] == "at the detector's rate, 10 Hz: interrupted after 500 ms of 20 s"


def test_the_unpaced_run_of_a_longer_measurement_is_longer() -> None:
    def unpaced_s(seconds: float) -> float:
        at_rate = frames_request(10**6, 10.0, seconds, 4, 1.0, None, "file_a_frame", Access())
        return VerdictRequest("X", at_rate, 0.5, 0.0, 10.0, 0.0).full_speed_s

    assert [unpaced_s(seconds) for seconds in (2, 20, 30, 300)] == [2.0, 6.0, 8.0, 30.0]


def test_an_unpaced_run_of_any_length_fits_into_what_is_free() -> None:
    at_rate = frames_request(10**6, 10.0, 30.0, 4, 1.0, None, "file_a_frame", Access())

    def most(room_bytes: int | None) -> int:
        request = VerdictRequest("X", at_rate, 0.5, 0.0, 10.0, 0.0, space_bytes=10**9, room_bytes=room_bytes)
        return request.largest_unpaced.bytes

    assert most(10**8) <= 10**8
    assert 10**8 < most(None) <= 10**9
    assert most(10**10) == most(None)
    # Not even a ring: it is refused for what was asked for.
    assert most(10**7) == most(None)


def test_advice_after_a_disturbed_unpaced_run_relies_on_what_was_measured() -> None:
    """6 MB/s with a quarter of each write of two writers spent waiting: about 8 MB/s without, an estimate."""
    verdict = verdict_of(full_speed(bytes_per_s=6e6, waited=0.25, writers=2), disturbed())
    assert verdict.answer == "likely no"
    advice = verdict.advice[0]
    alone = re.search(r"without other programs it may reach about (\S+) MB/s", advice)
    assert alone, advice
    assert float(alone[1]) > 6.5
    assert "at least 1.7 times as fast: this one reached 6 MB/s, unpaced" in advice
    assert "with a ratio of 1.8 or more the frames fit" in verdict.advice[1]
    assert "about 5.94 Hz of this detector fits" in verdict.advice[2]


def test_the_advised_ratio_is_that_of_the_frames_as_they_were_before() -> None:
    command = "penstock verdict eiger2-16m /data --ratio 2 --yes"
    verdict = verdict_of(full_speed(bytes_per_s=5e6), too_slow(), command=command)
    assert "with a ratio of 4.2 or more the frames fit; measure with --ratio 4.2" in "\n".join(verdict.advice)


@pytest.mark.parametrize(("option", "advised"), [("--format cbf", False), ("--format=raw", True)])
def test_no_ratio_is_advised_for_a_format_that_has_its_own(option: str, *, advised: bool) -> None:
    command = f"penstock verdict eiger2-16m /data {option}"
    verdict = verdict_of(full_speed(bytes_per_s=5e6), too_slow(), command=command)
    assert any("--ratio" in advice for advice in verdict.advice) == advised


def test_an_upper_bound_far_above_what_was_measured_is_not_shown() -> None:
    near, far = (verdict_of(full_speed(waited=waited), at_rate()) for waited in (0.4, 0.9))
    assert near.at_most_bytes_per_s == pytest.approx(20e6 / 0.6, rel=0.1)
    assert far.at_most_bytes_per_s is None
    assert "at most" not in verdict_rows(far)["unpaced"]


def test_a_verdict_has_what_all_its_runs_wrote() -> None:
    """300 MB each."""
    probe = full_speed().model_copy(update={"kind": "probe"})
    verdict = verdict_of(probe, full_speed(), at_rate())
    assert verdict.written_bytes == 900 * 10**6
    assert verdict_rows(verdict)["written"].startswith("900 MB in all")
    assert "900 MB" in Parsed(html_of([page_of(verdict, "v.json")])).words


def test_checks_of_two_preliminary_runs_are_told_apart() -> None:
    probe = full_speed(SHARED).model_copy(update={"kind": "probe"})
    page = page_of(verdict_of(probe, probe, full_speed(), at_rate()), "v.json")
    titles = [section.title for section in page.sections if section.title.startswith("Checks")]
    assert titles[:2] == ["Checks: step 1, preliminary run", "Checks: step 2, preliminary run"]


def test_without_a_search_the_margin_is_of_the_unpaced_run() -> None:
    verdict = verdict_of(full_speed(), at_rate())
    assert verdict.needed_bytes_per_s == 10 * 10**6
    assert verdict.measured_bytes_per_s == 20 * 10**6
    assert verdict.margin == pytest.approx(2.0)
    assert verdict.detectors == 2
    assert verdict.lost_share_bound_95 == pytest.approx(0.00994, rel=1e-3)
    assert verdict_rows(verdict)["margin"].startswith("factor 2 (unpaced")
    rows = verdict_rows(verdict)
    assert (rows["unpaced"].partition(";")[0], "sustained" in rows) == ("20 MB/s", False)
    words = Parsed(html_of([page_of(verdict, "v.json")])).words
    assert "20 MB/s, unpaced" not in words
    slow = verdict_of(full_speed(bytes_per_s=5e6), too_slow())
    assert "this one reached 5 MB/s, unpaced," in slow.advice[0]


@pytest.mark.parametrize(
    ("dropped", "words"),
    [
        (0, "0 of 300 at the detector's rate; loss rate below 0.99 % with 95 % confidence"),
        (150, "150 of 300 at the detector's rate; 50 %"),
    ],
)
def test_a_bound_of_the_loss_rate_is_shown_where_few_frames_were_lost(dropped: int, words: str) -> None:
    step = step_of("rate", frames_document(dropped=dropped))
    verdict = verdict_of(step)
    assert verdict_rows(verdict)["lost frames"].startswith(words)
    shown = Parsed(html_of([page_of(verdict, "v.json"), page_of(step.run, "r.json")])).words
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(run_view(step.run))
    for text in (shown, console.export_text()):
        assert ("with 95 % confidence" in text) == (dropped == 0)


def test_with_a_search_the_interval_is_between_its_ends() -> None:
    verdict = verdict_of(full_speed(), at_rate(), soak(), search=searched(held_hz=30.0, not_held_hz=31.0))
    assert verdict.answer == "yes"
    assert verdict.measured_bytes_per_s == 30 * 10**6
    assert verdict.less_than_bytes_per_s == 31 * 10**6
    assert verdict.margin == pytest.approx(3.0)
    assert verdict.detectors == 3
    assert (verdict.due, verdict.lost) == (600, 0)
    assert sustained_text(verdict) == "at least 30 MB/s, less than 31 MB/s"
    assert verdict_rows(verdict)["unpaced"].startswith("20 MB/s; at most ")


@pytest.mark.parametrize(
    ("held_hz", "not_held_hz", "margin", "detectors"),
    [
        (30.0, 31.0, "factor 3", "3"),
        (10.0, 100.0, "factor 1 to 10", "1 to 9"),
        (10.0, 15.0, "factor 1 to 1.5", "1"),
        (100.0, None, "factor 10 or more (unpaced: factor 2)", "10 or more (unpaced: 2)"),
    ],
)
def test_a_margin_that_was_not_narrowed_down_is_an_interval(
    held_hz: float, not_held_hz: float | None, margin: str, detectors: str
) -> None:
    search = searched(held_hz, not_held_hz, ended="top" if not_held_hz is None else "time")
    rows = verdict_rows(verdict_of(full_speed(), at_rate(), soak(), search=search))
    assert (rows["margin"], rows["equivalent detectors"]) == (margin, detectors)


def test_what_was_cut_short_is_no_certain_yes_and_may_be_a_no() -> None:
    verdict = verdict_of(
        full_speed(), at_rate(), problem="it was interrupted", search=searched(ended="cut short")
    )
    assert (verdict.answer, verdict.problem) == ("likely yes", "it was interrupted")
    assert any("interrupted" in reason for reason in verdict.reasons)
    assert verdict_of(too_slow(), problem="it was interrupted").answer == "no"


def test_a_rate_close_above_that_did_not_hold_makes_a_yes_likely() -> None:
    near = verdict_of(full_speed(), at_rate(), soak(), search=searched(held_hz=10.0, not_held_hz=10.3))
    assert near.answer == "likely yes"
    assert any("10.3 Hz, only 3 % more" in reason for reason in near.reasons)
    far = verdict_of(full_speed(), at_rate(), soak(), search=searched(held_hz=10.0, not_held_hz=10.6))
    assert far.answer == "yes"
    assert far.detectors == 1


@pytest.mark.parametrize(("runs", "answer"), [(2, "yes"), (1, "likely yes")])
def test_an_end_that_did_not_repeat_has_to_be_replaced(runs: int, answer: str) -> None:
    """By one that is no single run, where it is more than the detector's rate, which the soak repeats."""
    chance: dict[str, Any] = {"chance_hz": [17.0], "ended": "time"}
    found = searched(held_hz=15.0, held_runs=runs, **chance)
    verdict = verdict_of(full_speed(), at_rate(), soak(), search=found)
    assert verdict.answer == answer
    assert not is_at_least(verdict)
    bottom = searched(held_hz=10.0, held_runs=1, **chance)
    assert verdict_of(full_speed(), at_rate(), soak(), search=bottom).answer == "yes"


def test_frames_that_are_lost_when_the_search_repeats_the_detectors_rate_count() -> None:
    again = too_slow(kind="search")
    verdict = verdict_of(full_speed(), at_rate(), again, search=searched(held_hz=None, held_runs=0))
    assert verdict.answer == "no"
    assert verdict.lost > 0
    assert verdict.reasons[0].startswith("search, 10 Hz")
    elsewhere = step_of("search", paced_document(20.0, 300, dropped=2))
    assert verdict_of(full_speed(), at_rate(), elsewhere, soak(), search=searched()).lost == 0


@pytest.mark.parametrize(
    ("ended", "held_hz", "not_held_hz", "told"),
    [
        ("top", 100.0, None, True),
        ("time", 9.0, 15.0, True),
        ("narrow", 20.0, 21.0, False),
        ("chance", 20.0, 22.0, False),
    ],
)
def test_a_search_that_ended_early_is_noted(
    ended: str, held_hz: float, not_held_hz: float | None, told: bool
) -> None:
    found = searched(held_hz, not_held_hz, ended=ended)
    assert bool(verdict_of(full_speed(), at_rate(), soak(), search=found).notes) == told


def test_a_single_run_is_shown_in_the_bracket() -> None:
    assert bracket_line(searched(), []) == "20 Hz sustained (2 runs), 21 Hz not sustained (2 runs)"
    by_chance = searched(chance_hz=[20.3, 20.6], not_held_runs=1)
    assert (
        bracket_line(by_chance, [])
        == "20 Hz sustained (2 runs), 21 Hz not sustained (1 run); 20.3 to 20.6 Hz in some runs only"
    )


def test_runs_that_were_disturbed_at_higher_rates_are_not_called_invalid() -> None:
    higher = step_of("search", paced_document(20.0, 200, duration_s=10.0))
    disturbed_one, invalid = (
        bracket_line(searched(10.0, None), [higher.model_copy(update={"outcome": outcome})])
        for outcome in ("disturbed", "invalid")
    )
    assert disturbed_one.endswith("runs at higher rates were disturbed")
    assert invalid.endswith("higher rates had no valid run")


def test_a_certain_yes_names_the_headroom() -> None:
    verdict = verdict_of(full_speed(), at_rate(), soak())
    assert verdict.answer == "yes"
    assert verdict.reasons[-1] == "unpaced, the storage reached 20 MB/s, 2 times what is needed"


def test_late_frames_are_told_apart_from_frames_that_are_too_late() -> None:
    plan = frames_document().plan.model_dump()
    plan["workload"]["late_after_s"] = 0.001
    late = LoadDocument.model_validate(frames_document().model_dump() | {"plan": plan})
    verdict = verdict_of(full_speed(), step_of("rate", late), soak())
    figures = verdict.steps[1].run.frames
    assert figures is not None
    update = {"frames": figures.model_copy(update={"late": 28})}
    run = verdict.steps[1].run.model_copy(update=update)
    steps = [verdict.steps[0], verdict.steps[1].model_copy(update={"run": run}), verdict.steps[2]]
    shown = verdict_rows(verdict.model_copy(update={"steps": steps}))
    assert shown["late frames"].startswith("28 of 600, more than")
    assert "not sustained from 500 ms on" in shown["late frames"]
    assert "none of 600 frames was lost, or written more than 500 ms after it was due" in verdict.reasons[0]


def test_a_rate_that_held_before_the_search_counts() -> None:
    verdict = verdict_of(at_rate(), problem="it was interrupted", searches=True)
    assert carries_bytes_per_s(verdict) == 10 * 10**6
    assert verdict_rows(verdict)["sustained"] == "at least 10 MB/s; higher rates were not measured"
    assert carries_bytes_per_s(verdict_of(too_slow(), problem="x", searches=True)) is None


def test_a_backlog_that_grows_is_charged_without_a_loss() -> None:
    """3 % too slow: the queue of a second takes that for half a minute."""
    document = simulated_document(0.103, due=100)
    step = step_of("rate", document, late_limit_s=0.5)
    assert (step.outcome, step.run.frames and step.run.frames.dropped) == ("not held", 0)
    assert verdict_of(full_speed(), step).answer == "likely no"


def test_an_invalid_verdict_names_the_check_its_value_and_its_bound() -> None:
    verdict = verdict_of(full_speed(), at_rate(check("failed", "better")))
    assert verdict.reasons == ['at the detector\'s rate, 10 Hz: check "c" failed: a; expected: e']
    assert verdict.advice == ["c: do"]


def test_storage_that_was_full_before_anything_was_measured_gives_no_answer() -> None:
    for problem in ("writing /x/rate-1-0: no space left on the storage", "the disk quota is exceeded"):
        failure = Failure(code=NO_SPACE, detail=problem)
        document = frames_document(problem=problem, failure=failure)
        verdict = verdict_of(step_of("rate", document, check_complete(document)), problem=problem)
        assert verdict.answer == "invalid"
        assert exit_code_of(verdict.answer, verdict.problem) == ExitCode.UNANSWERED
        assert ["free space" in each for each in verdict.advice] == [True]


def unknown(kind: str = "soak", due: int = 300, **changes: Any) -> Step:
    """Frames were lost, and nobody knows why: too many to record their times."""
    document = simulated_document(0.2, due=due, **changes).model_copy(update={"records": None})
    return step_of(kind, document, check("warning", "worse", "machine quiet"))  # type: ignore[arg-type]


def test_a_loss_of_unknown_cause_is_no_yes_whatever_held_before() -> None:
    verdict = verdict_of(full_speed(), at_rate(), unknown())
    assert verdict.answer == "cannot tell"
    assert "not recorded" in verdict.reasons[1]


def test_a_lower_rate_that_was_charged_to_the_storage_contradicts_a_yes() -> None:
    lower = step_of("search", simulated_document(0.4, rate_hz=6.0))
    assert lower.outcome == "not held"
    verdict = verdict_of(full_speed(), disturbed(), disturbed(), lower, soak(), search=searched(None, 6.0))
    assert verdict.answer == "cannot tell"
    assert "6 Hz" in verdict.reasons[1]


def test_what_was_in_the_queue_when_it_was_interrupted_is_not_lost() -> None:
    plain = frames_document().frames
    assert plain is not None
    counts = plain.model_dump() | {"unfinished": 9, "written": 291}
    step = step_from("rate", run_of(frames_document(frames=counts, interrupted=True), []))
    assert step.outcome == "held"


def test_a_generator_that_stood_still_where_threads_are_hidden_charges_nobody() -> None:
    """In a container that was paused for 3 s on an idle machine."""
    generator = frames_document().generator
    assert generator is not None
    stopped = generator.model_copy(update={"stood_still_ns": [(10 * SECOND, 13 * SECOND)]}).model_dump()
    own = [0.01] * 100 + [3.0] + [0.01] * 199
    hidden = MEANWHILE.model_copy(update={"storage_waits": None})
    run = run_of(simulated_document(own, generator=stopped), [check("ok", "worse", "machine quiet")])
    step = step_from("rate", run.model_copy(update={"meanwhile": hidden}))
    assert step.outcome == "disturbed"
    assert "itself stalled" in verdict_of(full_speed(bytes_per_s=11e6), step).reasons[-1] + "".join(
        verdict_of(step).reasons
    )


def test_exit_codes_of_likely_answers_are_those_of_the_answers() -> None:
    assert verdict_of(at_rate(), soak()).answer == "likely yes"
    assert exit_code_of("likely yes", None) == ExitCode.FINE
    assert exit_code_of("likely no", None) == ExitCode.FAILED


@pytest.mark.parametrize(
    ("answer", "code", "code_if_ended_early"),
    [
        ("yes", 0, 5),
        ("likely yes", 0, 5),
        ("cannot tell", 3, 5),
        ("invalid", 4, 5),
        ("likely no", 1, 1),
        ("no", 1, 1),
    ],
)
def test_of_what_ended_early_only_a_no_keeps_its_exit_code(
    answer: Answer, code: int, code_if_ended_early: int
) -> None:
    assert exit_code_of(answer, None) == code
    assert exit_code_of(answer, "it was interrupted") == code_if_ended_early


def test_writes_that_failed_or_never_ended_are_the_storages() -> None:
    plain = frames_document().frames
    assert plain is not None
    for what in ("failed", "unfinished"):
        counts = plain.model_dump() | {what: 1, "written": 299}
        run = run_of(frames_document(frames=counts), []).model_copy(update={"meanwhile": MEANWHILE})
        assert verdict_of(step_from("rate", run)).answer == "no"


def with_write_error(kind: str, code: str = "io", rate_hz: float = 10.0) -> Step:
    """A run that a write ended, with the check that fails because of it."""
    made = paced_document(rate_hz, 300, duration_s=30) if rate_hz != 10.0 else frames_document()
    assert made.frames is not None
    ended = made.model_copy(
        update={
            "frames": made.frames.model_copy(update={"written": 299, "failed": 1}),
            "problem": "write frame-000299: Input/output error",
            "failure": Failure(code=code, path="frame-000299", detail="write failed"),
        }
    )
    run = run_of(ended, [check_complete(ended)]).model_copy(update={"meanwhile": MEANWHILE})
    return step_from(kind, run)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [[], [full_speed(), at_rate()]])
@pytest.mark.parametrize("kind", ["rate", "soak"])
def test_an_error_of_the_storage_at_the_rate_is_a_no(kind: str, steps: list[Step]) -> None:
    verdict = verdict_of(*steps, with_write_error(kind), problem="Input/output error")
    assert verdict.answer == "no"
    assert verdict.lost == 1
    assert "the storage returned an error: write frame-000299: Input/output error" in verdict.reasons[0]


def test_an_error_of_the_storage_at_another_rate_leaves_no_yes() -> None:
    for step in (with_write_error("search", rate_hz=20.0), with_write_error("full speed", rate_hz=0.0)):
        verdict = verdict_of(full_speed(), at_rate(), step, soak(), problem="Input/output error")
        assert verdict.answer == "cannot tell"
        assert "the storage returned an error" in verdict.reasons[-1]


def test_a_full_storage_is_invalid_and_not_too_slow() -> None:
    assert with_write_error("rate", code=NO_SPACE).outcome == "invalid"


def slower_and_slower(share: float) -> LoadDocument:
    """Storage that carries so much less than comes."""
    records = frames_document().records
    assert records is not None
    done = [int(n * SECOND / 10 * (1 + share)) + 2_000_000 for n in range(300)]
    return frames_document(records=records.model_dump() | {"done_ns": done})


def with_latency_ns(most_ns: int) -> LoadDocument:
    times = frames_document().times
    assert times is not None
    return frames_document(times=times.model_dump() | {"latency": histogram(*[2_000_000] * 299, most_ns)})


@pytest.mark.parametrize("share", [0.0, 0.005, 0.02])
def test_a_backlog_that_grows_is_no_rate_that_holds(share: float) -> None:
    document = slower_and_slower(share)
    assert backlog_growth(document) == pytest.approx(share, abs=1e-6)
    step = step_of("rate", document)
    assert (step.outcome == "held") == (share < 0.01)
    assert [("grew by 2.0 %" in each) for each in step.shortcomings] == [True] * (share > 0.01)


def test_a_backlog_is_told_without_the_times_of_frames_too() -> None:
    seconds = 60
    columns = {name: [10] * seconds for name in ("due", "done", "bytes", "late", "dropped", "time_max_ns")}

    def with_held(held: list[int]) -> LoadDocument:
        series = {"interval_s": 1.0, **columns, "held_max": held}
        return frames_document(records=None, series=series)

    assert backlog_growth(with_held([3] * seconds)) == 0
    # Half of what comes stays: 5 frames a second more in the buffer, half a second's worth.
    assert backlog_growth(with_held([5 * n for n in range(seconds)])) == pytest.approx(0.5)
    assert backlog_growth(frames_document(records=None)) is None


def test_a_frame_that_comes_too_late_is_no_rate_that_holds() -> None:
    run = step_of("rate", with_latency_ns(600_000_000)).run
    assert outcome_of(run, 0.7)[:2] == ("held", [])
    outcome, shortcomings, _ = outcome_of(run, 0.5)
    assert outcome == "disturbed", "the storage's own times do not explain it"
    assert "600 ms" in shortcomings[0]


@pytest.mark.parametrize("outcome", ["warning", "failed"])
def test_a_disturbed_probe_counts_for_nothing(outcome: str, tmp_path: Path) -> None:
    """A longer run replaced it: neither validity nor advice come from its checks."""
    probe = full_speed(check(outcome, "either")).model_copy(update={"kind": "probe"})
    verdict = verdict_of(probe, full_speed(), at_rate(), soak())
    path = tmp_path / "verdict.json"
    path.write_text(verdict.model_dump_json(), encoding="utf-8")
    assert verdict.answer == "yes"
    assert measured_bandwidth([path]).validity == "valid"
    assert entry_of(verdict, path, path.read_bytes()).validity == "valid"
    void = check("failed", "better", "void").model_copy(update={"advice": "measure more"})
    assert verdict_of(probe, full_speed(), at_rate(void)).advice == ["void: measure more"]


def long_soak() -> Step:
    """A minute at the detector's rate, without a loss."""
    return step_of("soak", paced_document(10.0, 600, duration_s=60))


def failed_at(rate_hz: float, frames: int = 300) -> Step:
    """A run that one late frame decided."""
    made = step_of("search", paced_document(rate_hz, frames, duration_s=frames / rate_hz))
    return made.model_copy(update={"outcome": "not held", "shortcomings": ["a frame was written too late"]})


@pytest.mark.parametrize(
    ("steps", "held_hz", "measured_hz", "less_than_hz"),
    [
        ([failed_at(10.0), long_soak()], 7.5, 10.0, None),
        ([failed_at(10.0), failed_at(12.0), long_soak()], 7.5, 10.0, 12.0),
        ([failed_at(10.0, frames=600), long_soak()], 7.5, 7.5, 10.0),  # as long as the soak
        ([failed_at(9.0, frames=700), failed_at(10.0), long_soak()], 7.5, 7.5, 10.0),
        ([failed_at(21.0), long_soak()], 20.0, 20.0, 21.0),
    ],
)
def test_measured_rate_is_never_below_one_that_was_sustained_longer(
    steps: list[Step], held_hz: float, measured_hz: float, less_than_hz: float | None
) -> None:
    not_held_hz = 21.0 if held_hz > 10 else 10.0
    verdict = verdict_of(full_speed(), *steps, search=searched(held_hz, not_held_hz))
    assert verdict.measured_bytes_per_s == measured_hz * 1e6
    assert verdict.less_than_bytes_per_s == (None if less_than_hz is None else less_than_hz * 1e6)
    assert verdict.margin == measured_hz / 10
    shown = verdict_rows(verdict)
    assert (f"{measured_hz:g} Hz sustained for longer" in shown["bracket"]) == (measured_hz > held_hz)
    assert shown["sustained"].startswith(f"at least {measured_hz:g} MB/s")


def test_unpaced_throughput_is_no_less_than_what_was_sustained_longer() -> None:
    """Without a search it is the metric."""
    slow = full_speed(bytes_per_s=9e6)
    assert verdict_of(slow, at_rate(), long_soak()).measured_bytes_per_s == 10e6
    assert verdict_of(slow, at_rate()).measured_bytes_per_s == pytest.approx(9e6, rel=0.01)


@pytest.mark.parametrize(("ring", "is_noted"), [(0, False), (120, True), (300, False)])
def test_note_says_which_cache_a_ring_does_not_fill(ring: int, *, is_noted: bool) -> None:
    document = frames_document()
    workload = document.plan.workload.model_copy(update={"ring_frames": ring})
    ringed = document.model_copy(update={"plan": document.plan.model_copy(update={"workload": workload})})
    notes = verdict_of(full_speed(), step_of("rate", ringed), step_of("soak", ringed)).notes
    note = "a cache of the storage that holds more than 120 MB is not noticed; --space increases that"
    assert notes == ([note] if is_noted else [])


def test_more_than_what_is_needed_is_no_share_of_it() -> None:
    verdict = verdict_of(full_speed(bytes_per_s=40e6), disturbed())
    told = " ".join([*verdict.reasons, *verdict.notes])
    assert "unpaced, the storage reached 40 MB/s, 4 times what is needed" in told
    assert "of the required" not in told
