"""Reads documents of any kind, and makes the catalogue's entries of them."""

import hashlib
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from penstock.bench.judge.verdict import is_at_least
from penstock.bench.statistics.values import Value, too_short_of, values_of
from penstock.files.documents import Document, Indexed, parse_indexed, read_bytes
from penstock.model.bench.campaigns import Campaign, Parameter
from penstock.model.bench.entries import RECORDER, Entry, EntryTarget, EntryValue, Kind
from penstock.model.bench.recorder_words import recorder_text
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Run, Validity, Verdict
from penstock.model.errors import UsageError

_MODELS: dict[Kind, type[Indexed]] = {
    "run": Run,
    "verdict": Verdict,
    "rehearsal": Rehearsal,
    "campaign": Campaign,
}
# As they are written, the format is the first field.
_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"penstock-(?P<kind>run|verdict|rehearsal|campaign) [0-9]+"')
_HEAD_BYTES = 200
_WORST: tuple[Validity, ...] = ("invalid", "warned", "valid")


def kind_of(head: bytes) -> Kind | None:
    """By the first bytes of a file; None if it is not a document of Penstock."""
    match = _HEAD.match(head)
    return next((kind for kind in _MODELS if match and match["kind"].decode() == kind), None)


def read_entry(path: Path) -> Entry:
    """Of a document. A UsageError where it is none."""
    text = read_bytes(path)
    return entry_of(parse_indexed(text, str(path)), path, text)


def entry_of(document: Indexed, path: Path, text: bytes) -> Entry:
    """Of `document`, which lies at `path` as `text`. A UsageError where the path is not UTF-8."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the path {str(path)!r} is not UTF-8", "rename it") from error
    place = _Place(str(path.absolute()), hashlib.sha256(text).hexdigest(), len(text), path.stat().st_mtime_ns)
    return _of_rehearsal(document, place) if isinstance(document, Rehearsal) else _of_runs(document, place)


@dataclass(frozen=True)
class _Place:
    path: str
    sha256: str
    bytes: int
    modified_ns: int


def _of_rehearsal(document: Rehearsal, place: _Place) -> Entry:
    """Its steps are no runs: they have figures of the chain, and none of the storage alone."""
    hz = {"needed": document.needed_hz} | (
        {} if document.sustained_hz is None else {"measured": document.sustained_hz}
    )
    return Entry(
        **asdict(place),
        kind="rehearsal",
        name=document.detector,
        started=document.started,
        host=document.host,
        targets=[EntryTarget(path=document.target, file_system=document.file_system)],
        parameters={
            "transport": document.transport,
            "ranks": document.ranks,
            "sender": document.sender,
            RECORDER: recorder_text(document.configuration),
            "configuration": document.configuration_file,
        },
        validity="invalid" if document.answer == "invalid" else "valid",
        answer=document.answer,
        runs=len(document.steps),
        complete=document.problem is None,
        values={
            name: EntryValue(
                value=rate_hz * document.frame_bytes,
                unit="B/s",
                at_least=name == "measured" and document.less_than_hz is None,
            )
            for name, rate_hz in hz.items()
        },
    )


def _of_runs(document: Document, place: _Place) -> Entry:
    runs = _runs_of(document)
    return Entry(
        **asdict(place),
        kind=_kind(document),
        name=_name_of(document),
        started=min((run.document.started for run in runs), default=""),
        host=runs[0].conditions.host if runs else "",
        workload=document.workload if isinstance(document, Campaign) else runs[0].workload if runs else "",
        targets=_targets_of(document, runs),
        parameters=_parameters_of(document, runs),
        validity=_validity_of(document, runs),
        answer=document.answer if isinstance(document, Verdict) else "",
        runs=len(runs),
        failures=len(document.failures) if isinstance(document, Campaign) else 0,
        complete=_is_complete(document),
        values=_values_with_bounds(document, runs),
    )


def _validity_of(document: Document, runs: Sequence[Run]) -> Validity | None:
    """Of the worst run. A verdict leaves out those of its runs that are invalid, unless all of it is.

    Its probes count for nothing: a longer run replaced each of them.
    """
    found = {run.validity for run in runs}
    if isinstance(document, Verdict):
        found = {step.run.validity for step in document.steps if step.kind != "probe"}
        if document.answer != "invalid":
            found.discard("invalid")
    return next((kind for kind in _WORST if kind in found), None)


def _is_complete(document: Document) -> bool:
    if isinstance(document, Campaign):
        return document.complete
    if isinstance(document, Verdict):
        return document.problem is None
    return not document.document.interrupted and document.document.problem is None


def _kind(document: Document) -> Kind:
    return next(kind for kind, model in _MODELS.items() if isinstance(document, model))


def _runs_of(document: Document) -> list[Run]:
    if isinstance(document, Run):
        return [document]
    return [each.run for each in (document.steps if isinstance(document, Verdict) else document.runs)]


def _name_of(document: Document) -> str:
    if isinstance(document, Run):
        return ""
    return document.detector if isinstance(document, Verdict) else document.name


def _targets_of(document: Document, runs: Sequence[Run]) -> list[EntryTarget]:
    """Where runs were made, and where a campaign without runs was remaining."""
    found = {run.target: run.conditions.file_system for run in runs}
    if isinstance(document, Campaign):
        found = {target.path: "" for target in document.targets} | found
    return [EntryTarget(path=path, file_system=kind) for path, kind in found.items()]


def _parameters_of(document: Document, runs: Sequence[Run]) -> dict[str, Parameter]:
    """Of a campaign those that all cases have; else the numbers and words of the first run's workload."""
    if isinstance(document, Campaign) and (document.parameters or len(document.cases) > 1):
        return document.parameters
    plan = runs[0].document.plan.workload.model_dump(mode="json") if runs else {}
    return {name: value for name, value in plan.items() if isinstance(value, str | bool | int | float)}


