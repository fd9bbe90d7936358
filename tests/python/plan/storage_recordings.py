"""What storages that need hardware or a licence report, in the formats that these sources show.

No text is from a machine of ours: names and numbers are made up, the form is that of the source.

- Lustre: `lfs df` and `lfs getstripe` as in the Lustre Operations Manual (doc.lustre.org) and in public logs
  of clusters. `lctl get_param -n` prints a value for each target.
- GPFS: `mmlsfs` as in the command reference of IBM Storage Scale (ibm.com/docs) and in a public log of 5.0.4,
  `mmdiag --version` as in public logs of 5.0.5, 5.1.9 and 5.2.1, which begin with a heading.
- BeeGFS: doc.beegfs.io 7.2, "Deep Inspection", whose unit is a small k; 8.2, "Striping", with
  `--retro --verbose`; `--listtargets` as in public logs. FhGFS: its tool is assumed to print the same.
- OrangeFS: mount as in the kernel's Documentation/filesystems/orangefs.rst; attributes as in "PVFS Tuning"
  and the FAQ of its distribution. That reading them ends with a zero byte follows from its own setter.
- NFS: /proc/self/mountstats as Linux prints it (fs/nfs/super.c: show_implementation_id, show_pnfs). Name and
  domain of dCache are those of NFSv4Defaults in dCache/nfs4j. Those of NetApp are from a test of a public
  collector of these statistics; the name can be changed on the filer.
- dCache's file `.(tags)()`: The dCache Book, directory tags; the namespace's code answers to this name.
- MooseFS: as `penstock lab up moosefs` shows it (version 3.0.117); `tests/python/lab` has the real one.
- NetApp's directory .snapshot and SONAS's exports below /ibm are customary, and no proof: hence "probably".
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Recording:
    """A mount with the texts of its tools and files, and attributes of its directory."""

    kind: str
    source: str
    facts: dict[str, object]
    """of the group "details" of a data sheet"""
    options: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    """by the beginning of the command"""
    files: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, bytes] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """in the directory; a directory ends with /"""
    version: str = ""
    stripe: tuple[int, int] = (0, 0)
    """bytes, count"""


def _mountstats(source: str, version: str, *lines: str) -> dict[str, str]:
    kind = "nfs" if version == "3" else "nfs4"
    options = f"rw,vers={version},rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,sec=sys"
    head = [f"device {source} mounted on /data with fstype {kind} statvers=1.1", f"\topts:\t{options}"]
    text = [*head, "\tage:\t5210", *lines, "\tsec:\tflavor=1,pseudoflavor=1", "\tbytes:\t0 0 0 0 0 0 0 0"]
    return {"/proc/self/mountstats": "\n".join(text) + "\n"}


LUSTRE = Recording(
    kind="lustre",
    source="10.0.7.11@o2ib:10.0.7.12@o2ib:/fast",
    options={"flock": "", "lazystatfs": ""},
    tools={
        "lfs getstripe": "stripe_count:  4 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1\n",
        "lfs df": """\
UUID                       bytes        Used   Available Use% Mounted on
fast-MDT0000_UUID           2.1T       41.0G        2.0T   2% /data[MDT:0]
fast-OST0000_UUID          87.3T       40.2T       46.2T  47% /data[OST:0]
fast-OST0001_UUID          87.3T       39.8T       46.6T  47% /data[OST:1]
fast-OST0002_UUID          87.3T       40.9T       45.5T  48% /data[OST:2]

filesystem_summary:       261.9T      120.9T      138.3T  47% /data

""",
        "lfs quota": "     /data       0       0       0       -       0       0       0       -\n",
        "lctl get_param -n version": "2.15.4\n",
        "lctl get_param -n osc.*.max_rpcs_in_flight": "16\n16\n16\n",
        "lctl get_param -n osc.*.max_dirty_mb": "2000\n2000\n2000\n",
    },
    version="2.15.4",
    stripe=(4 << 20, 4),
    facts={
        "storage targets": 3,
        "metadata targets": 1,
        "max_rpcs_in_flight": "16",
        "max_dirty_mb": "2000",
    },
)

GPFS = Recording(
    kind="gpfs",
    source="gpfs1",
    tools={
        "mmlsfs": """\
flag                value                    description
------------------- ------------------------ -----------------------------------
 -B                 8388608                  Block size
 -m                 2                        Default number of metadata replicas
 -r                 1                        Default number of data replicas
 -j                 scatter                  Block allocation type
 -V                 33.00 (5.1.9.0)          File system version
""",
        "mmlsconfig": "pagepool 16G\n",
        "mmdiag": """\

=== mmdiag: version ===
Current GPFS build: "5.1.9.2 ".
Built on Jan 24 2024 at 13:45:43
Running 3 days 4 hours 11 minutes 5 secs, pid 4812
""",
    },
    version="5.1.9.2",
    stripe=(8 << 20, 0),
    facts={
        "data replicas": "1",
        "metadata replicas": "2",
        "block allocation": "scatter",
        "format version": "33.00 (5.1.9.0)",
        "page pool": "pagepool 16G",
    },
)

BEEGFS_7 = Recording(
    kind="beegfs",
    source="beegfs_nodev",
    options={"cfgFile": "/etc/beegfs/beegfs-client.conf"},
    files={"/sys/module/beegfs/version": "7.2.8\n"},
    tools={
        "beegfs-ctl --getentryinfo": """\
