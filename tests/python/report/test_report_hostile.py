"""No document can break a page that is made of it."""

import functools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_documents import (
    frames_document,
    paced_document,
    searched,
    step_of,
    verdict_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_documents import (
    FAILED,
    WARNED,
    Parsed,
    a_campaign,
    a_run,
    a_verdict,
    lines_of,
    require_alone_and_accessible,
    svgs_of,
)

from penstock.files.documents import Document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.page import Banner, Cell, Facts, Lines, Page, Picture, Section, Table, Tile, Tiles
from penstock.report.pages.plots import series_plot
from penstock.report.printable import printable

HOSTILE = [
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></style><!--",
    "]]><![CDATA[ &lt; &#0; & {{ 7 * 7 }} {% raw %}",
    "$\\frac{1$ | `code` **bold** [a](javascript:alert(1)) <b>",
    "=HYPERLINK(1) \x00\x1b[31m\x07\u202e\u2028\ufeff\r\n# head",
    "@x" * 3_000_000,
]
# These have a few values only: anything else is refused before a page is made.
FIXED = {
    "format", "workload", "validity", "outcome", "bias", "kind", "answer", "content", "sync", "layout",
    "log_level", "ended", "top_reason", "phase",
}  # fmt: skip


def with_text(value: Any, text: str) -> Any:
    """Every text of a document that may be any."""
    if isinstance(value, dict):
        return {
            key: each if key in FIXED and isinstance(each, str) else with_text(each, text)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [with_text(each, text) for each in value]
    return text if isinstance(value, str) else value


def hostile(document: Document, text: str) -> Document:
    dumped = with_text(document.model_dump(mode="json"), text)
    if isinstance(document, Campaign):
        for number, case in enumerate(dumped["cases"]):
            case["name"] = case["name"][:500] + str(number)
            case["target"] = ""
        places = [case.name for case in document.cases]
        for each, plain in zip(dumped["runs"], document.runs, strict=True):
            each["case"] = dumped["cases"][places.index(plain.case)]["name"]
    made: Document = type(document).model_validate(dumped)
    return made


# Few plots: they take the time.
SMALL: dict[str, Document] = {
    "run": a_run(WARNED),
    "verdict": verdict_of(
        step_of("rate", frames_document(), WARNED),
        step_of("search", paced_document(30.0, 310, 7, duration_s=10.5), FAILED),
        search=searched(20.0, 31.0),
    ),
    "campaign": a_campaign(blocks=1),
}


MARKDOWN_TAGS = {
    "h1", "h2", "h3", "p", "strong", "em", "s", "ul", "li", "blockquote",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


@functools.cache
def harmless_tags(name: str) -> list[str]:
    return Parsed(html_of([page_of(hostile(SMALL[name], "harmless"), "harmless")])).outside_svg


# The gate tries each text in one kind of document, and two in all: campaigns have several plots to draw.
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(name, text, id=f"{name}-{number}", marks=() if number in often else pytest.mark.slow)
        for name, often in (("run", range(len(HOSTILE))), ("verdict", (0, 6)), ("campaign", (0, 6)))
        for number, text in enumerate(HOSTILE)
    ],
)
def test_no_text_in_a_document_breaks_its_page(name: str, text: str) -> None:
    """The tags are those that the same page with a harmless text has."""
    document = hostile(SMALL[name], text)
    page = page_of(document, text)
    html = html_of([page])
    require_alone_and_accessible(html)
    assert Parsed(html).outside_svg == harmless_tags(name)
    assert re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", html) is None
    assert len(html) < 4_000_000
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown_of([page]))
    assert set(re.findall(r"<([a-z0-9]+)", rendered)) <= MARKDOWN_TAGS
    for line in lines_of({text: document}):
        assert None not in line
        assert not line["document"].startswith(("=", "+", "-", "@"))


TEXTS = st.text(max_size=60)


