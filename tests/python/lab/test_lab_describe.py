"""Data sheets of storage systems that are really mounted: what their tools answer to a client."""

import subprocess
import sys
from pathlib import Path

import pytest
from laboratories import free_name, requires, without_traces

from penstock.lab.systems.all import system_named
from penstock.model.plan.datasheet import DataSheet


def described(system: str, *options: str) -> DataSheet:
    """Brings a system up, and returns the data sheet that a client of it sees."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    with free_name() as name:
        describe = f'{penstock} describe "$PENSTOCK_LAB_MOUNT" --json'
        command = [penstock, "lab", "run", system, "--name", name, "--disks", "ram:1GiB", *options]
        done = subprocess.run(
            [*command, "--", "sh", "-c", describe], capture_output=True, text=True, timeout=300, check=False
        )
        without_traces(name)
    assert done.returncode == 0, done.stderr
    return DataSheet.model_validate_json(done.stdout)


@pytest.mark.parametrize(
    ("system", "kind", "facts", "devices"),
    [
        pytest.param(
            "gluster",
            "fuse.glusterfs",
            {"type": "Replicate", "status": "Started", "number of bricks": "1 x 3 = 3"},
            "in its servers",
            marks=requires("gluster"),
        ),
        pytest.param(
            "moosefs",
            "fuse",
            {"system": "MooseFS", "copies (goal)": "2"},
            "in its servers",
            marks=requires("moosefs"),
        ),
        pytest.param(
            "btrfs",
            "btrfs",
            {"data profile": "RAID0", "metadata profile": "RAID1"},
            "",
            marks=requires("btrfs"),
        ),
        pytest.param(
            "ceph",
            "fuse.ceph-fuse",
            {"layout": "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data"},
            "in its servers",
            marks=requires("ceph"),
        ),
    ],
)
def test_mounted_system_is_described(system: str, kind: str, facts: dict[str, str], devices: str) -> None:
    sheet = described(system)
    general, details, missing = (sheet.group(key) for key in ("file system", "details", "devices"))
    assert general is not None
    assert details is not None
    assert general.value("type") == kind
    free = general.value("free inodes")
    assert free is None or int(str(free)) >= 0
    assert {name: details.value(name) for name in facts} == facts
    if not devices:
        loops = [group for group in sheet.of_kind("device") if group.value("kind") == "loop device"]
        assert len(loops) >= system_named(system).SERVERS
        return
    assert missing is not None
    assert devices in missing.facts[0].unknown
