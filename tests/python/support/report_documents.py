"""Documents to make pages of, and what reads the pages."""

import csv
import io
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from bench_documents import (
    EMPTY,
    SECOND,
    frames_document,
    histogram,
    paced_document,
    run_of,
    searched,
    step_of,
    verdict_of,
)

from penstock.files.documents import Document
from penstock.model.bench.campaigns import Campaign, Case, CaseRun
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Check, Run, Verdict
from penstock.report.pages.comma_separated import csv_of

FAILED = Check(name="storage", outcome="failed", expected="e", actual="a", bias="better", advice="do")
WARNED = FAILED.model_copy(update={"name": "quiet", "outcome": "warning"})
VOID_ELEMENTS = {"meta", "link", "br", "img", "input", "hr"}


def with_series(dropped: int = 20) -> LoadDocument:
    """A stall of 2 s from the tenth second on, in which a full buffer of ten loses frames; 0: no stall."""
    slowest = 2 * SECOND if dropped else 4_000_000
    lost = [dropped // 2 if second in (10, 11) else 0 for second in range(30)]
    series = {
        "interval_s": 1.0,
        "due": [10] * 30,
        "dropped": lost,
        "done": [0 if each else 10 for each in lost],
        "late": [0] * 30,
        "bytes": [0 if each else 10**7 for each in lost],
        "held_max": [10 if each else 1 for each in lost],
        "time_max_ns": [2_000_000] * 10 + [0, 0, slowest] + [3_000_000] * 17,
    }
    latency = histogram(*[2_000_000 + n for n in range(279)], slowest)
    times = {"latency": latency, "wait": EMPTY, "service": histogram(*[1_000_000] * 280), "jitter": latency}
    buffer = {"held_max": 10, "stall_s": slowest * 1e-9, "stall_end_s": 12.0}
    return frames_document(dropped=dropped, series=series, times=times, buffer=buffer)


def a_run(*checks: Check, **changes: Any) -> Run:
    return run_of(frames_document(**changes), list(checks))


def a_verdict(problem: str | None = None) -> Verdict:
    return verdict_of(
        step_of("rate", frames_document()),
        step_of("full speed", paced_document(0.0, 100, duration_s=5.0)),
        step_of("search", paced_document(20.0, 210, duration_s=10.5), WARNED),
        step_of("search", paced_document(30.0, 310, 7, duration_s=10.5)).model_copy(
            update={"outcome": "not held"}
        ),
        step_of("search", paced_document(24.5, 250, duration_s=10.5), FAILED),
        step_of("soak", with_series(0)),
        search=searched(20.0, 30.0),
        problem=problem,
        detector="PILATUS 6M",
    )


def a_rehearsal(**changes: Any) -> Rehearsal:
    """Of 25 Hz x 1 MB; 50 Hz were sustained."""
    values = {
        "version": "0.1.0", "started": "2026-01-02T03:04:05Z", "host": "recorder1", "target": "/data",
        "file_system": "xfs", "sender": "", "transport": "tcp", "images": "simulated",
        "detector": "PILATUS 6M", "answer": "yes", "confidence": 0.95, "reasons": ["all frames are there"],
        "advice": [], "problem": None, "needed_hz": 25.0, "frame_bytes": 10**6, "buffer_s": 1.0,
        "sustained_hz": 50.0, "less_than_hz": 52.0, "factor": 2.0, "sent": 500, "missing": 0,
        "narrowest": None, "stages": [], "ratio": None, "search": None, "steps": [], "configuration": {},
    }  # fmt: skip
    return Rehearsal.model_validate(values | changes)


def a_campaign(blocks: int = 4, made: int | None = None) -> Campaign:
    """Two cases, of 10 MB/s and of 20 MB/s and a little more in each block; the last run is invalid."""
    runs = []
    for block in range(blocks):
        for case, seconds in (("slow", 30.0), ("fast", 15.0)):
            document = frames_document(duration_s=seconds * (1 + block / 100))
            runs.append(CaseRun(case=case, block=block, run=run_of(document, [])))
    void = runs[-1].run.model_copy(update={"validity": "invalid", "checks": [FAILED]})
    runs[-1] = runs[-1].model_copy(update={"run": void})
    cases = [Case(name="slow"), Case(name="fast", parameters={"writers": 8})]
    return Campaign(name="c", title="Writers", seed=3, blocks=blocks, cases=cases, runs=runs[:made])


DOCUMENTS: dict[str, Document] = {
    "run": run_of(with_series(), [WARNED]),
    "verdict": a_verdict(),
    "campaign": a_campaign(),
}


class Parsed(HTMLParser):
    """A page as a browser's parser sees it. An AssertionError where tags do not close as they opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.outside_svg: list[str] = []
        self.text: list[str] = []
        self.struck: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if "svg" not in self._open:
            self.outside_svg.append(tag)
        if tag not in VOID_ELEMENTS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID_ELEMENTS:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open and "svg" not in self._open:
            self.text.append(data)
            if self._open and self._open[-1] == "s":
                self.struck.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def svgs_of(html: str) -> list[ElementTree.Element]:
    """Each must be well-formed for itself."""
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg .*?</svg>", html, re.DOTALL)]


def require_alone_and_accessible(html: str) -> None:
    parsed = Parsed(html)
    names = Counter(attributes["id"] for _, attributes in parsed.tags if "id" in attributes)
    assert [name for name, count in names.items() if count > 1] == []
    for tag, attributes in parsed.tags:
        assert tag not in ("script", "iframe", "object", "embed", "link", "img", "form", "base"), tag
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action", "data"):
                assert value is not None
                assert value.startswith("#")
                assert value[1:] in names
        for name in (attributes.get("aria-labelledby") or "").split():
            assert name in names
    style = re.findall(r"<style.*?</style>", html, re.DOTALL)
    assert not any("url(" in text.replace("url(#", "") or "@import" in text for text in style)
    for svg in svgs_of(html):
        assert svg.get("role") == "img"
        told = [child.text for child in svg if child.tag.endswith(("}title", "}desc"))]
        assert len(told) == 2
        assert all(told)


def lines_of(documents: dict[str, Document]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_of(documents))))
