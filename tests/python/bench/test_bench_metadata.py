"""`penstock bench metadata` as a user runs it, and the removal of the trees that it makes."""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from bench_documents import frames_document, histogram
from conftest import Run as RunCommand
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from marked import mark
from test_bench import kill_with_generator
from warm_command import popen

from penstock.bench.data.folder import BenchFolder
from penstock.bench.data.trees import TreeSet
from penstock.bench.run.metadata import (
    bytes_at_once,
    metadata_checks,
    metadata_workload,
    names_at_once,
    names_made,
)
from penstock.bench.statistics.figures import metadata_figures
from penstock.model.bench.load import LoadDocument, LoadPlan, MetadataWorkload, PosixBackend
from penstock.model.bench.runs import Run
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import LoadProgress
from penstock.programs.load import load

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "reference"
SMALL = ("--threads", "2", "--items", "3", "--depth", "2", "--branch", "2", "--size", "700B")
TREES = {"prefix": "metadata-", "count": 2, "depth": 1, "branch": 2, "threads": 2, "items": 3}


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path if request.param == "disk" else request.getfixturevalue("memory")


def test_all_operations_are_measured_and_nothing_stays(run: RunCommand, target: Path) -> None:
    options = (*SMALL, "--iterations", "3", "--rename", "--shift", "1", "--yes", "--json")
    finished = run("bench", "metadata", str(target), *options)
    schema = json.loads((SCHEMAS / "run.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(finished.stdout))
    result = Run.model_validate_json(finished.stdout)
    assert metadata_figures(result.document) == result.metadata
    found = {each.operation: (each.operations, each.iterations) for each in result.metadata}
    kinds = ("create", "stat", "rename", "remove")
    assert found == {
        **{f"tree_{kind}": (14, 3) for kind in ("create", "remove")},
        **{f"folder_{kind}": (42, 3) for kind in kinds},
        **{f"file_{kind}": (42, 3) for kind in (*kinds, "read")},
    }
    # Such a run is too short for figures, and says so.
    assert finished.returncode == {"invalid": 4, "warned": 0}[result.validity]
    assert list(target.iterdir()) == []


def test_the_figures_follow_from_the_phases(run: RunCommand, tmp_path: Path) -> None:
    result = Run.model_validate_json(
        run("bench", "metadata", str(tmp_path), *SMALL, "--iterations", "4", "--yes", "--json").stdout
    )
    assert result.document.metadata is not None
    for figures in result.metadata:
        rates = [
            phase.operations / phase.last_done_s
            for phase in result.document.metadata.phases
            if phase.operation == figures.operation and phase.last_done_s
        ]
        assert len(rates) == 4
        assert (figures.rate_min, figures.rate_max) == (min(rates), max(rates))
        assert figures.rate_mean == pytest.approx(sum(rates) / 4)
        variance = sum((rate - sum(rates) / 4) ** 2 for rate in rates) / 3
        assert figures.rate_deviation == pytest.approx(variance**0.5)
        assert figures.rate_deviation != pytest.approx(statistics.pstdev(rates))


def test_the_table_has_its_classic_shape(run: RunCommand, tmp_path: Path) -> None:
    shown = run("bench", "metadata", str(tmp_path), *SMALL, "--yes").stdout.splitlines()
    assert shown[0].split()[:6] == ["per", "second", "max", "min", "mean", "std"]
    titles = [line.split("  ")[0].strip() for line in shown[1:10]]
    assert titles == [
        "Directory creation", "Directory stat", "Directory removal",
        "File creation", "File stat", "File read", "File removal", "Tree creation", "Tree removal",
    ]  # fmt: skip


def test_a_killed_run_is_cleaned_and_what_others_put_there_is_named(run: RunCommand, tmp_path: Path) -> None:
    options = ("--items", "100000", "--depth", "1", "--branch", "2", "--only", "files", "--yes")
    with popen("bench", "metadata", str(tmp_path), *options) as process:
        wait_for_files(process, tmp_path)
        kill_with_generator(process)
    (folder,) = tmp_path.iterdir()
    precious, taken = (folder / "metadata-000000000" / "t1" / name for name in ("precious", "f000-000000000"))
    taken.unlink(missing_ok=True)
    for foreign in (precious, taken):
        foreign.write_text("kept")
    refused = run("bench", "clean", str(tmp_path), "--yes")
    assert refused.returncode == 1
    assert "metadata-000000000/t1/f000-000000000 and 1 more does not belong to this run" in refused.stderr
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert left == {
        "penstock-bench.json", "metadata-000000000",
        "metadata-000000000/t1", "metadata-000000000/t1/f000-000000000", "metadata-000000000/t1/precious",
    }  # fmt: skip
    precious.unlink()
    taken.unlink()
    assert run("bench", "clean", str(tmp_path), "--yes").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_a_document_and_nothing_else(tmp_path: Path) -> None:
    output, target = tmp_path / "run.json", tmp_path / "target"
    target.mkdir()
    options = ("--items", "300000", "--only", "files", "--yes", "--output", str(output))
    with popen("bench", "metadata", str(target), *options) as process:
        wait_for_files(process, target)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=120)
    assert process.returncode == 1, log
    result = Run.model_validate_json(output.read_text(encoding="utf-8"))
    assert result.document.interrupted
    assert result.document.metadata is not None
    assert [each.operation for each in result.metadata] == ["tree_create"]
    assert result.document.metadata.phases[-1].operations < 300_000
    assert list(target.iterdir()) == []


def wait_for_files(process: "subprocess.Popen[str]", target: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(target.glob("penstock-bench-*/metadata-000000000/f000-000000100")):
            return
        time.sleep(0.02)
    raise AssertionError(f"no file was made: {process.communicate(timeout=60)}")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")
def test_a_file_system_without_inodes_ends_the_run_with_what_was_measured(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "nr_inodes=50", "none", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        workload = metadata_workload(items=30, threads=1, rename=True)
        plan = LoadPlan(
            backend=PosixBackend(folder=str(tmp_path), direct=False, sync="none"), workload=workload
        )
        document = load(plan, ignore)
        assert document.problem is None
        workload = metadata_workload(items=60, threads=1, folders=False)
        document = load(plan.model_copy(update={"workload": workload}), ignore)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
    assert document.problem is not None
    assert "no space left on the storage" in document.problem
    assert document.failure is not None
    assert (document.failure.code, document.failure.path.partition("-")[0]) == ("no_space", "load")
    assert document.metadata is not None
    last = document.metadata.phases[-1]
    assert (last.operation, last.complete) == ("file_create", False)
    assert 40 < last.operations < 50


def ignore(_: LoadProgress) -> None:
    pass


def test_what_will_be_made_is_told_and_refused_where_it_does_not_fit(run: RunCommand, tmp_path: Path) -> None:
    shown = run("bench", "metadata", str(tmp_path), *SMALL, "--dry-run")
    assert shown.returncode == 0
    assert "a new directory in" in shown.stdout
    assert "294 names in all" in shown.stdout  # 3 x (2 trees of 7, and 42 of each kind)
    refused = run("bench", "metadata", str(tmp_path), *SMALL)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    huge = ("--items", "10000000", "--depth", "1", "--branch", "40", "--iterations", "1", "--yes")
    too_many = run("bench", "metadata", str(tmp_path), *huge)
    assert too_many.returncode == 1, too_many.stderr
    assert "inodes for" in too_many.stderr or "free" in too_many.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shift", "2", "--threads", "2"), ("--shift 2", "--threads 2")),
        (("--depth", "20", "--branch", "10000"), ("maximum of 1000000", "--depth")),
        (("--items", "900000000"), ("items", "900000000")),
        (("--size", "65MiB"), ("--size: 65 MiB", "maximum of 64 MiB")),
        (("--size", "much"), ("--size", "much")),
    ],
)
def test_bad_input_is_named(
    options: tuple[str, ...], words: tuple[str, ...], run: RunCommand, tmp_path: Path
) -> None:
    finished = run("bench", "metadata", str(tmp_path), *options)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr


def test_names_and_bytes_are_counted() -> None:
    workload = metadata_workload(threads=2, items=3, depth=2, branch=2, iterations=5, file_bytes=5000)
    assert (workload.tree_folders, workload.items_each()) == (7, 42)
    assert names_made(workload) == 5 * (14 + 84)
    assert names_at_once(workload) == 14 + 42
    assert bytes_at_once(workload) == (14 + 42 + 2 * 42) * 4096
    kept = workload.model_copy(update={"remove": False, "shared": True})
    assert names_at_once(kept) == names_made(kept) == 5 * (7 + 84)
    with pytest.raises(UsageError, match="--shift 2"):
        metadata_workload(threads=2, items=1, shift=2)


def test_names_of_ranks_are_counted_together() -> None:
    workload = metadata_workload(ranks=3, threads=2, items=3, depth=2, branch=2, iterations=5, shift=5)
    assert (workload.trees(3), workload.items_each(3)) == (6, 126)
    assert names_made(workload, 3) == 5 * (42 + 252)
    assert names_at_once(workload, 3) == 42 + 126
    assert bytes_at_once(workload, 3) == (42 + 126) * 4096
    assert workload.model_copy(update={"shared": True}).trees(3) == 1
    trees = TreeSet.of(workload, "metadata-", 3)
    assert (trees.count, trees.threads) == (30, 6)
    with pytest.raises(UsageError, match="--shift 6 is not possible with --threads 2 and --ranks 3"):
        metadata_workload(ranks=3, threads=2, items=1, shift=6)
    with pytest.raises(UsageError, match="maximum of 1000000000"):
        metadata_workload(ranks=200, threads=1, items=10**7, files=False)


# Names around those of the trees, and anything else that a file system takes.
NAMES = st.one_of(
    st.builds(
        lambda letter, thread, item: f"{letter}{thread:03}-{item:09}",
        st.sampled_from("defgx"),
        st.integers(0, 3),
        st.integers(0, 4),
    ),
    st.sampled_from(["t0", "t1", "t2", "t00", "t", "f000-00000000", "f000-0000000001", "f٠٠٠-000000000"]),
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20),
).filter(lambda name: name not in (".", "..") and len(os.fsencode(name)) < 200)
ITEMS = {f"{letter}{thread:03}-{item:09}" for letter in "defg" for thread in range(2) for item in range(3)}


