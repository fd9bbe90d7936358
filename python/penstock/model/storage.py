"""What a file system says of itself, and how files are best laid out on it.

`StorageFacts` is what was found; penstock.files.storage finds it. The texts and bytes that tools and
attributes give are taken apart here, where they can be tested without the file systems.
"""

import re
import struct
from dataclasses import dataclass

from penstock.model.plans import GIB, KIB, MIB, TIB, StorePlan
from penstock.model.units import format_size

PAGE = 4096
# Of file systems whose devices are behind a network, as the kernel names them.
NETWORK_KINDS = (
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "fhgfs",
    "pvfs2",
    "ceph",
    "fuse.ceph-fuse",
    "glusterfs",
    "fuse.glusterfs",
    "cifs",
    "smb3",
    "afs",
)
# Beyond this a default would cost more memory for segments than it brings.
SEGMENT_MAX = 64 * MIB
_LUSTRE_V1, _LUSTRE_V3 = 0x0BD10BD0, 0x0BD30BD0
_SUFFIX = {"": 1, "K": KIB, "M": MIB, "G": GIB}


@dataclass(frozen=True)
class StorageFacts:
    """Of the file system that holds a folder. Sizes are bytes; 0 is not known, or there is none."""

    kind: str
    """as the kernel names it: ext4, xfs, lustre, nfs4, …"""
    mount: str
    block_bytes: int
    stripe_bytes: int = 0
    """what lies on one device or server before the next one's turn comes"""
    stripe_count: int = 0
    write_bytes: int = 0
    """the largest single write that a network file system sends"""
    found_by: str = "statfs"
    """where the stripe, or else the block, was found"""


@dataclass(frozen=True)
class Striping:
    stripe_bytes: int
    stripe_count: int = 0


def parse_lfs_getstripe(text: str) -> Striping | None:
    """`lfs getstripe -d FOLDER`. Of several components the last one counts: large files are in it."""
    sizes = re.findall(r"stripe_size:\s*(\d+)", text)
    counts = re.findall(r"stripe_count:\s*(-?\d+)", text)
    if not sizes or int(sizes[-1]) == 0:
        return None
    count = int(counts[-1]) if counts else 0
    return Striping(int(sizes[-1]), max(count, 0))


def parse_lustre_attribute(value: bytes) -> Striping | None:
    """The attribute lustre.lov in its plain versions, 1 and 3; the tool reads composite layouts too."""
    if len(value) < 32 or struct.unpack_from("<I", value)[0] not in (_LUSTRE_V1, _LUSTRE_V3):
        return None
    stripe_bytes, stripe_count = struct.unpack_from("<IH", value, 24)
    return Striping(stripe_bytes, 0 if stripe_count == 0xFFFF else stripe_count) if stripe_bytes else None


def parse_mmlsfs(text: str) -> Striping | None:
    """`mmlsfs DEVICE -B`: the block, which GPFS deals out to its disks. Of several pools the largest."""
    blocks = [int(value) for value in re.findall(r"(\d+)\s+Block size", text)]
    return Striping(max(blocks)) if blocks and max(blocks) > 0 else None


def parse_beegfs_entry(text: str) -> Striping | None:
    """`beegfs-ctl --getentryinfo FOLDER` and `beegfs entry info FOLDER --retro`; units of either case."""
    size = re.search(r"Chunksize:\s*(\d+)\s*([KMGkmg]?)", text)
    count = re.search(r"Number of storage targets:\s*(?:desired:\s*)?(\d+)", text)
    if size is None or int(size[1]) == 0:
        return None
    return Striping(int(size[1]) * _SUFFIX[size[2].upper()], int(count[1]) if count else 0)


