"""Sets of runs out of documents and folders, for whoever compares them."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from penstock.bench.data.content import content_text
from penstock.bench.judge.evidence import STEP_NAMES
from penstock.bench.judge.verdict import at_rate_bytes_per_s
from penstock.bench.option_words import field_words, value_words
from penstock.bench.run.workloads import WORKLOADS
from penstock.bench.statistics.values import Value, too_short_of, values_of
from penstock.files.documents import Document, read_document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Difference, SetFacts, VerdictFacts
from penstock.model.bench.load import FramesWorkload
from penstock.model.bench.network import NetworkWorkload
from penstock.model.bench.runs import Run, Validity, Verdict
from penstock.model.bench.science import ScienceWorkload
from penstock.model.cli_option import Cli, CliField
from penstock.model.errors import UsageError
from penstock.model.text import counted
from penstock.model.units import human_seconds, human_size, parse_size

SUSTAINED = "sustained"
SEARCH, UNPACED = STEP_NAMES["search"], STEP_NAMES["full speed"]
# Values of few folders, which take next to nothing: whether these are long enough is chance.
OF_TREES = ("tree create", "tree remove")
_FOLDER_DOCUMENTS_MAX = 10_000
# Parameters of reporting and storage, which do not affect the measurement.
_NOT_MEASURED = {"record", "folder", "host", "port", "token"}
# How long a run is, and how many of its files stay: that may be the reason of a difference, and is no other
# workload.
_EXTENT = {"frames": {"frames", "ring_frames", "seconds_max"}, "network": {"seconds"}}
_EXTENT_OPTION = "--seconds"
"""of the workloads of sciences"""


@dataclass(frozen=True)
class Measured:
    """A run without what makes its document large."""

    case: str
    block: int | None  # of its campaign
    document: str
    started: datetime
    host: str
    validity: Validity
    values: dict[str, Value]
    parameters: dict[str, str]  # of the workload
    conditions: dict[str, str]
    extent: dict[str, str] = field(default_factory=dict)  # how long it was
    fault: str = ""  # what the storage did wrong: an error, or other bytes than were written
    too_short: frozenset[str] = frozenset()  # names of values that it would have, had it been longer
    failed_checks: tuple[str, ...] = ()
    is_not_sustained: bool = False  # a step of a verdict, whatever its own checks found


@dataclass(frozen=True)
class RunSet:
    """What one argument of the command stands for. `runs` are in the order of their start."""

    name: str
    runs: list[Measured]
    failed: tuple[str, ...] = ()  # the case of each run that came to nothing
    verdicts: tuple[VerdictFacts, ...] = ()

    @property
    def valid(self) -> list[Measured]:
        return [run for run in self.runs if run.validity != "invalid"]

    @property
    def cases(self) -> dict[str, list[Measured]]:
        """Runs that are not invalid, by case; a case without such a run does not exist."""
        found: dict[str, list[Measured]] = defaultdict(list)
        for run in self.valid:
            found[run.case].append(run)
        return dict(found)

    def only(self, case: str) -> "RunSet":
        """Returns its runs of one case. Raises UsageError with the cases if it does not exist."""
        there = sorted({run.case for run in self.runs})
        if case not in there:
            raise UsageError(f'{self.name} has no case "{case}"', f"its cases are: {', '.join(there)}")
        failed = tuple(each for each in self.failed if each == case)
        return RunSet(self.name, [run for run in self.runs if run.case == case], failed, self.verdicts)

    @property
    def facts(self) -> SetFacts:
        valid = self.valid
        times = [run.started.astimezone(UTC).isoformat() for run in valid]
        return SetFacts(
            name=self.name,
            runs=len(valid),
            warned=sum(run.validity == "warned" for run in valid),
            invalid=len(self.runs) - len(valid),
            not_sustained=[
                run.case for run in self.runs if run.validity == "invalid" and run.is_not_sustained
            ],
            failed=len(self.failed),
            first=min(times, default=""),
            last=max(times, default=""),
            targets=sorted({run.conditions["target"] for run in self.runs if run.conditions.get("target")}),
            verdicts=list(self.verdicts),
        )


def read_sets(paths: Iterable[Path]) -> list[RunSet]:
    """Each path is a document, or a folder of which all *.json are read.

    A UsageError names the file that is none, and why. Runs that no campaign named have the same name in
    all sets where their parameters are the same.
    """
    return named([read_set(str(path), documents_in(path) if path.is_dir() else [path]) for path in paths])


def read_set(name: str, documents: Iterable[Path], target: Path | None = None) -> RunSet:
    """The runs of all documents; with a `target` those in that folder or below it, of cases without it."""
    runs: list[Measured] = []
    failed: list[str] = []
    verdicts: list[VerdictFacts] = []
    for each in documents:
        document = read_document(each)
        names = case_names(document, target)
        runs += _runs_of(each, document, names)
        if isinstance(document, Campaign):
            failed += [names[failure.case] for failure in document.failures if failure.case in names]
        if isinstance(document, Verdict):
            verdicts.append(_facts_of(document))
    if not runs:
        raise UsageError(f"{name} has no run", "a campaign that was stopped at once has none")
    refuse_doubles(runs)
    return RunSet(name, sorted(runs, key=lambda run: run.started), tuple(failed), tuple(verdicts))


def case_names(document: Document, target: Path | None) -> dict[str, str]:
    """The cases of a campaign by name: those on `target`, and what they are called without it."""
    if not isinstance(document, Campaign):
        return {}
    if target is None:
        return {case.name: case.name for case in document.cases}
    inside = {each.name for each in document.targets if Path(each.path).is_relative_to(target)}
    return {
        case.name: case.name.removesuffix(f"target={case.target}").rstrip() or document.name
        for case in document.cases
        if case.target in inside
    }


def _facts_of(verdict: Verdict) -> VerdictFacts:
    # Without a search it is the throughput of the unpaced run.
    sustained = verdict.measured_bytes_per_s if verdict.search is not None else None
    return VerdictFacts(
        detector=verdict.detector,
        answer=verdict.answer,
        confidence=verdict.confidence,
        needed_bytes_per_s=verdict.needed_bytes_per_s,
        sustained_bytes_per_s=at_rate_bytes_per_s(verdict) if sustained is None else sustained,
        less_than_bytes_per_s=verdict.less_than_bytes_per_s,
        unpaced_bytes_per_s=verdict.unpaced_bytes_per_s,
        lost=verdict.lost,
        due=verdict.due,
    )


def documents_in(folder: Path) -> list[Path]:
    """All *.json of a folder, by name; a UsageError where there is none."""
    found = sorted(folder.glob("*.json"))
    if not found:
        raise UsageError(f"no document (*.json) in {folder}", "`penstock bench … --output` writes one")
    if len(found) > _FOLDER_DOCUMENTS_MAX:
        raise UsageError(
            f"{folder} has {counted(len(found), 'document')}; {_FOLDER_DOCUMENTS_MAX} are possible",
            "name a folder with fewer documents",
        )
    return found


def refuse_doubles(runs: Iterable[Measured]) -> None:
    """A run that is there twice would make its set look surer than it is, or both sets alike."""
    seen: dict[tuple[str, datetime, str], str] = {}
    for run in runs:
        key = (run.host, run.started, run.case)
        if key in seen:
            raise UsageError(
                f"the run of {run.started.isoformat()} on {run.host} is there twice: "
                f"in {seen[key]} and in {run.document}",
                "remove one of them",
            )
        seen[key] = run.document


def _runs_of(path: Path, document: Document, names: dict[str, str]) -> Iterator[Measured]:
    match document:
        case Run():
            yield _measured(path, document, None, None)
        case Verdict():
            yield from (_beside(run, document.beside) for run in _parts_of(path, document))
        case Campaign():
            for made in document.runs:
                if made.case in names:
                    yield _measured(path, made.run, names[made.case], made.block)


def _parts_of(path: Path, verdict: Verdict) -> Iterator[Measured]:
    """The steps that are the same in each verdict, and the search as one run: its steps' rates are not."""
    for step in verdict.steps:
        if step.kind == "full speed":  # whose number of frames follows from their rate
            yield replace(_measured(path, step.run, UNPACED, None), extent=_longest(step.run))
        elif step.kind not in ("search", "probe"):
            measured = _measured(path, step.run, STEP_NAMES[step.kind], None)
            yield replace(measured, is_not_sustained=step.outcome == "not held")
    first = next((step.run for step in verdict.steps if step.kind == "search"), None)
    low, high = verdict.measured_bytes_per_s, verdict.less_than_bytes_per_s
    if first is None or low is None or high is None or verdict.answer == "invalid":
        return
    found = _measured(path, first, SEARCH, None)
    # The limit may be anywhere in the bracket.
    value = Value(low, "B/s", "higher", (high - low) / math.sqrt(12))
    stated = {name: text for name, text in found.parameters.items() if name != "rate_hz"}
    yield Measured(
        case=SEARCH,
        block=None,
        document=found.document,
        started=found.started,
        host=found.host,
        validity="valid",
        values={SUSTAINED: value},
        parameters=stated,
        conditions=found.conditions,
    )


