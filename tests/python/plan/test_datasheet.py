"""Data sheets of made-up machines: copies of /proc and /sys in the documented forms, and of tools."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_server import MENDED, NVME, SERVER_LINKS, VIRTUAL, make_tree, server_files

from penstock.files.sheet.devices import device_group, device_node, stack
from penstock.files.sheet.file_system import Target, device_numbers
from penstock.files.sheet.hints import hints_of
from penstock.files.sheet.sheet import sheet_of
from penstock.files.sheet.system import System
from penstock.files.storage import Mount
from penstock.model.plan.datasheet import DataSheet, Fact, FactGroup
from penstock.model.storage import StorageFacts
from penstock.report.datasheet import sheet_markdown
from penstock.report.sections import Section, sections_markdown


@pytest.fixture
def server(tmp_path: Path) -> System:
    return make_tree(tmp_path / "root", server_files(), SERVER_LINKS)


def mounted(folder: Path, kind: str, device: str = "0:50", source: str = "none", **options: str) -> Target:
    mount = Mount("/data", kind, source, device, {"rw": "", **options})
    return Target(folder, mount, StorageFacts(kind, "/data", 4096))


def put_tool(folder: Path, name: str, output: str, status: int = 0) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{output}END\nexit {status}\n", encoding="utf-8")
    tool.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs: those of this machine would answer, and some leave files."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("_ADMINISTRATOR_TOOLS", "_GPFS_TOOLS"):
        monkeypatch.setattr(f"penstock.files.tools.{name}", str(folder))
    return folder


def value(sheet: DataSheet, key: str, name: str) -> object:
    group = sheet.group(key)
    assert group is not None, [group.key for group in sheet.groups]
    return group.value(name)


def fact(sheet: DataSheet, key: str, name: str) -> Fact:
    group = sheet.group(key)
    assert group is not None
    return next(fact for fact in group.facts if fact.name == name)


def test_the_stack_from_the_volume_down_to_the_drives(server: System) -> None:
    found = stack(server, ["253:1"])
    assert [(device.name, device.kind) for device in found] == [
        ("dm-1", "LVM volume"),
        ("dm-0", "dm-crypt"),
        ("md0", "md raid6"),
        ("nvme0n1p1", "partition"),
        ("sda1", "partition"),
        ("nvme0n1", "NVMe drive"),
        ("sda", "disk"),
    ]
    assert found[2].below == ("nvme0n1p1", "sda1")
    assert device_node(server, found[5]) == "/dev/nvme0n1"
    assert device_node(server, found[6]) == "", "the kernel names no file"
    nvme = device_group(server, found[5])
    assert nvme.value("model") == "Example SSD 4TB"
    assert nvme.value("size") == 7501476528 * 512
    assert (nvme.value("PCIe link"), nvme.value("maximum PCIe link")) == (
        "generation 3, 4 lanes",
        "generation 4, 4 lanes",
    )
    assert nvme.value("NUMA node") == 1


def test_a_stack_that_leads_back_to_itself_ends(tmp_path: Path) -> None:
    files = {f"{VIRTUAL}/dm-{n}/dev": f"253:{n}\n" for n in (0, 1)}
    links = {
        "/sys/dev/block/253:0": f"{VIRTUAL}/dm-0",
        f"{VIRTUAL}/dm-0/slaves/dm-1": f"{VIRTUAL}/dm-1",
        f"{VIRTUAL}/dm-1/slaves/dm-0": f"{VIRTUAL}/dm-0",
    }
    found = stack(make_tree(tmp_path, files, links), ["253:0"])
    assert [device.name for device in found] == ["dm-0", "dm-1"]


def test_the_sheet_of_a_server(server: System, tools: Path, tmp_path: Path) -> None:
    put_tool(tools, "xfs_info", "meta-data=/dev/x isize=512 agcount=32, agsize=1 blks\n")
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1", "/dev/mapper/vg-data", noquota=""), server)
    assert value(sheet, "file system", "version") == "part of the kernel, 6.1.0-test"
    assert value(sheet, "file system", "quota") == "off"
    assert value(sheet, "details", "meta-data.agcount") == "32"
    assert fact(sheet, "details", "meta-data.agcount").source == "xfs_info /data"
    assert value(sheet, "device md0", "md chunk") == 512 << 10
    assert fact(sheet, "device sda", "optimal I/O size").unknown == "the device reports none"
    assert value(sheet, "kernel", "io_uring") == "off"
    assert value(sheet, "processors", "memory") == 263856336 << 10
    assert value(sheet, "processors", "NUMA node 1: processors") == "16-31"
    assert value(sheet, "limits", "memory limit") == 8 << 30, "the strictest on the way up"
    assert fact(sheet, "limits", "memory limit").source == "/sys/fs/cgroup/a/memory.max"
    assert value(sheet, "limits", "processor limit") == 0.5
    assert "wbps=104857600" in str(value(sheet, "limits", "I/O limit"))
    assert value(sheet, "interface eth0", "speed") == 100_000
    assert value(sheet, "interface eth0", "receive queues") == 2
    assert value(sheet, "interface eth0", "driver") == "example"
    assert value(sheet, "interface eth0", "interrupts") == "2, on processors 0-4"
    assert value(sheet, "placement", "interface eth0") == 0
    assert value(sheet, "placement", "drive nvme0n1") == 1


def test_every_unknown_value_has_a_reason_and_every_value_a_source(server: System, tmp_path: Path) -> None:
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1"), server)
    facts = [fact for group in sheet.groups for fact in group.facts]
    assert all(fact.source for fact in facts)
    assert all((fact.value is None) == bool(fact.unknown) for fact in facts)
    assert fact(sheet, "kernel", "vm.swappiness").unknown == "it does not exist"
    keys = [group.key for group in sheet.groups]
    assert len(keys) == len(set(keys))


def test_hints_of_a_server_with_everything_wrong(server: System, tmp_path: Path) -> None:
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1"), server)
    said = [
        hint.what for hint in sheet.hints if "nearly" not in hint.what
    ]  # the disk of the tests may be full
    for part, line in zip(
        (
            "md0 is resyncing (recover)",
            "md0 is degraded: 1 device missing",
            "the stripe cache of md0 has 256 pages",
            "nvme0n1 is connected with generation 3, 4 lanes but supports generation 4",
            "the write cache of sda is off",
            "may be dirty in the page cache",
            "governor is powersave",
            "automatic NUMA balancing",
            "the clock source is hpet",
            "a cgroup limits memory: 8.59 GB",
            "a cgroup limits the processors: 0.5 of 1",
            "a cgroup limits I/O: /dev/nvme0n1 at most 105 MB/s (write)",
            "eth0 has 100 Gb/s and an MTU of 1500",
            "interfaces are on NUMA node 0, NVMe drives on 1",
        ),
        said,
        strict=True,
    ):
        assert part in line
    assert all(hint.why and hint.remedy for hint in sheet.hints)


def test_nothing_is_hinted_at_where_all_is_well(tmp_path: Path) -> None:
    system = make_tree(tmp_path / "root", server_files() | MENDED, SERVER_LINKS)
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1"), system)
    assert [hint.what for hint in sheet.hints if "nearly" not in hint.what] == []


def test_a_limit_of_another_device_is_not_hinted_at(tmp_path: Path) -> None:
    """That of a drive below the folder's partition is."""
    for number, device in enumerate(("7:0", "8:16", "259:0")):
        limit = {"/sys/fs/cgroup/a/io.max": f"{device} rbps=max wbps=104857600\n"}
        system = make_tree(tmp_path / str(number), server_files() | limit, SERVER_LINKS)
        said = [hint.what for hint in sheet_of(mounted(tmp_path, "xfs", "253:1"), system).hints]
        assert any("limits I/O" in what for what in said) == (device == "259:0"), device


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ("259:0 rbps=200000000 wbps=200000000", "/dev/nvme0n1 at most 200 MB/s (read, write)"),
        (
            "259:0 rbps=50000000 wbps=max riops=max wiops=100",
            "/dev/nvme0n1 at most 50 MB/s (read), 100 operations/s (write)",
        ),
        ("259:0 wbps=200000000\n259:0 wbps=100000000", "/dev/nvme0n1 at most 100 MB/s (write)"),
    ],
)
def test_io_limits_are_shown_once_with_device_unit_and_direction(
    tmp_path: Path, limit: str, shown: str
) -> None:
    system = make_tree(
        tmp_path / "root", server_files() | {"/sys/fs/cgroup/a/io.max": f"{limit}\n"}, SERVER_LINKS
    )
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1"), system)
    assert f"a cgroup limits I/O: {shown}" in [hint.what for hint in sheet.hints]
    in_laboratory = sheet.model_copy(update={"path": "/run/penstock-lab/x/client-1/mount", "hints": []})
    (of_laboratory,) = (hint for hint in hints_of(in_laboratory) if shown in hint.what)
    assert of_laboratory.what.startswith("--disk-rate of the laboratory")
    assert "cgroup" not in of_laboratory.remedy