@settings(max_examples=40, deadline=None)
@given(text=TEXTS, other=TEXTS)
def test_any_text_is_shown_as_it_is(text: str, other: str) -> None:
    cell, fact = Cell(text), {other: text}
    table = Table(other, [text], [[cell]])
    lines, tiles, picture = Lines(other, [text]), Tiles([Tile(text, other)]), Picture(text, other, "")
    section = Section(text, [table, Facts(fact), lines, tiles, picture])
    page = Page(text, other, "", text, other, [Banner("bad", text)], [section])
    parsed = Parsed(html_of([page]))
    assert printable(text) in (*parsed.text, "")
    assert " ".join(printable(text).split()) in parsed.words
    rows = [line for line in markdown_of([page]).splitlines() if line.startswith("|")]
    assert len(rows) == 9  # three tables of a head, a rule and what is in them; no line of a text's own


@given(text=st.text())
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    shown = printable(text, 40)
    assert len(shown) <= 40
    assert shown.isprintable() or not shown.strip("\u00a0")
    assert printable(shown, 40) == shown


NUMBERS = st.one_of(st.integers(-(10**30), 10**400), st.integers(-3, 3))


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(*[NUMBERS] * 7), max_size=5), interval=st.floats(-1, 1e300), ragged=st.booleans()
)
def test_impossible_figures_have_a_plot_or_none(
    rows: list[tuple[int, ...]], interval: float, ragged: bool
) -> None:
    names = ("due", "dropped", "done", "late", "bytes", "held_max", "time_max_ns")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    series = {"interval_s": interval, **columns, **({"dropped": [1]} if ragged else {})}
    plot = series_plot(a_run(series=series), "x", None, is_void=False)
    assert plot is None or not plot.svg or svgs_of(plot.svg)


def test_a_plot_that_cannot_be_drawn_is_told() -> None:
    columns = ("due", "dropped", "done", "late", "bytes", "held_max", "time_max_ns")
    series = {"interval_s": 1.0, **{name: [10**400] for name in columns}}
    html = html_of([page_of(a_run(series=series), "x.json")])
    require_alone_and_accessible(html)
    assert "It cannot be drawn" in Parsed(html).words


# Says in the page itself how many of its tables and plots have to be scrolled sideways.
MEASURING = (
    "<script>document.body.dataset.cut = [...document.querySelectorAll('.scroll')]"
    ".filter(each => each.scrollWidth > each.clientWidth).length</script></body>"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_opens_the_page(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    written = html_of([page_of(hostile(SMALL["verdict"], HOSTILE[0]), "x.json")])
    page.write_text(written)
    seen = as_a_browser_sees(page)
    tags = [tag for tag, _ in Parsed(seen).tags]
    assert tags.count("svg") == len(svgs_of(written)) >= 2
    assert "script" not in tags


@pytest.fixture(scope="module")
def page_of_a_verdict() -> str:
    """With rates and counts of a detector of today, and reasons a sentence long. It takes seconds to make."""
    lost = [step_of("search", paced_document(123.4 * n, 130_000, 12_345, duration_s=10.5)) for n in (1, 2)]
    steps = [*a_verdict().steps, *(step.model_copy(update={"run": busy(step.run)}) for step in lost)]
    return html_of([page_of(a_verdict().model_copy(update={"steps": steps}), "x.json")])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1200, 1600])
def test_a_verdict_fits_a_window(page_of_a_verdict: str, tmp_path: Path, width: int) -> None:
    written = page_of_a_verdict
    page = tmp_path / "r.html"
    policy = re.search(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", written)
    assert policy is not None
    page.write_text(written.replace(policy[0], "").replace("</body>", MEASURING))
    assert 'data-cut="0"' in as_a_browser_sees(page, f"--window-size={width},2000")


def busy(run: Run) -> Run:
    assert run.frames is not None
    slow = run.frames.latency_ms.model_copy(update={"p50": 123.4, "p99": 1234.5, "max": 12345.6})
    return run.model_copy(
        update={"frames": run.frames.model_copy(update={"latency_ms": slow, "late": 99_999})}
    )


def as_a_browser_sees(page: Path, *options: str) -> str:
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent}/profile",
        *options,
    ]
    return subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    ).stdout
