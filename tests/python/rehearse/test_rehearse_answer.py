"""From steps to the answer: never yes where a frame was lost, and no blame for the simulator."""

from typing import Any

import pytest

from penstock.bench.rehearse.answer import Evidence, advice_of, answer_of, step_notes
from penstock.model.bench.rehearsals import RehearsalAnswer, RehearsalStep, SeriesAccount, Stage, StageUse
from penstock.model.bench.runs import Check, Search
from penstock.model.configuration import Configuration
from penstock.model.findings import Finding
from penstock.model.plans import RecorderPlan

NEEDED = 25.0


def step(outcome: str = "held", **fields: Any) -> RehearsalStep:
    """20 s at the needed rate, unless `fields` say otherwise."""
    sent, missing, different = 500, fields.pop("missing", 0), fields.pop("different", 0)
    found = [Finding(level="error", what="a checksum is wrong")] if fields.pop("corrupt", False) else []
    account = SeriesAccount(
        sent=sent, received=sent - missing, written=sent - missing, damaged=0, dropped=0, lost=missing,
        compared=sent - missing, different=different, raw_bytes=8000, stored_bytes=1000,
        findings=found,
    )  # fmt: skip
    values: dict[str, Any] = {
        "kind": "rate",
        "rate_hz": NEEDED,
        "seconds": 20.0,
        "sent_hz": NEEDED,
        "outcome": outcome,
        "shortcomings": [] if outcome == "held" else [f"{missing} of 500 frames are not in the file"],
        "series": [account],
    }
    return RehearsalStep.model_validate(values | fields)


def plan(**settings: Any) -> RecorderPlan:
    return Configuration.model_validate(settings).plan({})


def evidence(*steps: RehearsalStep, **more: Any) -> Evidence:
    values: dict[str, Any] = {
        "needed_hz": NEEDED,
        "frame_bytes": 1000,
        "steps": steps,
        "search": None,
        "problem": None,
        "plan": plan(),
        "ranks": 1,
        "sender": "",
    }
    return Evidence(**values | more)


def search(held: float | None, not_held: float | None) -> Search:
    return Search(
        held_hz=held, not_held_hz=not_held, full_speed_hz=60, top_hz=250, top_reason="asked", ended="narrow"
    )


def test_all_frames_there_is_a_yes() -> None:
    answer, confidence, reasons = answer_of(evidence(step(), step(kind="soak")))
    assert (answer, confidence) == ("yes", 0.95)
    assert "all 1000 frames" in reasons[0]


@pytest.mark.parametrize(
    ("lost", "answer"), [({"missing": 1}, "likely no"), ({"different": 1}, "no"), ({"corrupt": True}, "no")]
)
def test_one_lost_or_different_frame_is_never_a_yes(lost: dict[str, int], answer: str) -> None:
    """In whichever step at or below the rate."""
    assert answer_of(evidence(step(), step("not held", **lost)))[0] == answer
    assert answer_of(evidence(step("not held", kind="warm-up", **lost), step()))[0] == answer
    below = step("not held", kind="search", rate_hz=20.0, **lost)
    assert answer_of(evidence(step(), below))[0] == answer


@pytest.mark.parametrize("wrong", [{"different": 5}, {"corrupt": True}])
@pytest.mark.parametrize(
    ("kind", "rate_hz", "name"), [("full speed", 0.0, "unpaced: "), ("search", 50.0, "search, 50 Hz: ")]
)
def test_other_pixels_are_a_no_at_any_rate(
    wrong: dict[str, Any], kind: str, rate_hz: float, name: str
) -> None:
    words = "5 frames differ from what was sent"
    other = step("not held", kind=kind, rate_hz=rate_hz, shortcomings=[words], **wrong)
    assert answer_of(evidence(step(), other, step(kind="soak"))) == ("no", 0.95, [f"{name}{words}"])


def test_frames_that_are_lost_above_the_rate_do_not_count() -> None:
    lost = step("not held", kind="search", rate_hz=50.0, missing=5, corrupt=True)
    assert answer_of(evidence(step(), lost))[0] == "yes"


