"""What is found out about file systems, and what follows from it.

The texts of Lustre, GPFS and BeeGFS follow the formats that their documentation shows; nobody has tried them
on the real ones. ext4, tmpfs and xfs are real.
"""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.files import storage
from penstock.files.storage import find_mount, storage_facts
from penstock.model.configuration import Configuration
from penstock.model.overrides import RecordOptions, configuration_from
from penstock.model.plans import KIB, MIB, StorePlan
from penstock.model.storage import (
    StorageFacts,
    Striping,
    advise_layout,
    describe_facts,
    parse_beegfs_entry,
    parse_lfs_getstripe,
    parse_lustre_attribute,
    parse_mmlsfs,
    parse_xfs_geometry,
    settle_store,
)

LFS_PLAIN = "stripe_count:  4 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1\n"
LFS_COMPOSITE = """\
  lcm_layout_gen:    0
  lcm_entry_count:   2
    lcme_extent.e_start: 0
    lcme_extent.e_end:   67108864
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0       stripe_offset: -1
    lcme_extent.e_start: 67108864
    lcme_extent.e_end:   EOF
      stripe_count:  -1       stripe_size:   8388608       pattern:       raid0       stripe_offset: -1
"""
MMLSFS = """\
flag                value                    description
------------------- ------------------------ -----------------------------------
 -B                 262144                   Block size (system pool)
                    8388608                  Block size (other pools)
"""
MMLSFS_ONE = """\
flag                value                    description
------------------- ------------------------ -----------------------------------
 -B                 4194304                  Block size
"""
BEEGFS = """\
EntryID: 0-5F3A8C21-1
Metadata node: meta01 [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4
+ Storage Pool: 1 (Default)
"""
MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
40 22 0:45 / /data rw,noatime shared:9 - nfs4 server:/export rw,vers=4.2,rsize=524288,wsize=1048576,hard
41 40 0:46 / /data/fast\\040disk rw - lustre mgs@tcp:/fast rw,flock
42 22 0:47 / /dat rw - tmpfs tmpfs rw
43 22 0:48 / /moose rw - fuse mfs\\04310.0.0.1:9421 rw,user_id=0
"""


def test_lustre() -> None:
    assert parse_lfs_getstripe(LFS_PLAIN) == Striping(4 * MIB, 4)
    assert parse_lfs_getstripe(LFS_COMPOSITE) == Striping(8 * MIB, 0)
    plain = struct.pack("<II16xIHH", 0x0BD10BD0, 1, 2 * MIB, 3, 0)
    assert parse_lustre_attribute(plain) == Striping(2 * MIB, 3)
    composite = struct.pack("<II24x", 0x0BD60BD0, 1)
    for nothing in ("", "error: getstripe failed\n", "stripe_size: 0"):
        assert parse_lfs_getstripe(nothing) is None
    for other in (b"", plain[:20], composite):
        assert parse_lustre_attribute(other) is None


def test_gpfs() -> None:
    assert parse_mmlsfs(MMLSFS_ONE) == Striping(4 * MIB)
    assert parse_mmlsfs(MMLSFS) == Striping(8 * MIB)
    assert parse_mmlsfs("mmlsfs: file system gone is not known\n") is None


def test_beegfs() -> None:
    assert parse_beegfs_entry(BEEGFS) == Striping(512 * KIB, 4)
    assert parse_beegfs_entry("+ Chunksize: 1M\n") == Striping(MIB, 0)
    assert parse_beegfs_entry("+ Chunksize: 512k\n") == Striping(512 * KIB, 0), "as version 7.2 prints it"
    assert parse_beegfs_entry("Chunksize: 0\n") is None
    assert parse_beegfs_entry("") is None


def test_the_innermost_mount_counts() -> None:
    def kind(folder: str) -> str:
        found = find_mount(Path(folder), MOUNTS)
        assert found is not None
        return found.kind

    assert kind("/home") == "ext4"
    assert kind("/data/run1") == "nfs4"
    assert kind("/data/fast disk/x") == "lustre"
    moose = find_mount(Path("/moose"), MOUNTS)
    assert moose is not None
    assert moose.source == "mfs#10.0.0.1:9421"
    assert kind("/dat") == "tmpfs"
    assert kind("/database") == "ext4"


def facts(stripe_bytes: int = 0, stripe_count: int = 0, write_bytes: int = 0) -> StorageFacts:
    return StorageFacts("some", "/data", 4096, stripe_bytes, stripe_count, write_bytes)


def test_segments_hold_whole_stripes() -> None:
    usual = advise_layout(facts())
    assert (usual.segment_bytes, usual.alignment_bytes) == (8 * MIB, 4096)
    for stripe, count in ((MIB, 4), (64 * KIB, 6), (16 * MIB, 2), (1536 * KIB, 3), (4 * MIB, 100)):
        found = advise_layout(facts(stripe_bytes=stripe, stripe_count=count))
        assert found.segment_bytes % stripe == 0
        assert found.extent_bytes % found.segment_bytes == 0
        assert stripe % found.alignment_bytes == 0
        assert found.alignment_bytes & (found.alignment_bytes - 1) == 0
        assert 8 * MIB <= found.segment_bytes <= 64 * MIB
    assert advise_layout(facts(stripe_bytes=1000)).alignment_bytes == 4096
    network = advise_layout(facts(write_bytes=3 * MIB))
    assert (network.segment_bytes, network.alignment_bytes) == (9 * MIB, 4096)


def test_what_the_user_sets_wins() -> None:
    found = facts(stripe_bytes=4 * MIB, stripe_count=4)
    settled, reason = settle_store(StorePlan.model_validate({"alignment_bytes": "64 KiB"}), found)
    assert settled.alignment_bytes == 64 * KIB
    assert settled.segment_bytes == 16 * MIB
    assert "alignment_bytes" in reason
    small, _ = settle_store(StorePlan.model_validate({"extent_bytes": "8 MiB"}), found)
    assert small.extent_bytes == small.segment_bytes == 8 * MIB


def test_a_setting_survives_the_options_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("store:\n  segment_bytes: 8 MiB\n", encoding="utf-8")
    found = facts(stripe_bytes=4 * MIB, stripe_count=4)
    options = RecordOptions(given={("folder",): tmp_path, ("store", "durability"): "interval"})
    store = configuration_from(file, options).plan({}, found).store
    assert (store.segment_bytes, store.alignment_bytes, store.durability) == (8 * MIB, 4 * MIB, "interval")
    assert configuration_from(None, options).plan({}, found).store.segment_bytes == 16 * MIB
    assert Configuration().plan({}).store.segment_bytes == 8 * MIB


def put_tool(folder: Path, name: str, output: str, status: int = 0) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{output}END\nexit {status}\n", encoding="utf-8")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("kind", "tool", "output", "stripe"),
    [
        ("lustre", "lfs", LFS_PLAIN, 4 * MIB),
        ("gpfs", "mmlsfs", MMLSFS_ONE, 4 * MIB),
        ("beegfs", "beegfs-ctl", BEEGFS, 512 * KIB),
    ],
)
def test_tools_are_asked_on_their_own_file_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, tool: str, output: str, stripe: int
) -> None:
    mount = storage.Mount("/data", kind, "device", "0:99", {})
    monkeypatch.setattr(storage, "find_mount", lambda _folder: mount)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    without = storage_facts(tmp_path)
    assert without.found_by == "statfs"
    put_tool(tmp_path, tool, output)
    found = storage_facts(tmp_path)
    assert found.stripe_bytes == stripe
    assert tool in describe_facts(found)
    put_tool(tmp_path, tool, output, status=1)
    assert storage_facts(tmp_path) == without


def test_the_file_systems_of_this_machine(tmp_path: Path) -> None:
    for folder in (tmp_path, Path("/dev/shm")):
        found = storage_facts(folder)
        mount = find_mount(folder)
        assert mount is not None
        assert found.kind == mount.kind
        assert found.block_bytes == os.statvfs(folder).f_bsize
        assert advise_layout(found).reason


@pytest.fixture
def striped_xfs(tmp_path: Path) -> Iterator[Path]:
    """A mounted xfs that believes it lies on four disks with stripes of 256 KiB."""
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        pytest.skip("mounting an xfs needs root and xfsprogs")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(1024 * MIB)  # of which little is written
    subprocess.run(["mkfs.xfs", "-q", "-d", "su=256k,sw=4", image], check=True, capture_output=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", image, folder], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no xfs can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_an_xfs_tells_its_stripes(striped_xfs: Path) -> None:
    found = storage_facts(striped_xfs)
    assert (found.kind, found.stripe_bytes, found.stripe_count) == ("xfs", 256 * KIB, 4)
    layout = advise_layout(found)
    assert (layout.alignment_bytes, layout.segment_bytes) == (256 * KIB, 8 * MIB)
    shown = subprocess.run(
        [sys.executable, "-m", "penstock", "record", "--folder", str(striped_xfs), "--dry-run"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert "stripe 256 KiB x 4" in shown.stdout


def test_the_geometry_of_xfs_without_stripes() -> None:
    geometry = bytearray(112)
    struct.pack_into("<I", geometry, 0, 4096)
    assert parse_xfs_geometry(bytes(geometry)) is None