@given(
    names=st.sets(NAMES, max_size=10), kinds=st.randoms(), place=st.sampled_from(["", "t0", "t1", "t0/t1"])
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_what_a_tree_has_is_removed(names: set[str], kinds: object, place: str, tmp_path: Path) -> None:
    outside = Path(tempfile.mkdtemp(dir=tmp_path))
    (outside / "precious").write_text("kept")
    folder = BenchFolder.make(outside)
    folder.announce(TreeSet.model_validate(TREES))
    tree = folder.path / "metadata-000000001"
    (tree / place).mkdir(parents=True)
    foreign = {place} if place == "t0/t1" else set()  # deeper than the tree
    for name in names:
        path = tree / place / name
        if path.exists():
            continue
        kind = kinds.choice(["file", "folder", "link", "full folder"])  # type: ignore[attr-defined]
        if kind == "file":
            path.write_text("text")
        elif kind == "link":
            path.symlink_to(outside)
        else:
            path.mkdir()
            if kind == "full folder":
                (path / "inside").write_text("kept")
        own = name in ITEMS and (kind == "file" if name[0] in "fg" else kind == "folder")
        own = own or (name in ("t0", "t1") and kind == "folder" and place == "")
        if place != "t0/t1" and not own:
            foreign.add(f"{place}/{name}" if place else name)
            if name in ("t0", "t1") and kind == "full folder" and place == "":
                foreign.discard(name)
                foreign.add(f"{name}/inside")
    mark(tree)
    if not foreign:
        folder.remove()
        assert not folder.path.exists()
    else:
        with pytest.raises(PenstockError, match="does not belong to this run"):
            folder.remove()
        for path_text in foreign:
            assert os.path.lexists(tree / path_text), path_text
        left = {path.name for path in (tree / place).iterdir()}
        assert (
            not {name for name in left & ITEMS if f"{place}/{name}".lstrip("/") not in foreign}
            or place == "t0/t1"
        )
    folder.close()
    assert (outside / "precious").read_text() == "kept"


def test_items_of_many_ranks_threads_are_removed_and_no_others(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(TreeSet.model_validate(TREES | {"threads": 12000}))
    tree = folder.path / "metadata-000000000"
    tree.mkdir()
    for name in ("f999-000000000", "f1000-000000001", "f11999-000000002"):
        (tree / name).write_text("")
    for name in ("f12000-000000000", "f01000-000000000"):
        (tree / name).write_text("somebody's")
    mark(tree)
    with pytest.raises(PenstockError, match="does not belong to this run"):
        folder.remove()
    assert sorted(path.name for path in tree.iterdir()) == ["f01000-000000000", "f12000-000000000"]


def test_a_tree_that_was_replaced_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(TreeSet.model_validate(TREES))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "f000-000000000").write_text("somebody's")
    (folder.path / "metadata-000000000").symlink_to(victim)
    (folder.path / "metadata-000000001").mkdir()
    (folder.path / "metadata-000000001" / "t0").symlink_to(victim)
    with pytest.raises(PenstockError, match="metadata-000000000 and 1 more"):
        folder.remove()
    assert (victim / "f000-000000000").read_text() == "somebody's"


def document_of(*phases: tuple[str, int, bool, float, float], sync: str = "none") -> LoadDocument:
    """Each phase: operation, iteration, complete or not, when the first and when the last thread was done."""
    said = [
        {
            "operation": operation,
            "iteration": iteration,
            "operations": 1000,
            "complete": complete,
            "first_done_s": first if complete else None,
            "last_done_s": last if complete else None,
        }
        for operation, iteration, complete, first, last in phases
    ]
    plan = {
        "backend": {"kind": "posix", "folder": "/x", "direct": False, "sync": sync},
        "workload": {"kind": "metadata", "items": 500, "threads": 2},
    }
    times = {operation: histogram(1000, 2000) for operation, *_ in phases}
    nothing: dict[str, Any] = dict.fromkeys(("frames", "seconds", "buffer", "times", "generator", "records"))
    return frames_document(
        plan=plan, metadata={"phases": said, "times": times, "waited_ns": [0, 0]}, **nothing
    )


def outcomes(document: LoadDocument, memory_file_system: bool = False) -> dict[str, str]:
    assert isinstance(document.plan.workload, MetadataWorkload)
    figures = metadata_figures(document)
    checks = metadata_checks(document, document.plan.workload, figures, memory_file_system)
    return {check.name: check.outcome for check in checks}


def test_a_sound_run_in_memory_has_nothing_to_say() -> None:
    document = document_of(("tree_create", 0, True, 0.1, 0.1), ("file_create", 0, True, 11, 12))
    assert set(outcomes(document, memory_file_system=True).values()) == {"ok"}


def test_conditions_that_make_figures_doubtful_are_named() -> None:
    document = document_of(("file_create", 0, True, 5, 12), ("file_stat", 0, True, 4.5, 5))
    found = outcomes(document)
    assert found["long enough (file stat)"] == "warning"
    assert found["threads end together (file create)"] == "warning"
    assert found["files synced to storage"] == "warning"
    assert found["looked up in storage"] == "warning"
    forced = document_of(("file_create", 0, True, 11, 12), sync="each")
    assert outcomes(forced)["files synced to storage"] == "ok"
    assert "looked up in storage" not in outcomes(forced)
    short = document_of(("file_create", 0, True, 0.01, 0.01), ("file_create", 1, True, 0.009, 0.009))
    assert outcomes(short)["long enough (file create)"] == "failed"
    quick = document_of(("file_create", 0, True, 0.01, 0.01), ("file_create", 1, True, 0.01, 0.01))
    assert outcomes(quick)["long enough (file create)"] == "warning"


def by_ranks(document: LoadDocument, *hosts: str, shift: int = 0) -> LoadDocument:
    """The same, told by a rank on each of these hosts."""
    parts = [
        {"rank": rank, "host": host, "lead_ahead_ns": 0, "clock_error_ns": 0, "late_ns": 0}
        for rank, host in enumerate(hosts)
    ]
    told = document.model_dump() | {"job": {"library": "MPI", "ranks": len(hosts), "parts": parts[::-1]}}
    told["plan"]["workload"]["shift"] = shift
    return LoadDocument.model_validate(told)


@pytest.mark.parametrize(
    ("hosts", "shift", "outcome", "advice"),
    [
        (("a", "b"), 2, "ok", ""),
        (("a", "b"), 0, "warning", "--shift 2"),
        (("a", "b"), 1, "warning", "--shift 2"),
        (("a", "a", "b", "b"), 2, "warning", "--shift 4"),
        (("a", "a", "b", "b"), 4, "ok", ""),
        (("a", "b", "a", "b"), 2, "ok", ""),
        (("a", "a", "a", "b"), 2, "warning", "caches"),
        (("a", "a"), 2, "warning", "caches"),
    ],
)
def test_what_another_machine_made_is_looked_up_in_storage(
    hosts: tuple[str, ...], shift: int, outcome: str, advice: str
) -> None:
    document = by_ranks(document_of(("file_stat", 0, True, 11, 12)), *hosts, shift=shift)
    assert isinstance(document.plan.workload, MetadataWorkload)
    figures = metadata_figures(document)
    checks = metadata_checks(document, document.plan.workload, figures, memory_file_system=False)
    found = {check.name: check for check in checks}
    assert found["looked up in storage"].outcome == outcome
    assert advice in found["looked up in storage"].advice
    assert {"ranks start together", "clocks of ranks agree"} <= set(found)


def test_ranks_of_one_thread_end_together_too() -> None:
    document = by_ranks(document_of(("file_stat", 0, True, 5, 12)), "a", "b")
    told = document.model_dump()
    told["plan"]["workload"]["threads"] = 1
    assert outcomes(LoadDocument.model_validate(told))["threads end together (file stat)"] == "warning"
    told["job"] = None
    assert "threads end together (file stat)" not in outcomes(LoadDocument.model_validate(told))


def test_an_operation_that_is_too_short_is_left_out_alone() -> None:
    document = document_of(("file_create", 0, True, 11, 12), ("file_stat", 0, True, 0.01, 0.01))
    assert isinstance(document.plan.workload, MetadataWorkload)
    figures = metadata_figures(document)
    checks = metadata_checks(document, document.plan.workload, figures, memory_file_system=True)
    found = {check.name: check for check in checks}
    assert found["long enough (file stat)"].outcome == "warning"
    assert "left out" in found["long enough (file stat)"].actual
    assert found["long enough (file create)"].outcome == "ok"
    assert [operation.operation for operation in figures if operation.too_short] == ["file_stat"]


def test_threads_that_end_apart_in_a_moment_spoil_no_run() -> None:
    """An operation that has no figure makes none of the others doubtful; alone it makes the run invalid."""
    moment = ("file_stat", 0, True, 0.001, 0.01)
    beside = document_of(("file_create", 0, True, 11.5, 12), moment)
    found = outcomes(beside)
    assert found["threads end together (file create)"] == "ok"
    assert "failed" not in found.values()
    assert (
        outcomes(document_of(("file_create", 0, True, 1, 12), moment))["threads end together (file create)"]
        == "failed"
    )
    assert outcomes(document_of(moment))["long enough (file stat)"] == "failed"


def test_an_iteration_that_was_cut_short_has_no_rate() -> None:
    document = document_of(
        ("file_create", 0, True, 10, 10), ("file_create", 1, True, 5, 5), ("file_create", 2, False, 0, 0)
    )
    (figures,) = metadata_figures(document)
    assert (figures.iterations, figures.rate_min, figures.rate_max) == (2, 100, 200)
    assert figures.rate_deviation == pytest.approx(50 * 2**0.5)
    assert figures.seconds == 15
    alone = metadata_figures(document_of(("file_create", 0, True, 8, 10)))[0]
    assert alone.rate_deviation is None
    assert alone.together == 0.8