def test_a_full_or_read_only_file_system_is_hinted_at() -> None:
    def hints(**facts: object) -> list[str]:
        group = FactGroup(
            key="file system",
            title="",
            facts=[
                Fact.model_validate({"name": name.replace("_", " "), "value": value, "source": "x"})
                for name, value in facts.items()
            ],
        )
        sheet = DataSheet(path="/", host="h", made="", groups=[group], hints=[])
        return [hint.what for hint in hints_of(sheet)]

    assert hints(size=1000, free=99, inodes=1000, free_inodes=49) == [
        "the file system is nearly full: 9.9 % free",
        "the file system is nearly out of inodes: 4.9 % free",
    ]
    assert hints(size=1000, free=101, inodes=1000, free_inodes=51) == []
    assert hints(mount_options="ro,relatime") == ["the file system is mounted read-only"]
    assert hints(mount_options="rw,errors=remount-ro") == []


MOUNTSTATS = """\
device filer:/vol mounted on /data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=65536,wsize=65536,soft,proto=tcp
"""


def test_nfs_from_its_mount_statistics(tmp_path: Path) -> None:
    system = make_tree(tmp_path / "root", {"/proc/self/mountstats": MOUNTSTATS}, {})
    sheet = sheet_of(mounted(tmp_path, "nfs4", source="filer:/vol"), system)
    assert value(sheet, "details", "server") == "filer"
    assert value(sheet, "details", "protocol version") == "4.2"
    assert value(sheet, "details", "maximum write") == 65536
    assert "in its servers" in fact(sheet, "devices", "devices").unknown
    said = [hint.what for hint in sheet.hints]
    assert "NFS writes at most 64 KiB per call" in said
    assert "NFS is mounted soft" in said


