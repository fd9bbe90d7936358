"""Texts of /proc, /sys and tools. Made up in the documented formats, and those of this machine."""

import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_server import LIMITS, RINGS

from penstock.model.plan import system_texts
from penstock.model.plan.system_texts import (
    NfsMount,
    Processors,
    ProcessorTime,
    Quota,
    Rings,
    format_cpu_list,
    mitigations_word,
    others_share,
    parse_cgroup,
    parse_chosen,
    parse_cpu_list,
    parse_cpu_max,
    parse_cpuinfo,
    parse_fields,
    parse_limit,
    parse_meminfo,
    parse_mountstats,
    parse_number,
    parse_pcie,
    parse_processor_time,
    parse_properties,
    parse_quota,
    parse_rings,
    parse_xfs_info,
)

X86 = """\
processor\t: 0
model name\t: Example(R)  Processor 9000 @ 2.10GHz
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu sse2 avx2

processor\t: 1
model name\t: Example(R)  Processor 9000 @ 2.10GHz
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu sse2 avx2

processor\t: 2
model name\t: Example(R)  Processor 9000 @ 2.10GHz
physical id\t: 1
core id\t\t: 0
flags\t\t: fpu sse2 avx2
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
CPU implementer\t: 0x41

processor\t: 1
BogoMIPS\t: 50.00
CPU implementer\t: 0x41
"""
POWER = """\
processor\t: 0
cpu\t\t: POWER9, altivec supported

processor\t: 4
cpu\t\t: POWER9, altivec supported

platform\t: PowerNV
"""
MOUNTSTATS = """\
device proc mounted on /proc with fstype proc
device other:/x mounted on /data/other with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=65536,wsize=65536
device filer.example:/vol/a mounted on /data/run\\0401 with fstype nfs statvers=1.1
\topts:\trw,vers=3,rsize=1048576,wsize=524288,namlen=255,hard,proto=tcp,nconnect=8,timeo=600,sec=sys
\tage:\t1234
\tbytes:\t1 2 3 4 5 6 7 8
device [2001:db8::1]:/v6 mounted on /six with fstype nfs4 statvers=1.1
\topts:\tro,soft,rsize=1,wsize=2
"""
XFS_INFO = """\
meta-data=/dev/mapper/vg-data    isize=512    agcount=32, agsize=268435440 blks
         =                       sectsz=4096  attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
         =                       reflink=1    bigtime=1 inobtcount=1
data     =                       bsize=4096   blocks=8589934080, imaxpct=5
         =                       sunit=64     swidth=512 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=521728, version=2
         =                       sectsz=4096  sunit=1 blks, lazy-count=1
realtime =none                   extsz=4096   blocks=0, rtextents=0
"""
QUOTA = """\
Disk quotas for user somebody (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sdb1   20480  102400  204800       0       5       0     100       0
"""


def test_processors() -> None:
    assert parse_cpuinfo(X86) == Processors("Example(R) Processor 9000 @ 2.10GHz", 2, 2, 3, False)
    assert parse_cpuinfo(ARM) == Processors("", 0, 0, 2, False)
    assert parse_cpuinfo(POWER) == Processors("POWER9, altivec supported", 0, 0, 2, False)
    assert parse_cpuinfo(X86.replace("avx2", "avx2 hypervisor")).is_virtual
    assert parse_cpuinfo("") == Processors("", 0, 0, 0, False)


def test_this_machines_processors_and_memory() -> None:
    found = parse_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    assert found.threads == os.cpu_count()
    memory = parse_meminfo(Path("/proc/meminfo").read_text(encoding="utf-8"))
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory["MemTotal"] == pytest.approx(pages, rel=0.01)


def test_memory_of_a_node() -> None:
    assert parse_meminfo("Node 1 MemTotal:       16432984 kB\nNode 1 HugePages_Free:  0\n") == {
        "MemTotal": 16432984 * 1024
    }


def test_nfs_mounts() -> None:
    options = {"rw": "", "vers": "3", "rsize": "1048576", "wsize": "524288", "namlen": "255", "hard": ""}
    options |= {"proto": "tcp", "nconnect": "8", "timeo": "600", "sec": "sys"}
    assert parse_mountstats(MOUNTSTATS, "/data/run 1") == NfsMount("filer.example", "3", options)
    six = parse_mountstats(MOUNTSTATS, "/six")
    assert six is not None
    assert (six.server, six.version) == ("[2001:db8::1]", "nfs4")
    assert parse_mountstats(MOUNTSTATS, "/data") is None
    assert parse_mountstats(MOUNTSTATS, "/proc") is None


def test_xfs_geometry_by_section() -> None:
    found = parse_xfs_info(XFS_INFO)
    assert found["meta-data.agcount"] == "32"
    assert found["meta-data.reflink"] == "1"
    assert (found["data.sunit"], found["data.swidth"]) == ("64", "512")
    assert found["log.sunit"] == "1"


def test_zfs_properties() -> None:
    text = (
        "tank/data\trecordsize\t1048576\tlocal\ntank/data\tcompression\tlz4\tinherited from tank\nbad line\n"
    )
    assert parse_properties(text) == {"recordsize": "1048576", "compression": "lz4"}