def _beside(run: Measured, beside: str) -> Measured:
    return replace(run, parameters=run.parameters | {"beside": beside}) if beside else run


def _measured(path: Path, run: Run, case: str | None, block: int | None) -> Measured:
    parameters = _parameters(run)
    try:
        started = datetime.fromisoformat(run.document.started)
        if started.tzinfo is None:
            raise ValueError("it has no time zone")
        values = values_of(run)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{path}: the run of {run.document.started!r} is not possible: {error}", "run again"
        ) from error
    for name, value in values.items():
        if not 0 <= value.value < float("inf"):
            raise UsageError(f"{path}: {name} is {value.value}, which is not valid", "run again")
    return Measured(
        case=case or "",
        block=block,
        document=str(path),
        started=started,
        host=run.conditions.host,
        validity=run.validity,
        values=values,
        parameters=parameters,
        conditions=_conditions(run),
        extent=_extent(run),
        fault=_fault_of(run),
        too_short=frozenset(too_short_of(run)) - set(values),
        failed_checks=tuple(check.name for check in run.checks if check.outcome == "failed"),
    )


def _fault_of(run: Run) -> str:
    """Of a run that is invalid since the storage failed, whatever the measurement was like."""
    wrong = sum(phase.mismatches or 0 for phase in run.streams)
    if wrong:
        return f"{counted(wrong, 'block')} returned different bytes than were written"
    return (run.document.problem or "") if run.validity == "invalid" else ""