@pytest.mark.parametrize(
    ("kind", "answers", "facts"),
    [
        (
            "zfs",
            {"zfs": "tank/d\trecordsize\t1048576\tlocal\n", "zpool": "tank\tashift\t12\tlocal\n"},
            {"recordsize": "1048576", "ashift": "12"},
        ),
        (
            "lustre",
            {"lfs": "OST0000 1T\nOST0001 1T\nMDT0000 1T\n", "lctl": "8\n8\n"},
            {"storage targets": 2, "metadata targets": 1, "max_rpcs_in_flight": "8"},
        ),
        (
            "gpfs",
            {"mmlsfs": " -B  4194304  Block size\n", "mmlsconfig": "pagepool 16G\n"},
            {"page pool": "pagepool 16G"},
        ),
        (
            "fuse.glusterfs",
            {"gluster": "Volume Name: data\nType: Distributed-Replicate\nNumber of Bricks: 2 x 3 = 6\n"},
            {"type": "Distributed-Replicate", "number of bricks": "2 x 3 = 6"},
        ),
        ("beegfs", {"beegfs-ctl": "+ Chunksize: 512K\n"}, {"chunk size": "512K"}),
        (
            "btrfs",
            {"btrfs": "Data, RAID1: total=1GiB\nMetadata, DUP: total=1MiB\n"},
            {"data profile": "RAID1", "metadata profile": "DUP"},
        ),
    ],
)
def test_tools_of_other_file_systems(
    tools: Path, tmp_path: Path, kind: str, answers: dict[str, str], facts: dict[str, object]
) -> None:
    """Their texts follow the documentation; without the tools each fact says that they are not installed."""
    target = mounted(tmp_path, kind, source="tank/d")
    system = make_tree(tmp_path / "root", {}, {})
    without = sheet_of(target, system).group("details")
    assert without is not None
    assert {fact.unknown for fact in without.facts} == {f"{tool} is not installed" for tool in answers}
    for tool, text in answers.items():
        put_tool(tools, tool, text)
    sheet = sheet_of(target, system)
    for name, expected in facts.items():
        assert value(sheet, "details", name) == expected
        assert fact(sheet, "details", name).source.split()[0] in answers
    for tool in answers:
        put_tool(tools, tool, "no\n", status=3)
    refused = sheet_of(target, system).group("details")
    assert refused is not None
    assert all("exit code 3" in fact.unknown for fact in refused.facts)


def test_ceph_is_asked_in_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = make_tree(tmp_path / "root", {}, {})
    without = fact(sheet_of(mounted(tmp_path, "ceph"), system), "details", "layout")
    assert without.unknown, "this folder is on no CephFS"
    layout = b"stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data"
    monkeypatch.setattr(os, "getxattr", lambda _folder, name: layout if name.endswith("layout") else b"0")
    found = fact(sheet_of(mounted(tmp_path, "ceph"), system), "details", "layout")
    assert found.value == layout.decode()
    assert found.source == "attribute ceph.dir.layout"