def _values_of(document: Document, runs: Sequence[Run]) -> dict[str, Value]:
    """Of a run; the medians of a campaign with one case; what a verdict rests on."""
    if isinstance(document, Verdict):
        values = {"needed": Value(document.needed_bytes_per_s, "B/s", "lower")}
        if document.measured_bytes_per_s is not None:
            values["measured"] = Value(document.measured_bytes_per_s, "B/s", "higher")
        return values
    if isinstance(document, Campaign) and len(document.cases) > 1:
        return {}
    sound = [run for run in runs if run.validity != "invalid"]
    each = [_long_enough(run) for run in sound or runs]
    names = each[0] if each else {}
    return {
        name: Value(median(values[name].value for values in each if name in values), first.unit, first.better)
        for name, first in names.items()
    }


def _long_enough(run: Run) -> dict[str, Value]:
    """Nothing in the catalogue would say of a figure that it is not to be used."""
    short = too_short_of(run)
    return {name: value for name, value in values_of(run).items() if name not in short}


def _values_with_bounds(document: Document, runs: Sequence[Run]) -> dict[str, EntryValue]:
    values = _finite(_values_of(document, runs))
    if isinstance(document, Verdict) and "measured" in values and is_at_least(document):
        values["measured"] = values["measured"].model_copy(update={"at_least": True})
    return values


def _finite(values: dict[str, Value]) -> dict[str, EntryValue]:
    return {
        name: EntryValue(value=value.value, unit=value.unit)
        for name, value in values.items()
        if math.isfinite(value.value)
    }


def find_documents(place: Path) -> Iterator[Path]:
    """`place` itself, or the documents in that folder and those below it, by their first bytes."""
    if not place.is_dir():
        yield place
        return
    for folder, _, names in os.walk(place):
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix == ".json" and looks_like_a_document(path):
                yield path


def looks_like_a_document(path: Path) -> bool:
    """By its first bytes."""
    return kind_at(path) is not None


def looks_comparable(path: Path) -> bool:
    """By its first bytes: rehearsals are shown, and not compared."""
    return kind_at(path) not in (None, "rehearsal")


def kind_at(path: Path) -> Kind | None:
    """By its first bytes; None if it is not a document of Penstock."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            return None
        with path.open("rb") as file:
            return kind_of(file.read(_HEAD_BYTES))
    except OSError:
        return None