def named(sets: list[RunSet]) -> list[RunSet]:
    """Runs without a name get one of their workload and those parameters that are not the same in all."""
    has_lengths = any(_differ_in_length_alone(set_) for set_ in sets)

    def stated_by(run: Measured) -> dict[str, str]:
        return run.parameters | run.extent if has_lengths else run.parameters

    nameless = [stated_by(run) for set_ in sets for run in set_.runs if not run.case]
    names = {name: None for parameters in nameless for name in parameters if name != "kind"}
    telling = [name for name in names if len({parameters.get(name) for parameters in nameless}) > 1]

    def name_of(parameters: dict[str, str]) -> str:
        stated = [
            f"{field_words(name)} {value_words(name, parameters[name])}"
            for name in telling
            if name in parameters
        ]
        return ", ".join([parameters["kind"], *stated])

    return [
        replace(
            set_,
            runs=[run if run.case else replace(run, case=name_of(stated_by(run))) for run in set_.runs],
        )
        for set_ in sets
    ]


def _differ_in_length_alone(runs: RunSet) -> bool:
    """Whether runs of one set have the same parameters and different lengths, which then are cases."""
    nameless = [run for run in runs.runs if not run.case]
    workloads = {tuple(run.parameters.items()) for run in nameless}
    return len({(*run.parameters.items(), *run.extent.items()) for run in nameless}) > len(workloads)