Entry type: directory
EntryID: 3-63F0A1C2-1
Metadata node: meta1.example [ID: 1]
Stripe pattern details:
+ Type: Buddy Mirror
+ Chunksize: 512k
+ Number of storage targets: desired: 4
+ Storage Pool: 1 (Default)
""",
        "beegfs-ctl --listtargets": """\
TargetID   NodeID
========   ======
     101        1
     102        1
     201        2
     202        2
""",
    },
    version="7.2.8",
    stripe=(512 << 10, 4),
    facts={
        "stripe pattern": "Buddy Mirror",
        "chunk size": "512k",
        "targets of a file": "desired: 4",
        "storage pool": "1 (Default)",
        "storage targets": 4,
    },
)

BEEGFS_8 = Recording(
    kind="beegfs",
    source="beegfs_nodev",
    files={"/sys/module/beegfs/version": "8.2.0\n"},
    tools={
        "beegfs entry": """\
Entry type: directory
EntryID: root
ParentID:
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 1M
+ Number of storage targets: desired: 4
+ Storage Pool: 1  (default)
Inlined inode: no
""",
    },
    version="8.2.0",
    stripe=(1 << 20, 4),
    facts={"stripe pattern": "RAID0", "chunk size": "1M", "storage targets": None},
)

FHGFS = Recording(
    kind="fhgfs",
    source="fhgfs_nodev",
    tools={
        "fhgfs-ctl --getentryinfo": """\
Path: /
EntryID: root
Metadata node: meta01 [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4
""",
        "fhgfs-ctl --listtargets": "TargetID   NodeID\n========   ======\n  1   store01\n  2   store02\n",
    },
    stripe=(512 << 10, 4),
    facts={"chunk size": "512K", "storage targets": 2},
)

ORANGEFS = Recording(
    kind="pvfs2",
    source="tcp://io1.example:3334/orangefs",
    attributes={
        "user.pvfs2.dist_name": b"simple_stripe\0",
        "user.pvfs2.dist_params": b"strip_size:1048576\0",
        "user.pvfs2.num_dfiles": b"4",
    },
    version="part of the kernel",
    stripe=(1 << 20, 4),
    facts={"distribution": "simple_stripe", "strip size": 1 << 20, "data files of a file": "4"},
)

ORANGEFS_UNSET = Recording(
    kind="pvfs2",
    source="tcp://io1.example:3334/orangefs",
    facts={"distribution": None, "strip size": None, "data files of a file": None},
)

MOOSEFS = Recording(
    kind="fuse",
    source="mfs#10.78.0.100:9421",
    tools={"mfsgetgoal": "/data: 2\n"},
    facts={"system": "MooseFS", "master": "10.78.0.100:9421", "copies (goal)": "2"},
)

DCACHE = Recording(
    kind="nfs4",
    source="door.example:/data",
    files=_mountstats(
        "door.example:/data",
        "4.1",
        "\timpl_id:\tname='Chimera NFSv4.1',domain='dCache.ORG',date='1663057621,0'",
        "\tcaps:\tcaps=0x7fff7,wtmult=512,dtsize=1048576,bsize=0,namlen=255",
        "\tnfsv4:\tbm0=0xf8f3b77e,bm1=0x40b0be3a,bm2=0x2,acl=0xf,sessions,pnfs=LAYOUT_FLEX_FILES",
    ),
    facts={
        "server": "door.example",
        "server software": "dCache: Chimera NFSv4.1",
        "protocol version": "4.1",
        "pNFS": "LAYOUT_FLEX_FILES",
    },
)

DCACHE_3 = Recording(
    kind="nfs",
    source="door.example:/pnfs",
    files=_mountstats(
        "door.example:/pnfs", "3", "\tcaps:\tcaps=0x3f,wtmult=512,dtsize=8192,bsize=0,namlen=255"
    ),
    names=(".(tags)()",),
    facts={"server software": "dCache", "protocol version": "3"},
)

WAFL = Recording(
    kind="nfs4",
    source="filer.example:/vol_raw",
    files=_mountstats(
        "filer.example:/vol_raw",
        "4.1",
        "\timpl_id:\tname='NetApp Release 9.12.1P4',domain='netapp.com',date='1684745127,0'",
        "\tnfsv4:\tbm0=0xf8f3b77e,bm1=0xb0be3a,bm2=0x800,acl=0xb,sessions,pnfs=not configured",
    ),
    names=(".snapshot/",),
    facts={
        "server software": "NetApp ONTAP (WAFL): NetApp Release 9.12.1P4",
        "pNFS": "not configured",
        "maximum write": 1 << 20,
    },
)

WAFL_3 = Recording(
    kind="nfs",
    source="filer.example:/vol/raw",
    files=_mountstats("filer.example:/vol/raw", "3"),
    names=(".snapshot/",),
    facts={"server software": "probably NetApp (WAFL), or another server with .snapshot directories"},
)

SONAS = Recording(
    kind="nfs",
    source="sonas.example:/ibm/gpfs0/raw",
    files=_mountstats("sonas.example:/ibm/gpfs0/raw", "3"),
    facts={"server software": "probably IBM SONAS or Storage Scale (GPFS)", "protocol version": "3"},
)

OTHER_NFS = Recording(
    kind="nfs4",
    source="srv.example:/export",
    files=_mountstats(
        "srv.example:/export",
        "4.2",
        "\timpl_id:\tname='',domain='',date='0,0'",
        "\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x803,acl=0x3,sessions,pnfs=not configured",
    ),
    facts={"server software": None, "protocol version": "4.2"},
)

ALL = {
    name: value
    for name, value in sorted(vars().items())
    if isinstance(value, Recording)
}  # fmt: skip
