"""Control groups of laboratories, and the controllers that they switch on in the root group."""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import free_name

from penstock.lab import cgroups
from penstock.lab.cgroups import Group
from penstock.lab.controllers import Controllers
from penstock.model.errors import PenstockError

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or cgroups.problem() is not None, reason="a control group requires root"
)
# Each has a setting, and its test limits nothing.
_SETTINGS = {"memory": "memory.max", "pids": "pids.max", "hugetlb": "hugetlb.2MB.max"}


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def test_a_process_that_joined_late_does_not_keep_a_group(name: str) -> None:
    """A command may join after all others were killed, and before the group is removed."""
    group = Group(name, "server-1")
    group.make()
    joined = " ".join(map(str, group.joined_by()))
    script = 'for file in $GROUPS_TO_JOIN; do echo 0 > "$file"; done; echo there; exec sleep 60'
    command = ["sh", "-c", script]
    environment = {"GROUPS_TO_JOIN": joined, "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        assert len(group.processes()) == 1
        Group(name).remove()
    assert not Group(name).exists()


def test_a_value_that_the_kernel_refuses_is_named(name: str) -> None:
    group = Group(name, "server-1")
    group.make()
    try:
        with pytest.raises(PenstockError, match=r"the kernel refuses '100( 100000)?' for .*/cpu\."):
            group.limit_processors(0.001)
    finally:
        group.remove()


@pytest.fixture
def root() -> Iterator[Path]:
    """A group of the test in the place of the root group: others use that one."""
    own = cgroups.root() / f"penstock-test-{os.getpid()}"
    own.mkdir()
    above = own.parent / "cgroup.subtree_control"
    lock = os.open(own.parent, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests switches the same controller
    before = above.read_text()
    try:
        with contextlib.suppress(OSError):
            above.write_text(f"+{_name(own.parent)}")
        yield own
    finally:
        for folder, _, _ in os.walk(own, topdown=False):
            Path(folder).rmdir()
        if _name(cgroups.root()) not in before.split():
            with contextlib.suppress(OSError):
                above.write_text(f"-{_name(cgroups.root())}")
        os.close(lock)


def _name(group: Path) -> str:
    there = (group / "cgroup.controllers").read_text().split()
    found = [name for name in _SETTINGS if name in there]
    if not found:
        pytest.skip(f"version 2 has none of {', '.join(_SETTINGS)} here")
    return found[0]


def is_on(group: Path) -> bool:
    return _name(group) in (group / "cgroup.subtree_control").read_text().split()


def laboratory(root: Path, name: str) -> Controllers:
    """Each has its own object: a laboratory is another process."""
    found = Controllers(root / "tree", [_name(root)])
    found.make(root / "tree" / name / "server-1")
    return found


def remove(root: Path, name: str) -> None:
    (root / "tree" / name / "server-1").rmdir()
    (root / "tree" / name).rmdir()


def test_the_last_laboratory_switches_off_what_the_first_one_switched_on(root: Path) -> None:
    laboratory(root, "first")
    other = laboratory(root, "second")
    assert is_on(root)
    assert is_on(root / "tree" / "first")
    remove(root, "first")
    Controllers(root / "tree").end()  # as another command does it after a kill -9
    assert is_on(root)
    assert is_on(root / "tree" / "second")
    remove(root, "second")
    other.end()
    other.end()
    assert not is_on(root)
    assert not (root / "tree").exists()


def test_a_controller_that_was_on_before_stays_on(root: Path) -> None:
    (root / "cgroup.subtree_control").write_text(f"+{_name(root)}")
    own = laboratory(root, "first")
    remove(root, "first")
    own.end()
    assert is_on(root)
    assert not (root / "tree").exists()


def test_a_controller_that_another_group_hands_on_stays_on(root: Path) -> None:
    own, other = laboratory(root, "first"), root / "other"
    other.mkdir()
    (other / "cgroup.subtree_control").write_text(f"+{_name(root)}")
    remove(root, "first")
    own.end()
    assert is_on(root)
    assert is_on(other)


def test_the_limit_of_another_group_stays(root: Path) -> None:
    own, other = laboratory(root, "first"), root / "other"
    other.mkdir()
    limit = other / _SETTINGS[_name(root)]
    limit.write_text("4194304")
    remove(root, "first")
    own.end()
    assert limit.read_text().strip() == "4194304"


def test_another_group_without_a_limit_keeps_nothing_on(root: Path) -> None:
    own = laboratory(root, "first")
    (root / "other").mkdir()
    remove(root, "first")
    own.end()
    assert not is_on(root)