@pytest.mark.parametrize("kind", ["warm-up", "soak"])
def test_frames_that_were_not_compared_leave_a_likely_yes(kind: str) -> None:
    unchecked = step("invalid", kind=kind, shortcomings=["300 frames could not be compared"])
    answer, confidence, reasons = answer_of(evidence(step(), unchecked))
    assert (answer, confidence) == ("likely yes", 0.75)
    assert f"{kind}, 25 Hz: 300 frames could not be compared" in reasons


def test_two_failed_runs_are_a_no() -> None:
    lost = step("not held", missing=3, narrowest="storage")
    assert answer_of(evidence(lost, lost))[:2] == ("no", 0.95)
    assert answer_of(evidence(lost))[:2] == ("likely no", 0.75)


def test_simulator_that_is_too_slow_says_nothing_about_the_recorder() -> None:
    slow = step("not held", narrowest="sender", stopped=True, shortcomings=["sending fell behind"])
    answer, confidence, reasons = answer_of(evidence(slow, slow))
    assert (answer, confidence) == ("cannot tell", None)
    assert "cannot send" in reasons[0]
    lost = step("not held", narrowest="sender", missing=1)
    assert answer_of(evidence(lost, lost))[0] == "no"


def test_short_or_narrow_evidence_is_likely_only() -> None:
    assert answer_of(evidence(step(seconds=3.0)))[0] == "likely yes"
    assert answer_of(evidence(step(), search=search(25.0, 25.9)))[0] == "likely yes"
    assert answer_of(evidence(step(), search=search(40.0, 42.0)))[0] == "yes"
    assert answer_of(evidence(step(), problem="interrupted"))[0] == "likely yes"


def check_of(outcome: str, bias: str, name: str = "storage, not memory") -> Check:
    return Check.model_validate(
        {"name": name, "outcome": outcome, "expected": "e", "actual": "tmpfs", "bias": bias, "advice": "do"}
    )


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (check_of("warning", "better"), "likely yes"),
        (check_of("warning", "worse", "machine quiet"), "yes"),
        (check_of("ok", "better"), "yes"),
    ],
)
def test_memory_instead_of_storage_is_no_certain_yes(check: Check, answer: str) -> None:
    steps = [step(checks=[check]), step(kind="soak", checks=[check])]
    found, _, reasons = answer_of(evidence(*steps))
    assert found == answer
    assert ['check "storage, not memory" gives a warning: tmpfs' in each for each in reasons[1:]] == (
        [True] if answer == "likely yes" else []
    )
    assert step_notes(steps) == (
        [] if check.outcome == "ok" else [f"{check.name}: tmpfs; expected: e (detector's rate, soak): do"]
    )


def failed(delayed: float | None = 0.4, narrowest: Stage = "compress", **fields: Any) -> RehearsalStep:
    uses = (
        []
        if delayed is None
        else [StageUse(stage="compress", threads=1, utilisation=1.0, headroom=1.0, delayed=delayed)]
    )
    busy = [check_of("warning", "worse", name) for name in fields.pop("checks", ["machine quiet"])]
    late = ["the backlog grew by 5.0 % of what was sent"]
    return step("not held", stages=uses, checks=busy, narrowest=narrowest, shortcomings=late, **fields)


def unpaced(written_hz: float) -> RehearsalStep:
    return step("measured", kind="full speed", rate_hz=0, written_hz=written_hz)


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        ("likely no", [failed(), failed()]),
        ("likely no", [failed(None), failed(None)]),
        ("likely no", [failed(), failed(), unpaced(30.0)]),
        ("cannot tell", [failed(), failed(), unpaced(32.0)]),
        ("cannot tell", [failed(), step()]),
        ("cannot tell", [failed(), failed(), step(kind="search", rate_hz=50.0)]),
        ("likely no", [failed(), failed(delayed=0.1)]),
        ("no", [failed(delayed=0.1), failed(delayed=0.1)]),
        ("no", [failed(), failed(delayed=0.1), failed(delayed=0.1)]),
        ("no", [failed(checks=[]), failed(checks=[])]),
        ("no", [failed(narrowest="network"), failed(narrowest="network")]),
        ("no", [failed(0.0, checks=["storage used exclusively"])] * 2),
        ("likely no", [failed(0.0, "storage", checks=["storage used exclusively"])] * 2),
    ],
)
def test_other_programs_that_explain_it_leave_no_certain_no(
    answer: RehearsalAnswer, steps: list[RehearsalStep]
) -> None:
    found, _, reasons = answer_of(evidence(*steps))
    assert found == answer
    assert "the backlog grew" in " ".join(reasons)


