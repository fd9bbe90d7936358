"""Which systems there are."""

from typing import Any

from penstock.lab.system import System
from penstock.lab.systems.ceph import Ceph
from penstock.lab.systems.dav import Dav
from penstock.lab.systems.ganesha import Ganesha
from penstock.lab.systems.gfarm import Gfarm
from penstock.lab.systems.gluster import Gluster
from penstock.lab.systems.hdfs import Hdfs
from penstock.lab.systems.local import Btrfs, Ext4, Xfs
from penstock.lab.systems.md import Md
from penstock.lab.systems.moosefs import MooseFs
from penstock.lab.systems.openafs import OpenAfs
from penstock.lab.systems.s3 import S3
from penstock.lab.systems.xrootd import XRootD
from penstock.lab.systems.zfs import Zfs
from penstock.model.errors import UsageError

SYSTEMS: dict[str, type[System[Any]]] = {
    each.NAME: each
    for each in (
        *(Ext4, Xfs, Btrfs, Md, Zfs),
        *(MooseFs, Gluster, Ceph, Ganesha, XRootD, Hdfs, S3, Dav, OpenAfs, Gfarm),
    )
}


def system_named(name: str) -> type[System[Any]]:
    """Raises UsageError for an unknown one."""
    if name not in SYSTEMS:
        raise UsageError(
            f"{name} is not a storage system of the laboratory", f"use one of {', '.join(SYSTEMS)}"
        )
    return SYSTEMS[name]