def test_limits_of_the_first_version_of_control_groups(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "4:memory:/job\n3:cpu,cpuacct:/job\n2:blkio:/\n",
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4294967296\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "250000\n",
        "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device": "8:0 1048576\n",
    }
    sheet = sheet_of(mounted(tmp_path, "tmpfs"), make_tree(tmp_path / "root", files, {}))
    assert value(sheet, "limits", "memory limit") == 4 << 30
    assert value(sheet, "limits", "processor limit") == 2.5
    assert value(sheet, "limits", "I/O limit") == "8:0 wbps=1048576"
    bare = sheet_of(mounted(tmp_path, "tmpfs"), make_tree(tmp_path / "bare", {}, {}))
    assert value(bare, "limits", "memory limit") == "none"


def test_devices_that_file_systems_name(tmp_path: Path) -> None:
    files = {
        "/sys/fs/btrfs/one/devices/sda/dev": "8:0\n",
        "/sys/fs/btrfs/two/devices/sdb/dev": "8:16\n",
    }
    system = make_tree(tmp_path, files, {})
    assert device_numbers(system, mounted(tmp_path, "xfs", "8:1")) == (["8:1"], "")
    for kind in ("tmpfs", "nfs4", "overlay", "zfs", "btrfs", "fuse.sshfs"):
        numbers, why = device_numbers(system, mounted(tmp_path, kind, source=str(tmp_path)))
        assert numbers == []
        assert why
    assert device_numbers(system, replace(mounted(tmp_path, "xfs"), mount=None))[0] == []


def test_values_by_which_the_kernel_reports_nothing_are_unknown(server: System, tmp_path: Path) -> None:
    """No text of a file is quoted where the kernel documents that it means that there is none."""
    nvme = server.root / NVME.lstrip("/")
    (server.path("/sys/class/net/eth0") / "speed").write_text("-1\n", encoding="ascii")
    for place in (server.path("/sys/class/net/eth0/device"), nvme / "device"):
        for folder in (place.resolve(), *place.resolve().parents):
            if (folder / "numa_node").exists():
                (folder / "numa_node").write_text("-1\n", encoding="ascii")
    sheet = sheet_of(mounted(tmp_path, "xfs", "253:1"), server)
    assert fact(sheet, "interface eth0", "speed").unknown == "the interface reports none"
    assert fact(sheet, "interface eth0", "NUMA node").unknown == "the system assigns none"
    assert fact(sheet, "placement", "drive nvme0n1").unknown == "the system assigns none"


def test_a_drive_without_a_model_is_said_to_have_none(server: System) -> None:
    """As a virtual machine's: a missing file of the kernel is expected there."""
    (server.root / NVME.lstrip("/") / "nvme/nvme0/model").unlink()
    drive = next(device for device in stack(server, ["253:1"]) if device.name == "nvme0n1")
    (model,) = [fact for fact in device_group(server, drive).facts if fact.name == "model"]
    assert (model.value, model.unknown) == (None, "the drive reports none, as is usual in virtual machines")


def test_a_model_cannot_steer_a_terminal(server: System) -> None:
    (server.root / NVME.lstrip("/") / "nvme/nvme0/model").write_text("a\x1b[2J\nb\0c", encoding="utf-8")
    drive = next(device for device in stack(server, ["253:1"]) if device.name == "nvme0n1")
    assert device_group(server, drive).value("model") == "a?[2J b?c"


@given(st.text(alphabet="ab |\\\n<`*_#[", max_size=20), st.text(max_size=20))
def test_no_text_breaks_a_table_of_markdown(name: str, value: str) -> None:
    text = sections_markdown("t", [Section(name, ("", "value"), [(name, value)], [value])])
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 3
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3 for line in table), text
    assert len(re.findall(r"^#", text, flags=re.MULTILINE)) == 2


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(server_files())), st.text(max_size=40), max_size=12))
def test_whatever_a_machine_says_there_is_a_sheet(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("root")
    system = make_tree(root, server_files() | texts, SERVER_LINKS)
    sheet = sheet_of(mounted(root, "ext4", "253:1"), system)
    assert DataSheet.model_validate_json(sheet.model_dump_json()) == sheet
    table = [line for line in sheet_markdown(sheet).splitlines() if line.startswith("|")]
    assert table