def _parameters(run: Run) -> dict[str, str]:
    plan = run.document.plan
    if isinstance(plan.workload, ScienceWorkload):
        return _science_parameters(plan.workload)
    hidden = _NOT_MEASURED | _EXTENT.get(plan.workload.kind, set())
    stated = plan.workload.model_dump(exclude=hidden) | {"content": content_text(plan)}
    if isinstance(stated.get("image"), dict):
        stated["image"] = plan.workload.model_dump()["image"][
            "suffix"
        ]  # its template is a file of the moment
    # When bytes count as stored is what was asked for; the way there is a condition.
    stated["sync"] = getattr(plan.backend, "sync", "none")
    job = run.document.job
    stated["ranks"] = 1 if job is None else job.ranks
    return {name: _text(value) for name, value in stated.items()}


def _science_parameters(workload: ScienceWorkload) -> dict[str, str]:
    """By option. What is written, and how, follows from these."""
    fields = WORKLOADS[workload.name].model_fields
    found: dict[str, str] = {"kind": workload.name}
    if "jobs" in fields:  # others search for a number, or have their own options
        found["--jobs"] = str(workload.jobs)
    for name, value in workload.parameters.items():
        is_size = name in fields and CliField((name,), fields[name], Cli(), {}).is_size
        text = _exact_size(value) if is_size and isinstance(value, int) else _text(value)
        found[f"--{name.replace('_', '-')}"] = text
    found.pop(_EXTENT_OPTION, None)
    return found


def _exact_size(count: int) -> str:
    """ "4 MiB", unless that is rounded: what differs has different texts."""
    text = human_size(count)
    return text if parse_size(text) == count else f"{count} B"


def _extent(run: Run) -> dict[str, str]:
    load = run.document.plan.workload
    if isinstance(load, ScienceWorkload):
        seconds = load.parameters.get("seconds")
        return {"length": human_seconds(seconds)} if isinstance(seconds, int | float) else {}
    if isinstance(load, NetworkWorkload):
        return {"length": human_seconds(load.seconds)}
    if not isinstance(load, FramesWorkload):
        return {}
    length = human_seconds(load.frames / load.rate_hz) if load.rate_hz else counted(load.frames, "frame")
    kept = f"the newest {load.ring_frames}" if load.ring_frames else "all"
    return {"length": length, "frames that stay": kept}


def _longest(run: Run) -> dict[str, str]:
    """Returns the time limit of an unpaced run, which follows from the options of a verdict."""
    seconds = getattr(run.document.plan.workload, "seconds_max", 0.0)
    return {"length": f"at most {human_seconds(seconds)}"} if seconds else {}


def _conditions(run: Run) -> dict[str, str]:
    """That may be the reason of a difference. The command is not among them: its parts are."""
    stated = run.conditions.model_dump(exclude={"free_bytes", "command", "versions"})
    stated["target"] = run.target
    for name, value in run.conditions.versions.items():
        stated[f"version of {name}"] = value
    if run.document.job is not None:
        stated["mpi"] = run.document.job.library
        stated["clients"] = max(1, len(set(run.document.job.folders.values())))
    for name, value in run.document.plan.backend.model_dump(exclude={*_NOT_MEASURED, "sync"}).items():
        stated["back end" if name == "kind" else f"back end: {name}"] = value
    return {name.replace("_", " "): _text(value) for name, value in stated.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def differences(
    case: str,
    base: Sequence[Measured],
    other: Sequence[Measured],
    facts: Callable[[Measured], dict[str, str]],
) -> list[Difference]:
    """Facts that are not the same in both; `case` stands in each."""
    names = {name: None for run in (*base, *other) for name in facts(run)}
    found = []
    for name in names:
        first, second = (
            " / ".join(sorted({facts(run).get(name, "") for run in runs})) for runs in (base, other)
        )
        if first != second:
            found.append(Difference(case=case, name=name, base=first, other=second))
    return found
