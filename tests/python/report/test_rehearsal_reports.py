"""Reports of rehearsals: what was rehearsed, and how much headroom was found."""

from typing import Any

import pytest
from report_documents import a_rehearsal
from rich.console import Console

from penstock.model.bench.rehearsals import Rehearsal, RehearsalStep, StageUse
from penstock.model.bench.runs import Search
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.overview import overview_page
from penstock.report.pages.page import Tiles
from penstock.report.rehearse.rehearsals import rehearsal_step_line, rehearsal_view


def recorded_with(encoding: str, **more: Any) -> Rehearsal:
    job = {
        "threads": 4,
        "pool_bytes": 1 << 30,
        "codec": {"encoding": encoding, "level": 0, "filters": None},
        "store": {"durability": "segment"},
    }
    return a_rehearsal(configuration=job, configuration_file=f"{encoding}.yaml", **more)


def shown(rehearsal: Rehearsal) -> str:
    """The terminal's view, as one line."""
    console = Console(width=400, no_color=True)
    with console.capture() as captured:
        console.print(rehearsal_view(rehearsal))
    return " ".join(captured.get().split())


@pytest.mark.parametrize("encoding", ["bszstd", "bslz4"])
def test_reports_name_what_was_rehearsed(encoding: str) -> None:
    rehearsal = recorded_with(encoding)
    page = page_of(rehearsal, "x.json")
    for text in (markdown_of([page]), html_of([page])):
        for word in (encoding, "1 GiB", "synced with each segment", f"{encoding}.yaml"):
            assert word in text
    assert f"{encoding}, 4 threads, pool 1 GiB, durability segment" in shown(rehearsal)


def test_two_rehearsals_differ_in_the_overview() -> None:
    documents = {f"{each}.json": recorded_with(each) for each in ("bszstd", "bslz4")}
    text = markdown_of([overview_page(documents, [page_of(each, "") for each in documents.values()])])
    assert "Does the chain keep up with the PILATUS 6M? (bszstd, 4 threads" in text
    assert "Does the chain keep up with the PILATUS 6M? (bslz4, 4 threads" in text


def test_headroom_of_a_search_without_an_upper_bound_is_shown() -> None:
    """91.6 Hz was sustained once, and once it was not, before the time ran out."""
    found = Search(
        held_hz=25.0, not_held_hz=None, held_runs=2, chance_hz=[91.6], full_speed_hz=100.0, top_hz=250.0,
        ended="time",
    )  # fmt: skip
    rehearsal = a_rehearsal(search=found, sustained_hz=25.0, less_than_hz=None, factor=1.0)
    page = markdown_of([page_of(rehearsal, "x.json")])
    for text in (shown(rehearsal), page):
        assert "100 Hz (100 MB/s), factor 4" in text
        assert "at 91.6 Hz only some runs were sustained" in text
        assert "--search-time" in text
    assert "factor 1 or more (unpaced: factor 4)" in shown(rehearsal)


def test_headline_names_the_confidence() -> None:
    rehearsal = a_rehearsal(answer="likely no", confidence=0.75)
    page = page_of(rehearsal, "x.json")
    assert "Likely no (75 % confidence)" in html_of([page])
    assert "Likely no (75 % confidence)" in markdown_of([page])
    assert "likely no (75 % confidence)" in shown(rehearsal)
    assert page_of(a_rehearsal(answer="cannot tell", confidence=None), "x.json").answer == "Cannot tell"


def test_queue_of_the_pool_is_explained_by_the_pool_of_the_plan() -> None:
    """Frames have half of the pool."""
    use = StageUse(
        stage="pool", threads=0, utilisation=0.1, headroom=10, queue="pool_bytes",
        queue_mean=0.25 * (1 << 29), queue_limit=1 << 29,
    )  # fmt: skip
    rehearsal = recorded_with("bslz4", stages=[use])
    words = "25 % of 512 MiB, half of the pool"
    assert words in shown(rehearsal)
    assert words in markdown_of([page_of(rehearsal, "x.json")])


@pytest.mark.parametrize(
    ("sent_hz", "title"),
    [(24.9, "Stages at 25 Hz"), (20.0, "Stages at 20 Hz, the rate reached (25 Hz needed)")],
)
def test_rate_to_which_headroom_refers_is_named(sent_hz: float, title: str) -> None:
    use = StageUse(stage="compress", threads=2, utilisation=0.9, headroom=1.1)
    step = RehearsalStep(
        kind="rate", rate_hz=25, seconds=10, sent_hz=sent_hz, outcome="held", shortcomings=[], series=[],
        stages=[use],
    )  # fmt: skip
    earlier = step.model_copy(update={"sent_hz": 10.0, "stages": [use.model_copy(update={"threads": 3})]})
    for kind in ("rate", "soak"):
        last = step.model_copy(update={"kind": kind})
        rehearsal = a_rehearsal(stages=[use], steps=[earlier, last])
        assert f"{title}: stage " in shown(rehearsal)
        assert f"## {title}\n" in markdown_of([page_of(rehearsal, "x.json")])


def test_no_missing_frame_is_no_success_where_the_rate_was_not_sustained() -> None:
    def state(answer: str) -> str:
        page = page_of(a_rehearsal(answer=answer, missing=0), "x.json")
        tiles = next(each for each in page.sections[0].blocks if isinstance(each, Tiles))
        return next(tile.state for tile in tiles.tiles if tile.label == "missing frames")

    assert [state(answer) for answer in ("yes", "no")] == ["good", ""]


def test_repeated_step_has_a_reason() -> None:
    short = RehearsalStep(
        kind="full speed", rate_hz=0, seconds=1.8, sent_hz=45.95, outcome="measured", shortcomings=[],
        series=[], repeated="shorter than 5 s; repeated with more frames",
    )  # fmt: skip
    assert rehearsal_step_line(short) == ("unpaced: shorter than 5 s; repeated with more frames")
    page = markdown_of([page_of(a_rehearsal(steps=[short]), "x.json")])
    assert "shorter than 5 s; repeated with more frames" in page


def test_unpaced_throughput_that_is_not_known_has_a_reason() -> None:
    """However fast frames arrived in memory."""
    step = RehearsalStep(
        kind="full speed", rate_hz=0, seconds=0.004, sent_hz=11740.0, outcome="measured", series=[],
        shortcomings=["no unpaced throughput: the recorder's memory held 50 of 50 frames"],
    )  # fmt: skip
    rehearsal = a_rehearsal(steps=[step], search=None, less_than_hz=None)
    page = markdown_of([page_of(rehearsal, "x.json")])
    for text in (shown(rehearsal), page):
        assert "memory held 50 of 50 frames" in text
        assert "11740" not in text
        assert "11.7" not in text