def test_frames_that_could_not_be_compared_are_invalid() -> None:
    assert answer_of(evidence(step("invalid", shortcomings=["not compared"])))[0] == "invalid"
    assert answer_of(evidence())[0] == "cannot tell"


def test_last_unpaced_step_counts_twice() -> None:
    steps = [
        step("measured", kind="full speed", rate_hz=0, narrowest="network"),
        step("measured", kind="full speed", rate_hz=0, narrowest="compress"),
        step("not held", kind="search", rate_hz=50.0, narrowest="sender"),
    ]
    assert evidence(*steps).narrowest == "compress"


@pytest.mark.parametrize(
    ("stage", "settings", "words"),
    [
        (
            "compress",
            {"threads": 3, "codec": {"encoding": "zstd", "level": 9}},
            ["threads", "3", "codec.level"],
        ),
        ("pool", {"pool_bytes": "128 MiB"}, ["pool_bytes", "128 MiB"]),
        ("storage", {"codec": {"encoding": "none"}}, ["storage that is faster", "--codec bslz4"]),
        ("index", {}, ["chunk.frames"]),
        ("network", {}, ["penstock bench network"]),
        ("receive", {}, ["--ranks"]),
        ("write", {"store": {"direct": False}}, ["store.direct"]),
        ("sender", {}, ["--from"]),
    ],
)
def test_advice_names_what_to_change(stage: Stage, settings: dict[str, Any], words: list[str]) -> None:
    found = evidence(step("not held", narrowest=stage, missing=1), plan=plan(**settings))
    text = " ".join(advice_of(found, [], "no"))
    for word in words:
        assert word in text


def test_crowded_processors_are_named() -> None:
    use = StageUse(stage="compress", threads=2, utilisation=1.0, headroom=1.0, running=0.5, delayed=0.5)
    found = evidence(step("not held", narrowest="compress", missing=1))
    text = " ".join(advice_of(found, [use], "no"))
    assert "free processors" in text
    assert "increase threads" not in text


def test_search_that_ran_out_of_time_is_advised_to_take_longer() -> None:
    found = search(40.0, None).model_copy(update={"ended": "time"})
    steps = [step(), step("not held", kind="search", rate_hz=90.0, narrowest="compress")]
    assert "--search-time" in " ".join(advice_of(evidence(*steps, search=found), [], "likely yes"))


def used(stage: Stage, headroom: float | None) -> StageUse:
    return StageUse(stage=stage, threads=4, utilisation=0.1, headroom=headroom)


@pytest.mark.parametrize(
    ("answer", "headroom", "found", "changes"),
    [
        ("yes", 2.0, search(60.0, 63.0), False),
        ("yes", None, None, False),
        ("yes", 1.3, search(60.0, 63.0), True),
        ("yes", 2.0, search(30.0, 31.0), True),
        ("likely yes", 2.0, search(60.0, 63.0), True),
        ("no", 2.0, None, True),
    ],
)
def test_a_comfortable_chain_needs_no_change(
    answer: RehearsalAnswer, headroom: float | None, found: Search | None, changes: bool
) -> None:
    stages = [used("sender", 1.1), used("compress", headroom)]
    steps = [step(stages=stages), step("not held", kind="search", rate_hz=63.0, narrowest="compress")]
    assert bool(advice_of(evidence(*steps, search=found), stages, answer)) is changes
