"""Where a recorder's threads run, read from the kernel; what its memory is made of; what it shows of both."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest
from conftest import Record, RecordCommand

from penstock.client import Series

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ALLOWED = sorted(os.sched_getaffinity(0))
LARGE = (1024, 2048)


def child_of(recorder: RecordCommand) -> int:
    """The native program below the command."""
    pid = recorder.process.pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().startswith("penstock"):
                return int(child)
    raise AssertionError("no recorder runs")


def threads(pid: int) -> dict[str, set[str]]:
    """Processors (a list each) by the names of threads."""
    found: dict[str, set[str]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        name = re.search(r"^Name:\t(.*)$", status, flags=re.MULTILINE)
        cpus = re.search(r"^Cpus_allowed_list:\t(.*)$", status, flags=re.MULTILINE)
        assert name is not None
        assert cpus is not None
        found.setdefault(name[1], set()).add(cpus[1])
    return found


@contextmanager
def recording(record: Record, tmp_path: Path, placement: str) -> Iterator[RecordCommand]:
    """A recorder in the middle of a series, whose end is checked."""
    configuration = tmp_path / "record.yaml"
    configuration.write_text(f"machine: {placement}\n")
    recorder = record(tmp_path, str(configuration))
    with Series(recorder.address, dtype="uint16", shape=LARGE, name="s") as series:
        for number in range(8):
            series.send(numpy.zeros(LARGE, "uint16"), number=number)
        series.wait_acknowledged(60)
        yield recorder
    assert recorder.series_end().problem is None


def all_of(cpus: list[int]) -> str:
    """As the kernel writes a list."""
    ranges: list[list[int]] = []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
def test_threads_run_where_they_are_placed(record: Record, tmp_path: Path) -> None:
    one, two = ALLOWED[0], ALLOWED[1]
    placement = f'{{receive: "{one}", compress: "{two}", index: {one}}}'
    with recording(record, tmp_path, placement) as recorder:
        found = threads(child_of(recorder))
    assert found["pen-receive"] == found["pen-accept"] == found["pen-reply"] == {str(one)}
    assert found["pen-compress"] == {str(two)}
    assert found["pen-index"] == {str(one)}
    # They are started by threads that have a place, and have none themselves.
    assert (
        found["pen-write"]
        == found["pen-time"]
        == found["pen-care"]
        == found["pen-look"]
        == found["pen-watch"]
        == {all_of(ALLOWED)}
    )


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
def test_nothing_is_pinned_unless_asked_for_and_a_given_mask_holds(record: Record, tmp_path: Path) -> None:
    os.sched_setaffinity(0, {ALLOWED[1]})
    try:
        with recording(record, tmp_path, "{}") as recorder:
            found = threads(child_of(recorder))
    finally:
        os.sched_setaffinity(0, ALLOWED)
    assert {name for name in found if name.startswith("pen-")} >= {"pen-receive", "pen-compress", "pen-write"}
    assert set().union(*found.values()) == {str(ALLOWED[1])}


def test_a_processor_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    configuration = tmp_path / "record.yaml"
    options = ("--folder", str(tmp_path), "--listen", "127.0.0.1:0")
    for placement, words in (
        ('{compress: "5000"}', ["machine.compress", '"5000"', "this machine has the processors"]),
        ('{write: "node:77"}', ["machine.write", '"node:77"', "NUMA nodes 0"]),
        ("{index: first}", ["machine.index", "first", "0,4-7"]),
    ):
        configuration.write_text(f"machine: {placement}\n")
        for shown in ((), ("--show-placement",), ("--dry-run",), ("--dry-run", "--json")):
            refused = run("record", str(configuration), *options, *shown)
            assert refused.returncode == 2, refused.stderr
            assert refused.stdout == ""
            told = " ".join(refused.stderr.split())
            for word in words:
                assert word in told


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
def test_a_processor_that_was_not_given_to_the_process_is_refused(tmp_path: Path) -> None:
    configuration = tmp_path / "record.yaml"
    configuration.write_text(f"machine: {{receive: '{ALLOWED[0]}'}}\n")
    refused = subprocess.run(
        [
            *("taskset", "-c", str(ALLOWED[1]), sys.executable, "-m", "penstock", "record"),
            *(str(configuration), "--folder", str(tmp_path), "--show-placement"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2, refused.stderr
    told = " ".join(refused.stderr.split())
    assert f'machine.receive is "{ALLOWED[0]}"; this process may use only' in told
    assert f"processors {ALLOWED[1]} " in told


def test_the_placement_is_shown(run: Run, tmp_path: Path) -> None:
    configuration = tmp_path / "record.yaml"
    configuration.write_text(
        f"machine: {{compress: '{ALLOWED[0]}', huge_pages: explicit}}\npool_bytes: 1 TiB\n"
    )
    options = ("record", str(configuration), "--folder", str(tmp_path), "--show-placement")
    shown = run(*options, "--json")
    assert shown.returncode == 0, shown.stderr
    placement = json.loads(shown.stdout)
    machine = placement["machine"]
    assert machine["allowed"] == all_of(ALLOWED)
    online = Path("/sys/devices/system/node/online").read_text().strip()
    assert all_of([node["node"] for node in machine["nodes"]]) == online
    assert all(node["memory_bytes"] > 0 for node in machine["nodes"])
    by_role = {place["role"]: place for place in placement["threads"]}
    assert (by_role["compress"]["cpus"], by_role["compress"]["chosen"]) == (str(ALLOWED[0]), True)
    assert (by_role["write"]["cpus"], by_role["write"]["chosen"]) == (all_of(ALLOWED), False)
    assert "huge pages of 2 MiB are free" in placement["memory"]["trouble"], "nobody sets 1 TiB aside"
    for_people = run(*options)
    assert for_people.returncode == 0, for_people.stderr
    for word in ("processors", "NUMA node 0", "compress", "not pinned", "1 TiB", "explicit"):
        assert word in for_people.stdout
    assert not list(tmp_path.glob("*.h5"))


def anonymous_huge_bytes(pid: int) -> int:
    kilobytes = re.findall(
        r"^AnonHugePages:\s+([0-9]+) kB", Path(f"/proc/{pid}/smaps").read_text(), re.MULTILINE
    )
    return 1024 * sum(int(number) for number in kilobytes)


def reserved_huge_bytes(pid: int) -> int:
    kilobytes = re.findall(
        r"^Private_Hugetlb:\s+([0-9]+) kB", Path(f"/proc/{pid}/smaps").read_text(), re.MULTILINE
    )
    return 1024 * sum(int(number) for number in kilobytes)


@pytest.mark.parametrize("huge_pages", ["off", "transparent"])
def test_the_pool_is_made_of_transparent_huge_pages_or_not(
    record: Record, tmp_path: Path, huge_pages: str
) -> None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[madvise]" not in setting.read_text():
        pytest.skip("the kernel gives transparent huge pages to nobody, or to everybody")
    with recording(record, tmp_path, f"{{huge_pages: {huge_pages}}}") as recorder:
        found = anonymous_huge_bytes(child_of(recorder))
    if huge_pages == "off":
        assert found == 0
    elif found == 0:
        pytest.skip("the kernel had no huge page to give: its memory is in pieces")


@pytest.mark.slow
def test_without_reserved_huge_pages_others_are_used_and_that_is_said(record: Record, tmp_path: Path) -> None:
    with recording(record, tmp_path, "{huge_pages: explicit}") as recorder:
        reserved = reserved_huge_bytes(child_of(recorder))
    _, log = recorder.stop()
    if free_huge_pages() >= 128:  # of 2 MiB: the pool of 256 MiB
        assert reserved > 0
        assert "huge pages of 2 MiB are free" not in log
    else:
        assert "huge pages of 2 MiB are free" in log


def free_huge_pages() -> int:
    path = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    return int(path.read_text()) if path.exists() else 0
