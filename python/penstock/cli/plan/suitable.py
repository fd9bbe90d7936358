"""Rejects measurements that do not describe the block that a plan buys (`penstock plan --measured`)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.files.documents import read_document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run, Verdict
from penstock.model.errors import UsageError
from penstock.model.units import human_seconds

_SHORT_S = 10.0  # many caches take longer


def require_suitable(paths: Sequence[Path]) -> list[str]:
    """Returns warnings about the documents: short runs, runs with warnings.

    Raises UsageError with the name of a document that was not measured on storage, does not write, failed, or
    is of another file system than the others.
    """
    kinds: dict[str, Path] = {}
    warnings: list[str] = []
    for path in paths:
        for run in _runs_of(path):
            _require_storage(path, run)
            kinds.setdefault(run.conditions.file_system, path)
            seconds = run.document.active_seconds
            if seconds < _SHORT_S:
                warnings.append(
                    f"{path}: a run took only {human_seconds(seconds)}; over a longer time storage may"
                    " sustain less"
                )
            if run.validity == "warned":
                warnings.append(f"{path}: a run has warnings; its table of checks gives the reasons")
    if len(kinds) > 1:
        named = ", ".join(f"{path}: {kind}" for kind, path in kinds.items())
        raise UsageError(
            f"--measured: the documents are of different file systems ({named})",
            "name documents of one block; run `penstock plan` once for each block",
        )
    return list(dict.fromkeys(warnings))


def _runs_of(path: Path) -> Iterator[Run]:
    document = read_document(path)
    if isinstance(document, Verdict):  # its preliminary runs enter no metric
        yield from (step.run for step in document.steps if step.kind != "probe")
    elif isinstance(document, Run):
        yield document
    elif isinstance(document, Campaign):
        yield from (each.run for each in document.runs)


def _require_storage(path: Path, run: Run) -> None:
    conditions, document = run.conditions, run.document
    if document.plan.backend.kind == "null":
        raise UsageError(
            f"--measured {path}: it was measured without storage (--backend null)",
            "measure the block without --backend null",
        )
    if conditions.memory:
        raise UsageError(
            f"--measured {path}: the data was in the memory of the machine: {conditions.memory}",
            "measure a directory of the block",
        )
    if document.interrupted or document.problem:
        raise UsageError(
            f"--measured {path}: the run did not complete: {document.problem or 'it was interrupted'}",
            "measure again",
        )
    if run.workload not in ("frames", "stream"):
        raise UsageError(
            f"--measured {path}: a run of the workload {run.workload} measures no write bandwidth",
            "name a document of `penstock verdict`, `bench stream` or `bench frames --rate 0`",
        )
    if run.workload == "stream" and run.streams and all(each.phase != "write" for each in run.streams):
        raise UsageError(
            f"--measured {path}: the run only reads, so it has no write bandwidth",
            "measure with a write phase: `penstock bench stream DIRECTORY`",
        )