def test_quota() -> None:
    assert parse_quota(QUOTA) == Quota(20480 * 1024, 204800 * 1024, 5, 100)
    exceeded = QUOTA.replace("20480 ", "300000*")
    assert parse_quota(exceeded) == Quota(300000 * 1024, 204800 * 1024, 5, 100)
    assert parse_quota("Disk quotas for user root (uid 0): none\n") is None


def test_control_groups() -> None:
    text = "9:cpu,cpuacct:/slice/a\n4:memory:/m:with:colons\n0::/user.slice\nnonsense\n"
    assert parse_cgroup(text) == {
        "cpu": "/slice/a",
        "cpuacct": "/slice/a",
        "memory": "/m:with:colons",
        "": "/user.slice",
    }
    assert parse_cpu_max("150000 100000\n") == 1.5
    for none in ("max 100000", "", "-1 100000", "100000 0", "1 2 3"):
        assert parse_cpu_max(none) is None


def test_links_of_drives() -> None:
    assert parse_pcie("16.0 GT/s PCIe\n", "4\n") == "generation 4, 4 lanes"
    assert parse_pcie("2.5 GT/s", "1") == "generation 1, 1 lanes"
    for speed, width in (("Unknown", "4"), ("16.0 GT/s", "0"), ("3.0 GT/s", "4"), ("", "")):
        assert parse_pcie(speed, width) is None


def test_what_others_had_of_the_processors() -> None:
    before = parse_processor_time("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2\n")
    assert before == ProcessorTime(1000, 850)
    after = ProcessorTime(1200, 950)  # 200 ticks later, of which 100 were idle
    assert others_share(before, after, 40) == pytest.approx(0.3)
    assert others_share(before, after, 0) == pytest.approx(0.5)
    assert others_share(before, after, 500) == 0.0
    assert others_share(before, before, 0) == 0.0
    assert parse_processor_time("cpu  100 0 50 800 50 0 0 20 7 7\n") == ProcessorTime(1020, 850)
    for text in ("", "cpu0 1 2 3 4 5", "cpu a b c d e f"):
        assert parse_processor_time(text) is None


def test_the_chosen_one() -> None:
    assert parse_chosen("mq-deadline [none] kyber\n") == "none"
    assert parse_chosen("none\n") == "none"
    assert parse_chosen("always madvise") is None
    assert parse_chosen("") is None


def test_mitigations() -> None:
    assert mitigations_word(["Not affected", "Mitigation: PTI"], "quiet") == "on"
    assert mitigations_word(["Vulnerable: no microcode", "Mitigation: PTI"], "quiet") == "partly"
    assert mitigations_word(["Not affected"], "") == "none needed"
    assert mitigations_word(["Vulnerable"], "ro mitigations=off quiet") == "off"
    assert mitigations_word(["Vulnerable"], "xmitigations=offx") == "partly"


@given(st.sets(st.integers(0, 4000), max_size=60))
def test_lists_of_processors_come_back(numbers: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(numbers)) == tuple(sorted(numbers))


def test_hostile_lists_of_processors() -> None:
    for text in ("3-1", "a", "1-999999", "1--2", "-1", "1;2"):
        assert parse_cpu_list(text) is None


@given(st.integers(-(10**18), 10**18), st.sampled_from(["", " ", "\n"]))
def test_numbers_come_back(number: int, space: str) -> None:
    assert parse_number(f"{space}{number}{space}") == number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (RINGS.format(now=512), Rings(512, 8192)),
        ("RX: 512\n", None),
        ("netlink error: Operation not supported\n", None),
        (RINGS.format(now="n/a"), None),
    ],
)
def test_rings_of_ethtool(text: str, found: Rings | None) -> None:
    assert parse_rings(text) == found


def test_limits_of_a_process() -> None:
    assert parse_limit(LIMITS.format(files=1024), "Max open files") == 1024
    assert parse_limit(LIMITS.format(files="unlimited"), "Max open files") == "unlimited"
    assert parse_limit(LIMITS.format(files=1024), "Max nothing") is None
    own = Path("/proc/self/limits").read_text(encoding="utf-8")
    assert parse_limit(own, "Max open files") in (resource.getrlimit(resource.RLIMIT_NOFILE)[0], "unlimited")


PARSERS: list[Callable[[str], Any]] = [
    parse_number,
    parse_chosen,
    parse_cpu_list,
    parse_fields,
    parse_meminfo,
    parse_cpuinfo,
    lambda text: parse_mountstats(text, "/data"),
    parse_xfs_info,
    parse_processor_time,
    parse_properties,
    parse_quota,
    parse_cgroup,
    parse_cpu_max,
    lambda text: parse_pcie(text, text),
    lambda text: mitigations_word([text], text),
    lambda text: parse_limit(text, "Max open files"),
    parse_rings,
]
REAL = "\n".join([X86, MOUNTSTATS, XFS_INFO, QUOTA, LIMITS, RINGS])


def test_all_parsers_are_tried_with_hostile_texts() -> None:
    named = {name for name in vars(system_texts) if name.startswith("parse_")}
    source = Path(__file__).read_text(encoding="utf-8").partition("PARSERS:")[2].partition("]\nREAL")[0]
    assert named == set(re.findall(r"parse_\w+", source))


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.one_of(st.text(max_size=300), st.lists(st.sampled_from(REAL.splitlines())).map("\n".join)))
def test_no_text_breaks_a_parser(parse: Callable[[str], Any], text: str) -> None:
    parse(text)
