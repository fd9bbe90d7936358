"""GPFS, Lustre, BeeGFS and OrangeFS, and dCache, WAFL and SONAS behind NFS, by recorded texts."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import storage_recordings
from hypothesis import given
from hypothesis import strategies as st
from made_up_server import make_tree
from storage_recordings import Recording

from penstock.files import storage
from penstock.files.sheet.file_system import Target
from penstock.files.sheet.sheet import sheet_of
from penstock.files.storage import Mount, storage_facts
from penstock.model.plan.datasheet import DataSheet
from penstock.model.plan.storage_texts import (
    nfs_server,
    parse_beegfs_fields,
    parse_beegfs_targets,
    parse_mmdiag_version,
    parse_mmlsfs_flags,
    parse_nfs_implementation,
    parse_nfs_layout,
    parse_pvfs2_strip,
)


@pytest.fixture(params=storage_recordings.ALL)
def recording(request: pytest.FixtureRequest) -> Recording:
    return storage_recordings.ALL[request.param]


def replay(recording: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Returns a directory on the recorded mount, whose tools are the only ones and answer as recorded."""
    tools, data = folder / "tools", folder / "data"
    for each in (tools, data):
        each.mkdir()
    for name in recording.names:
        (data / name).mkdir() if name.endswith("/") else (data / name).touch()
    for tool in {name.split()[0] for name in recording.tools}:
        _put_tool(tools, tool, {n: text for n, text in recording.tools.items() if n.split()[0] == tool})
    monkeypatch.setenv("PATH", str(tools))
    for name in ("_ADMINISTRATOR_TOOLS", "_GPFS_TOOLS"):
        monkeypatch.setattr(f"penstock.files.tools.{name}", str(tools))

    def attribute(_path: object, name: str) -> bytes:
        if name not in recording.attributes:
            raise OSError(61, "No data available")
        return recording.attributes[name]

    monkeypatch.setattr(os, "getxattr", attribute)
    mount = Mount("/data", recording.kind, recording.source, "0:50", {"rw": "", **recording.options})
    monkeypatch.setattr(storage, "find_mount", lambda _: mount)
    return Target(data, mount, storage_facts(data))


def _put_tool(folder: Path, tool: str, answers: dict[str, str]) -> None:
    """A tool that answers as recorded to what it was asked, and fails at all else, as unknown commands do."""
    cases = []
    for number, (asked, text) in enumerate(answers.items()):
        answer = folder / f"{tool}.{number}"
        answer.write_text(text, encoding="utf-8")
        pattern = f'"{asked.partition(" ")[2]}"*'
        cases.append(f"{pattern}) exec /bin/cat '{answer}';;")
    program = folder / tool
    lines = ["#!/bin/sh", 'case "$*" in', *cases, "esac", "echo unknown arguments >&2", "exit 1"]
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    program.chmod(0o755)


def sheet(recording: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch) -> DataSheet:
    target = replay(recording, folder, monkeypatch)
    return sheet_of(target, make_tree(folder / "root", recording.files, {}))


def test_recorded_storage_is_described(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sheet(recording, tmp_path, monkeypatch)
    details, general = found.group("details"), found.group("file system")
    assert details is not None
    assert general is not None
    for name, expected in recording.facts.items():
        (fact,) = [fact for fact in details.facts if fact.name == name]
        assert fact.value == expected, (name, fact)
        assert fact.source
        assert fact.unknown or expected is not None, "an unknown value has a reason"
    if recording.version:
        assert str(general.value("version")).startswith(recording.version)
    count = recording.stripe[1] or None
    assert (general.value("stripe size"), general.value("stripe count")) == (
        recording.stripe[0] or None,
        count,
    )
    devices = found.group("devices")
    assert devices is not None
    name = "MooseFS" if recording.kind == "fuse" else recording.kind
    assert devices.facts[0].unknown == f"the devices of {name} are in its servers"


def test_tools_are_asked_as_their_documentation_says(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that a recorded tool does not know would leave its facts unknown."""
    found = sheet(recording, tmp_path, monkeypatch)
    asked = {fact.source for group in found.groups for fact in group.facts if fact.value is not None}
    asked |= {"lfs getstripe"} if any("lfs getstripe" in source for source in asked) else set()
    for name in recording.tools:
        assert any(source.startswith(name) for source in asked), (name, sorted(asked))


def test_dcache_without_pnfs_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = storage_recordings.DCACHE
    files = {n: t.replace("LAYOUT_FLEX_FILES", "not configured") for n, t in recording.files.items()}
    slow = Recording(**{**vars(recording), "files": files})
    (tmp_path / "slow").mkdir()
    hints = [hint.what for hint in sheet(slow, tmp_path / "slow", monkeypatch).hints]
    assert "dCache is mounted without pNFS" in hints
    (tmp_path / "fast").mkdir()
    assert "dCache is mounted without pNFS" not in [
        hint.what for hint in sheet(recording, tmp_path / "fast", monkeypatch).hints
    ]


@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        (("Chimera NFSv4.1", "dCache.ORG"), "dCache: Chimera NFSv4.1"),
        (("", "dcache.org"), "dCache"),
        (("NetApp Release 9.8", ""), "NetApp ONTAP (WAFL): NetApp Release 9.8"),
        (("Server X", "example.org"), "example.org: Server X"),
        (("Server X", ""), "Server X"),
    ],
)
def test_servers_name_themselves(implementation: tuple[str, str], words: str) -> None:
    assert nfs_server(implementation) == words


def test_texts_that_are_not_as_recorded() -> None:
    assert parse_mmlsfs_flags("mmlsfs: 6027-1388 File system gone is not known\n") == {}
    assert parse_mmlsfs_flags(" -B   262144     Block size (system pool)\n      8388608  Block size\n") == {
        "-B": "262144"
    }
    assert parse_mmdiag_version('Current GPFS build: " ".\n') is None
    assert parse_beegfs_targets("TargetID   NodeID\n========   ======\n") is None
    assert parse_nfs_implementation("impl_id:\tname='it's',domain='a',date='0,0'") == ("it's", "a")
    assert parse_nfs_implementation("impl_id:\tname='',domain='',date='0,0'") is None
    assert parse_nfs_layout("nfsv4:\tbm0=0x1,acl=0x3,sessions,pnfs=LAYOUT_NFSV4_1_FILES,lease_time=90") == (
        "LAYOUT_NFSV4_1_FILES"
    )
    assert parse_pvfs2_strip("num_groups:2,strip_size:65536") == 65536
    assert parse_pvfs2_strip("strip_size:0") is None


PARSERS: list[Callable[[str], Any]] = [
    parse_mmlsfs_flags, parse_mmdiag_version, parse_beegfs_fields, parse_beegfs_targets,
    parse_nfs_implementation, parse_nfs_layout, parse_pvfs2_strip,
]  # fmt: skip
LINES = [
    line
    for each in storage_recordings.ALL.values()
    for text in (*each.tools.values(), *each.files.values())
    for line in text.splitlines()
]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.one_of(st.text(max_size=300), st.lists(st.sampled_from(LINES)).map("\n".join)))
def test_no_text_breaks_a_parser_of_a_tool(parse: Callable[[str], Any], text: str) -> None:
    parse(text)
