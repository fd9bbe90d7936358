"""Sets of runs out of documents and folders, for whoever compares them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from penstock.bench.data.content import content_text
from penstock.bench.option_words import field_words, value_words
from penstock.bench.statistics.values import Value, too_short_of, values_of
from penstock.files.documents import Document, read_document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Difference, SetFacts
from penstock.model.bench.runs import Run, Validity, Verdict
from penstock.model.errors import UsageError
from penstock.model.text import counted

# Values of few folders, which take next to nothing: whether these are long enough is chance.
OF_TREES = ("tree create", "tree remove")
_FOLDER_DOCUMENTS_MAX = 10_000
# Parameters of reporting and storage, which do not affect the measurement.
_NOT_MEASURED = {"record", "folder", "host", "port", "token"}


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
    fault: str = ""  # what the storage did wrong: an error, or other bytes than were written
    too_short: frozenset[str] = frozenset()  # names of values that it would have, had it been longer
    failed_checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunSet:
    """What one argument of the command stands for. `runs` are in the order of their start."""

    name: str
    runs: list[Measured]
    failed: tuple[str, ...] = ()  # the case of each run that came to nothing

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
        return RunSet(self.name, [run for run in self.runs if run.case == case], failed)

    @property
    def facts(self) -> SetFacts:
        valid = self.valid
        times = [run.started.isoformat() for run in valid]
        return SetFacts(
            name=self.name,
            runs=len(valid),
            warned=sum(run.validity == "warned" for run in valid),
            invalid=len(self.runs) - len(valid),
            failed=len(self.failed),
            first=min(times, default=""),
            last=max(times, default=""),
        )


def read_sets(paths: Iterable[Path]) -> list[RunSet]:
    """Each path is a document, or a folder of which all *.json are read.

    A UsageError names the file that is none, and why. Runs that no campaign named have the same name in
    all sets where their parameters are the same.
    """
    return _named([_read_set(path) for path in paths])


def _read_set(path: Path) -> RunSet:
    documents = documents_in(path) if path.is_dir() else [path]
    runs: list[Measured] = []
    failed: list[str] = []
    for each in documents:
        document = read_document(each)
        runs += _runs_of(each, document)
        if isinstance(document, Campaign):
            failed += [failure.case for failure in document.failures]
    if not runs:
        raise UsageError(f"{path} has no run", "a campaign that was stopped at once has none")
    refuse_doubles(runs)
    return RunSet(str(path), sorted(runs, key=lambda run: run.started), tuple(failed))


def documents_in(folder: Path) -> list[Path]:
    """All *.json of a folder, by name; a UsageError where there is none."""
    found = sorted(folder.glob("*.json"))
    if not found:
        raise UsageError(f"no document (*.json) in {folder}", "`penstock bench … --output` writes one")
    if len(found) > _FOLDER_DOCUMENTS_MAX:
        raise UsageError(
            f"{folder} has {len(found)} documents; {_FOLDER_DOCUMENTS_MAX} are possible",
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


def _runs_of(path: Path, document: Document) -> Iterator[Measured]:
    match document:
        case Run():
            yield _measured(path, document, None, None)
        case Verdict():
            # The rates of a search are others each time, and a preliminary check was made again.
            for step in document.steps:
                if step.kind not in ("search", "probe"):
                    yield _of_step(_measured(path, step.run, step.kind, None), document.beside)
        case Campaign():
            for made in document.runs:
                yield _measured(path, made.run, made.case, made.block)


def _of_step(measured: Measured, beside: str) -> Measured:
    """The number of unpaced frames in a verdict follows from their rate, and is not a parameter."""
    stated = measured.parameters | ({"beside": beside} if beside else {})
    if measured.case == "full speed":
        stated = {name: value for name, value in stated.items() if name != "frames"}
    return replace(measured, parameters=stated)


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


def _named(sets: list[RunSet]) -> list[RunSet]:
    """Runs without a name get one of their workload and those parameters that are not the same in all."""
    nameless = [run.parameters for set_ in sets for run in set_.runs if not run.case]
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
        RunSet(
            set_.name,
            [run if run.case else replace(run, case=name_of(run.parameters)) for run in set_.runs],
            set_.failed,
        )
        for set_ in sets
    ]


def _parameters(run: Run) -> dict[str, str]:
    plan = run.document.plan
    stated = plan.workload.model_dump(exclude=_NOT_MEASURED) | {"content": content_text(plan)}
    if isinstance(stated.get("image"), dict):
        stated["image"] = plan.workload.model_dump()["image"][
            "suffix"
        ]  # its template is a file of the moment
    # When bytes count as stored is what was asked for; the way there is a condition.
    stated["sync"] = getattr(plan.backend, "sync", "none")
    job = run.document.job
    stated["ranks"] = 1 if job is None else job.ranks
    return {name: _text(value) for name, value in stated.items()}


def _conditions(run: Run) -> dict[str, str]:
    """That may be the reason of a difference. The command is not among them: its parts are."""
    stated = run.conditions.model_dump(exclude={"free_bytes", "command", "versions"})
    stated["target"] = run.target
    for name, value in run.conditions.versions.items():
        stated[f"version of {name}"] = value
    if run.document.job is not None:
        stated["mpi"] = run.document.job.library
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