def parse_xfs_geometry(geometry: bytes) -> Striping | None:
    """What the call XFS_IOC_FSGEOMETRY_V1 gives; stripe unit and width are in blocks."""
    block = struct.unpack_from("<I", geometry)[0]
    unit, width = struct.unpack_from("<II", geometry, 80)
    return Striping(unit * block, width // unit) if unit else None


def parse_mount_options(options: str) -> dict[str, str]:
    """`rw,wsize=1048576` of /proc/self/mountinfo."""
    return dict(part.partition("=")[::2] for part in options.split(","))


@dataclass(frozen=True)
class Layout:
    """What follows from the facts for a file, and why."""

    segment_bytes: int
    extent_bytes: int
    alignment_bytes: int
    reason: str


def advise_layout(facts: StorageFacts) -> Layout:
    """Segments begin at a stripe and hold whole ones, so that no two writes meet in one."""
    fields = StorePlan.model_fields
    usual = Layout(
        fields["segment_bytes"].default, fields["extent_bytes"].default, fields["alignment_bytes"].default, ""
    )
    if facts.stripe_bytes > 0:
        stripe = facts.stripe_bytes
    elif facts.write_bytes > 0:
        # Nothing on the server lies in such pieces: whole ones spare calls, and need no alignment.
        segment = _whole(usual.segment_bytes, facts.write_bytes)
        reason = f"segments are whole writes of {format_size(facts.write_bytes)}"
        return Layout(segment, _whole(usual.extent_bytes, segment), usual.alignment_bytes, reason)
    else:
        return Layout(usual.segment_bytes, usual.extent_bytes, usual.alignment_bytes, "the defaults suit it")
    alignment = _power_of_two_in(stripe)
    if alignment < PAGE or alignment > SEGMENT_MAX:
        reason = f"a stripe of {format_size(stripe)} is nothing to align to; the defaults stay"
        return Layout(usual.segment_bytes, usual.extent_bytes, usual.alignment_bytes, reason)
    row = stripe * max(facts.stripe_count, 1)
    unit = row if row <= SEGMENT_MAX else stripe
    segment = _whole(usual.segment_bytes, unit if unit <= SEGMENT_MAX else alignment)
    extent = _whole(usual.extent_bytes, segment)
    reason = f"segments begin at a stripe of {format_size(stripe)} and hold whole ones"
    if alignment != stripe:
        reason = (
            f"segments begin at multiples of {format_size(alignment)}, which divides the stripe of"
            f" {format_size(stripe)}"
        )
    return Layout(segment, extent, alignment, reason)


def _whole(least: int, unit: int) -> int:
    return -(-least // unit) * unit


def _power_of_two_in(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number


def settle_store(store: StorePlan, facts: StorageFacts) -> tuple[StorePlan, str]:
    """The settings with what suits the storage where the user set nothing, and the reason for people."""
    layout = advise_layout(facts)
    wanted = {
        "segment_bytes": layout.segment_bytes,
        "extent_bytes": layout.extent_bytes,
        "alignment_bytes": layout.alignment_bytes,
    }
    given = [name for name in wanted if name in store.model_fields_set]
    settled = {name: value for name, value in wanted.items() if name not in given}
    if "segment_bytes" in settled and "extent_bytes" in given:
        settled["segment_bytes"] = min(settled["segment_bytes"], store.extent_bytes)
    if "extent_bytes" in settled:
        segment = settled.get("segment_bytes", store.segment_bytes)
        settled["extent_bytes"] = min(TIB, _whole(settled["extent_bytes"], segment))
    reason = layout.reason
    if given:
        reason += f"; set by hand: {', '.join(given)}"
    return store.model_copy(update=settled), reason


def describe_facts(facts: StorageFacts) -> str:
    """In a line."""
    parts = [f"block {format_size(facts.block_bytes)}"]
    if facts.stripe_bytes:
        count = f" x {facts.stripe_count}" if facts.stripe_count else ""
        parts = [f"stripe {format_size(facts.stripe_bytes)}{count}"]
    elif facts.write_bytes:
        parts = [f"writes of {format_size(facts.write_bytes)}"]
    return f"{facts.kind} at {facts.mount}, {parts[0]} (from {facts.found_by})"
