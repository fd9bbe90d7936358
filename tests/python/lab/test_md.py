"""md RAID serves without a disk and rebuilds it; a kernel without md is named before anything is made."""

import os
import shutil
from collections.abc import Iterator

import pytest
from laboratories import SMALL, Run, free_name, mounts, requires, up, wait_until_healed, without_traces

from penstock.lab.systems.md import Md


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


@pytest.mark.skipif(os.geteuid() != 0, reason="requires root")
@pytest.mark.skipif(not Md.kernel_lacks(), reason="this kernel has md")
def test_a_kernel_without_md_is_named_with_what_works_instead(run: Run, name: str) -> None:
    done = run("lab", "up", "md", "--name", name, *SMALL, "--option", "raid=raid6")
    assert done.returncode == 2
    assert "md RAID: this kernel has no md" in done.stderr
    assert "btrfs or zfs" in done.stderr
    without_traces(name)


@pytest.mark.skipif(not Md.kernel_lacks(), reason="this kernel has md")
def test_the_doctor_installs_nothing_for_a_kernel_without_md(run: Run) -> None:
    before = shutil.which("mdadm")
    done = run("lab", "doctor", "md", "--install")
    assert done.returncode == 1
    assert "this kernel has no md" in " ".join(done.stdout.split())
    assert "--install" not in done.stderr
    assert shutil.which("mdadm") == before


@requires("md")
@pytest.mark.parametrize(
    ("raid", "file_system"), [("raid1", "ext4"), ("raid5", "xfs"), ("raid6", "ext4"), ("raid10", "xfs")]
)
def test_a_disk_that_was_out_is_rebuilt(run: Run, name: str, raid: str, file_system: str) -> None:
    up(run, "md", name, "--option", f"raid={raid}", "--option", f"file_system={file_system}")
    (mount,) = mounts(name)
    data = os.urandom(4 << 20)
    assert run("lab", "fail", name, "2").returncode == 0
    (mount / "a").write_bytes(data)
    os.sync()
    assert run("lab", "heal", name, "2").returncode == 0
    wait_until_healed(name)
    assert run("lab", "fail", name, "1").returncode == 0
    with (mount / "a").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert file.read() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


@requires("md")
def test_a_level_that_the_disks_do_not_allow_is_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "md", "--name", name, *SMALL, "--servers", "2", "--option", "raid=raid5")
    assert done.returncode == 2
    assert "raid: raid5 requires at least 3 disks" in done.stderr
    without_traces(name)
