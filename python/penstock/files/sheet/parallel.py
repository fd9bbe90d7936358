"""Properties of parallel file systems: Lustre, GPFS, BeeGFS, OrangeFS."""

from collections.abc import Callable

from penstock.files.sheet.file_system import Target, one_line
from penstock.files.sheet.system import Facts, System
from penstock.files.storage import beegfs_entry, pvfs2_attribute
from penstock.files.tools import Seen, ask
from penstock.model.plan.storage_texts import (
    parse_beegfs_fields,
    parse_beegfs_targets,
    parse_mmlsfs_flags,
    parse_pvfs2_strip,
)

_GPFS_FLAGS = (
    ("data replicas", "-r"),
    ("metadata replicas", "-m"),
    ("block allocation", "-j"),
    ("format version", "-V"),
)
_BEEGFS_FIELDS = (
    ("stripe pattern", "Type"),
    ("chunk size", "Chunksize"),
    ("targets of a file", "Number of storage targets"),
    ("storage pool", "Storage Pool"),
)


def lustre_facts(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    targets = ask("lfs", "df", "-h", target.mount.point)
    for title, word in (("storage targets", "OST"), ("metadata targets", "MDT")):
        facts.add(title, targets, _count_lines(word))
    for name in ("max_rpcs_in_flight", "max_dirty_mb", "max_pages_per_rpc", "checksums"):
        facts.add(name, ask("lctl", "get_param", "-n", f"osc.*.{name}"), _same_values)


def _count_lines(word: str) -> Callable[[str], int | None]:
    return lambda text: sum(word in line for line in text.splitlines()) or None


def _same_values(text: str) -> str:
    """Returns the values of all targets, each value once."""
    return ", ".join(dict.fromkeys(text.split()))


def gpfs_facts(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    layout = ask("mmlsfs", target.mount.source, *(flag for _, flag in _GPFS_FLAGS))
    for title, flag in _GPFS_FLAGS:
        facts.add(title, layout, _of(parse_mmlsfs_flags, flag))
    facts.add("page pool", ask("mmlsconfig", "pagepool"), one_line)


def _of(parse: Callable[[str], dict[str, str]], name: str) -> Callable[[str], str | None]:
    return lambda text: parse(text).get(name)


def beegfs_facts(_system: System, target: Target, facts: Facts) -> None:
    entry = beegfs_entry(target.folder, target.facts.kind)
    for title, name in _BEEGFS_FIELDS:
        facts.add(title, entry, _of(parse_beegfs_fields, name))
    tool = "fhgfs-ctl" if target.facts.kind == "fhgfs" else "beegfs-ctl"
    facts.add("storage targets", ask(tool, "--listtargets", "--nodetype=storage"), parse_beegfs_targets)


def orangefs_facts(_system: System, target: Target, facts: Facts) -> None:
    """Adds the distribution of new files of the directory, which attributes may set."""
    unset = "not set on this directory: the servers' default applies"
    for title, name in (
        ("distribution", "dist_name"),
        ("strip size", "dist_params"),
        ("data files of a file", "num_dfiles"),
    ):
        seen = pvfs2_attribute(target.folder, name)
        if seen.text is None:
            facts.unknown(title, seen.source, f"{unset} ({seen.why})")
        elif name == "dist_params":
            facts.add(title, seen, parse_pvfs2_strip, "B")
        else:
            facts.add(title, Seen(seen.text.strip(), seen.source))
