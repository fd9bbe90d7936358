"""A recovered file has what its recorder would have written at the end of the series, but for what
docs/reference/file.md says that it lacks."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from plain_client import ACK, CLOSED, END, IMAGE, Client, image_fields
from ports import free_ports

from penstock.model.configuration import Configuration
from penstock.model.events import Listening
from penstock.model.findings import is_clean
from penstock.model.layout.find import read_layout
from penstock.programs.check import check, check_plan
from penstock.programs.process import Program, wait_for
from penstock.programs.recover import recover

WAIT_S = 60.0
SHAPE = (16, 24)
TURNING = {
    "chi": {"increment": 0.0, "start": 7.0},
    "omega": {"increment": 0.1, "start": 10.0},
    "two_theta": {"increment": 0.5, "start": -3.0},
}
STANDING = {"omega": {"increment": 0.0, "start": 12.5}}
MOVED = """\
attributes: {default: run}
tree:
  run:
    attributes: {NX_class: NXentry, default: plot}
    tree:
      plot: {nxmx: /entry/data, tree: {data: {frames: 0}}}
      turning: {nxmx: /entry/sample/transformations}
      again: {link: /run/turning/omega}
"""
SCAN = {"axes": [{"name": "y", "points": 2, "start": 5, "step": 1}, {"name": "x", "points": 3}]}


@dataclass(frozen=True)
class Case:
    announced: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    layout: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    image: dict[str, Any] = field(default_factory=dict)
    frames: int = 10


CASES = {
    "open": Case(fields={"goniometer": TURNING}),
    "open, standing": Case(fields={"goniometer": STANDING, "frame_time": 0.25}),
    "open, moved": Case(fields={"goniometer": TURNING}, layout=MOVED),
    "open, many files": Case(
        fields={"goniometer": TURNING}, options={"files": {"layout": "split", "frames": 4}}
    ),
    "announced": Case(announced=12, fields={"frame_time": 0.25}),
    "dated": Case(
        image={
            "series_date": cbor2.CBORTag(0, "2026-11-20T10:11:12.5Z"),
            "start_time": [77, 100_000_000],
            "user_data": {"dose": 0.5},
        }
    ),
    "scan that goes on": Case(fields={"user_data": {"penstock": {"scan": SCAN}}}),
}


def record(folder: Path, case: Case) -> tuple[Path, Path]:
    """The file as a kill would leave it after the last frame (a copy), and as the end of the series does."""
    at = folder / "ended"
    at.mkdir()
    port = free_ports(1)
    chosen = {
        "folder": at,
        "sources": [{"kind": "tcp", "listen": f"127.0.0.1:{port}"}],
        "pool_bytes": "64MiB",
        "store": {"flush_interval_ms": 10, "segment_bytes": 1 << 16, "extent_bytes": 1 << 20},
        **case.options,
    }
    layout = None
    if case.layout:
        chosen["layout"] = str(folder / "own.yaml")
        (folder / "own.yaml").write_text(case.layout, encoding="utf-8")
        layout = read_layout(chosen["layout"], folder)
    pixels = numpy.random.default_rng(7).poisson(3, (case.frames, *SHAPE)).astype(numpy.uint16)
    plan = Configuration.model_validate(chosen).plan({}, layout=layout)
    with Program("penstock-recorder", plan) as recorder:
        assert wait_for(recorder.inbox, Listening, WAIT_S) is not None
        with Client(f"127.0.0.1:{port}") as client:
            client.start("s", case.announced, SHAPE, **case.fields)
            for number, image in enumerate(pixels):
                fields = image_fields(1, "s", number, list(SHAPE), image.nbytes) | case.image
                client.send(IMAGE, fields, image.tobytes())
            while client.until(ACK)["safe_below"] < case.frames:
                pass
            left = folder / "left"
            shutil.copytree(at, left)
            client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
            client.until(CLOSED)
    return left / "s.h5", at / "s.h5"


def content(path: Path) -> dict[str, Any]:
    """Every dataset and attribute, as text; links too, under each of their names."""
    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        array = numpy.asarray(value)
        found[name] = (array.dtype.kind, array.shape, array.tolist())

    def visit(group: h5py.Group) -> None:
        for name, value in group.attrs.items():
            add(f"{group.name}@{name}", value)
        for name in group:
            item = group[name]
            where = f"{group.name.rstrip('/')}/{name}"
            if isinstance(item, h5py.Group):
                visit(item)
                continue
            add(where, item[()])
            for key, value in item.attrs.items():
                add(f"{where}@{key}", value)

    with h5py.File(path) as file:
        visit(file)
    return found


def lacks(name: str, rebuilt: bool) -> bool:
    """Whether docs/reference/file.md says that a recovered file does not have it, or has another value."""
    states = "/entry/penstock/frame_state@"
    if name in (states + "duplicate", states + "late", states + "filled"):
        return True
    if name.startswith("/entry/penstock/ended_by") or (rebuilt and name == "/@penstock_rebuilt"):
        return True
    return name in ("/entry/penstock/timing/encoded", "/entry/penstock/timing/written")


def assert_same(recovered: Path, ended: Path, rebuilt: bool) -> None:
    one, other = content(recovered), content(ended)
    names = sorted(name for name in one.keys() | other.keys() if not lacks(name, rebuilt))
    different = {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}
    assert not different


@pytest.mark.parametrize("rebuilt", [False, True], ids=["completed", "rebuilt"])
@pytest.mark.parametrize("name", list(CASES))
def test_recovered_file_has_what_a_normal_end_writes(tmp_path: Path, name: str, rebuilt: bool) -> None:
    left, ended = record(tmp_path, CASES[name])
    report = recover(left, False, lambda _: None, rebuild=rebuilt)
    assert report.way == ("rebuild" if rebuilt else "repair")
    assert_same(left, ended, rebuilt)
    checked = check(check_plan(left, None), lambda _: None)
    assert is_clean(checked.findings), checked.findings
    assert ended_by(left) == "recover"


def ended_by(path: Path) -> str:
    with h5py.File(path) as file:
        return str(file["/entry/penstock/ended_by"].asstr()[()])


def test_recovered_file_keeps_the_reason_for_which_its_series_ended(tmp_path: Path) -> None:
    """Its recorder died while it closed the file: the counts come last."""
    _, ended = record(tmp_path, CASES["announced"])
    with h5py.File(ended, "r+") as file:
        del file["/entry/penstock/frame_state"].attrs["received"]
    assert recover(ended, False, lambda _: None).way == "repair"
    assert ended_by(ended) == "message"
