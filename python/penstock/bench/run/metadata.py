"""A metadata workload: what is asked for, its run, and what makes it sound."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.data.trees import TreeSet
from penstock.bench.judge.checks import (
    check_complete,
    check_content,
    check_long_enough,
    machine_checks,
)
from penstock.bench.judge.conditions import is_memory
from penstock.bench.judge.rank_checks import ended_together, make_check, rank_checks
from penstock.bench.run.run import Access, Telling, observe_load, usage
from penstock.bench.statistics.figures import metadata_figures
from penstock.lab.clients import folders_of_ranks
from penstock.model.bench.load import LoadDocument, LoadPlan, MetadataWorkload, PosixBackend
from penstock.model.bench.runs import OPERATION_S_MIN, Check, OperationFigures, Run
from penstock.model.errors import UsageError
from penstock.programs.ranks import Ranks

PREFIX = "metadata-"
_NAMES_MAX = 10**9
_TREE_FOLDERS_MAX = 10**6
_BLOCK_BYTES = 4096
_CACHED = ("folder_stat", "file_stat", "file_read")
_OF_TREES = ("tree_create", "tree_remove")


def metadata_workload(ranks: int = 1, **values: Any) -> MetadataWorkload:
    """For so many ranks. A UsageError names the value that is not possible."""
    try:
        workload = MetadataWorkload(**values)
    except ValidationError as error:
        raise usage(error) from error
    if workload.shift >= ranks * workload.threads:
        of_ranks = f" and --ranks {ranks}" if ranks > 1 else ""
        raise UsageError(
            f"--shift {workload.shift} is not possible with --threads {workload.threads}{of_ranks}",
            "use a shift below the number of all threads",
        )
    names = names_made(workload, ranks)
    if workload.tree_folders > _TREE_FOLDERS_MAX:
        raise UsageError(
            f"--depth {workload.depth} with --branch {workload.branch}: {workload.tree_folders} directories"
            f" per tree exceed the maximum of {_TREE_FOLDERS_MAX}",
            "use a smaller --depth or --branch",
        )
    if names > _NAMES_MAX:
        raise UsageError(
            f"--items {workload.items}: {names} names in all exceed the maximum of {_NAMES_MAX}",
            "use fewer --items, --iterations or --threads, or a smaller --depth or --branch",
        )
    return workload


def names_made(workload: MetadataWorkload, ranks: int = 1) -> int:
    """Files and folders that a run makes."""
    kinds = workload.folders + workload.files
    in_trees = workload.trees(ranks) * workload.tree_folders
    return workload.iterations * (in_trees + kinds * workload.items_each(ranks))


def names_at_once(workload: MetadataWorkload, ranks: int = 1) -> int:
    """Files and folders that are there at the same time."""
    if not workload.remove:
        return names_made(workload, ranks)
    return workload.trees(ranks) * workload.tree_folders + workload.items_each(ranks)


def bytes_at_once(workload: MetadataWorkload, ranks: int = 1) -> int:
    """What these take, in whole blocks: a name one, and a file those of its bytes."""
    kept = 1 if workload.remove else workload.iterations
    blocks = kept * workload.files * workload.items_each(ranks) * -(-workload.file_bytes // _BLOCK_BYTES)
    return (names_at_once(workload, ranks) + blocks) * _BLOCK_BYTES


def metadata_plan(
    workload: MetadataWorkload,
    access: Access,
    folder: RunFolder,
    prefix: str = PREFIX,
    team: Ranks | None = None,
) -> LoadPlan:
    """The plan in `folder`; through the page cache, whatever `access` says of direct I/O."""
    folder.announce(TreeSet.of(workload, prefix, team.count if team is not None else 1))
    return LoadPlan(
        backend=access.model_copy(update={"direct": False}).files(folder.path),
        workload=workload,
        **access.written(),
        prefix=prefix,
        folders=folders_of_ranks(folder.path, team),
    )


def run_metadata(
    workload: MetadataWorkload,
    access: Access,
    folder: RunFolder,
    telling: Telling,
    team: Ranks | None = None,
) -> Run:
    """The run in `folder`, by `team`."""
    plan = metadata_plan(workload, access, folder, team=team)
    observed = observe_load(plan, folder.path, telling.about(folder, plan.prefix), team)
    figures = metadata_figures(observed.document)
    checks = metadata_checks(observed.document, workload, figures, is_memory(observed.conditions))
    return observed.run("metadata", checks, metadata=figures)


def metadata_checks(
    document: LoadDocument,
    workload: MetadataWorkload,
    figures: list[OperationFigures],
    memory_file_system: bool,
) -> list[Check]:
    """Of a metadata workload."""
    of_items = [operation for operation in figures if operation.operation not in _OF_TREES]
    seconds = sum(operation.seconds for operation in figures)
    return [
        check_complete(document),
        *([check_content(document)] if workload.file_bytes else []),
        *_check_seconds(of_items),
        *_check_together(of_items, workload.threads * (document.job.ranks if document.job else 1)),
        *_check_forced(document, memory_file_system),
        *_check_looked_up(document, workload, of_items, memory_file_system),
        *machine_checks(document, seconds),
        *rank_checks(document),
    ]


def _check_seconds(figures: list[OperationFigures]) -> Iterator[Check]:
    """Of what is left out, and of what took least else. Trees are few folders whatever is asked for."""
    left_out = [operation for operation in figures if operation.too_short]
    stand = _standing(figures)
    shortest = sorted(stand, key=lambda operation: operation.seconds)[:1]
    for operation in (*left_out, *shortest):
        yield check_long_enough(
            operation.seconds,
            "--items",
            operation.operation.replace("_", " "),
            OPERATION_S_MIN,
            others_stand=bool(stand),
        )


def _standing(figures: list[OperationFigures]) -> list[OperationFigures]:
    """Those that were long enough for a figure: what is left out spoils nothing beside it."""
    return [operation for operation in figures if not operation.too_short]


def _check_together(figures: list[OperationFigures], threads: int) -> Iterator[Check]:
    """Of those that stand: a moment in which one thread was done before another is no doubt of the others."""
    judged = _standing(figures) or figures
    if judged and threads > 1:
        worst = min(judged, key=lambda operation: operation.together)
        what = worst.operation.replace("_", " ")
        yield ended_together(
            f"threads end together ({what})", worst.together, "increase --items, the number per thread"
        )


def _check_forced(document: LoadDocument, memory_file_system: bool) -> Iterator[Check]:
    """A local file system notes names in memory, and writes them down later."""
    backend = document.plan.backend
    if not isinstance(backend, PosixBackend):
        return
    forced = backend.sync != "none"
    yield make_check(
        "files synced to storage",
        "ok" if forced or memory_file_system else "warning",
        "each created file is synced",
        "the target is memory" if memory_file_system else "one each" if forced else "none",
        "better",
        "use --sync each to measure files that survive a loss of power",
    )


def _check_looked_up(
    document: LoadDocument,
    workload: MetadataWorkload,
    figures: list[OperationFigures],
    memory_file_system: bool,
) -> Iterator[Check]:
    """What a machine, or a client with its own mount, made a moment ago it may know by itself."""
    if not any(operation.operation in _CACHED for operation in figures):
        return
    elsewhere = shifts_elsewhere(document, workload.threads)
    foreign = workload.shift in elsewhere
    advice = "treat the rates of stat and read as those of this machine's caches"
    if elsewhere:
        advice = (
            f"use --shift {elsewhere[0]}, so that ranks look up items created on another machine or client"
        )
    yield make_check(
        "looked up in storage",
        "ok" if memory_file_system or foreign else "warning",
        "stat and read of items that the machine or client has not cached",
        "the target is memory"
        if memory_file_system
        else "another machine or client created them"
        if foreign
        else "the same machine or client created some or all of them",
        "better",
        advice,
    )


def shifts_elsewhere(document: LoadDocument, threads: int) -> list[int]:
    """Shifts, of whole ranks, that lead each thread to what another machine or client made."""
    if document.job is None or len(document.job.parts) < document.job.ranks:
        return []
    parts = sorted(document.job.parts, key=lambda part: part.rank)
    caches = [(part.host, part.folder) for part in parts]
    ranks = len(caches)
    return [
        shift * threads
        for shift in range(1, ranks)
        if all(caches[rank] != caches[(rank + shift) % ranks] for rank in range(ranks))
    ]
