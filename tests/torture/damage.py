"""Files of each layout, finished and as a killed recorder leaves them, and damage to what is not frames."""

import contextlib
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy
import psutil
from detector_stream import least_message, start_message
from plain_client import ACK, CLOSED, END, Client
from ports import free_ports
from rounds import WAIT_S

from penstock.files import aside
from penstock.files.export.export import write_export
from penstock.files.export.plan import plan_export
from penstock.files.inspect import inspect_file
from penstock.files.join import JointFile
from penstock.files.values.attach import How, attach
from penstock.model.configuration import Configuration
from penstock.model.errors import PenstockError
from penstock.model.events import Listening
from penstock.programs.check import check, check_plan
from penstock.programs.process import Program, wait_for
from penstock.programs.recover import recover
from penstock.report.tables import conclusion, findings_text, info_page, recovery_lines, report_line

ROWS, COLUMNS, FRAMES = 16, 24, 6
GRID = {"axes": [{"name": "y", "points": 2}, {"name": "x", "points": 3}], "order": "snake"}
NEAR = 32  # bytes around those that are not 0
SILENCE_S = 10.0  # of HDF5, which loops without an end on some damage: a child is ended then

LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    # Options of the recorder, of the start message, and elements.
    "plain": ({}, {}, 1),
    "blocks": ({"chunk": {"frames": 2}}, {}, 1),
    "slots": ({"store": {"placement": "slots"}, "codec": {"encoding": "none"}}, {}, 1),
    "split": ({"files": {"layout": "split", "frames": 2}}, {}, 1),
    "elements": ({}, {"grid": [1, 2]}, 2),
    "scan": ({}, {"scan": GRID}, 1),
}


@dataclass(frozen=True)
class Specimen:
    """A folder with a file and those that belong to it; damage goes into one of `parts`."""

    name: str
    folder: Path
    file: str
    parts: tuple[str, ...]


def make_specimens(folder: Path, layouts: tuple[str, ...] = tuple(LAYOUTS)) -> list[Specimen]:
    made = []
    for name in layouts:
        made += _record(folder / name, name)
    finished = next(each for each in made if each.name == "plain, finished")
    return made + _made_of(folder, finished)


def make_pair(folder: Path, layout: str) -> tuple[Specimen, Specimen]:
    """A series of this layout as a killed recorder leaves it, and finished."""
    unfinished, finished = _record(folder, layout)
    return unfinished, finished


def make_unfinished(folder: Path, layout: str) -> Path:
    """The file of a series of this layout, as a killed recorder leaves it."""
    unfinished = _record(folder, layout)[0]
    return unfinished.folder / unfinished.file


def _record(folder: Path, name: str) -> list[Specimen]:
    """A copy that is made while the recorder has the file open is what a kill would leave."""
    options, told, elements = LAYOUTS[name]
    folder.mkdir(parents=True)
    port = free_ports(1)
    chosen = {
        "folder": folder,
        "sources": [{"kind": "tcp", "listen": f"127.0.0.1:{port}"}],
        "pool_bytes": "64MiB",
        "end_timeout_s": 1,
        **options,
    }
    chosen["store"] = {
        "flush_interval_ms": 10,
        "segment_bytes": 1 << 16,
        "extent_bytes": 1 << 20,
        **options.get("store", {}),
    }
    plan = Configuration.model_validate(chosen).plan({})
    shape = (ROWS, COLUMNS // elements)
    pixels = numpy.random.default_rng(7).poisson(3, (FRAMES, *shape)).astype(numpy.uint16)
    with Program("penstock-recorder", plan) as recorder, contextlib.ExitStack() as stack:
        assert wait_for(recorder.inbox, Listening, WAIT_S) is not None
        clients = [stack.enter_context(Client(f"127.0.0.1:{port}")) for _ in range(elements)]
        for number, client in enumerate(clients):
            penstock = {"scan": told["scan"]} if "scan" in told else {}
            if elements > 1:
                penstock = {"element": {"grid": told["grid"], "number": number}}
            client.start("s", FRAMES, shape, **_told(), user_data={"penstock": penstock})
        for client in clients:
            for number in range(FRAMES - 1):
                client.image("s", number, pixels[number])
        for client in clients:
            while client.until(ACK)["safe_below"] < FRAMES - 2:
                pass
        unfinished = folder.with_name(f"{name}-unfinished")
        with _stopped(recorder.pid):
            shutil.copytree(folder, unfinished)
        for client in clients:
            client.image("s", FRAMES - 1, pixels[FRAMES - 1])
        for client in clients:
            client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        for client in clients:
            client.until(CLOSED)
    return [
        _specimen(f"{name}, unfinished", unfinished, "s.h5"),
        _specimen(f"{name}, finished", folder, "s.h5"),
    ]


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """The process and its children stand still, as those of a killed recorder do."""
    family = [psutil.Process(pid)]
    try:
        for each in family:  # which grows
            each.suspend()
            deadline = time.monotonic() + WAIT_S
            while not _all_threads_stand(each.pid):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            family += each.children()
        yield
    finally:
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()


def _all_threads_stand(pid: int) -> bool:
    texts = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(text.rpartition(")")[2].split()[0] in "TZX" for text in texts)


def _told() -> dict[str, Any]:
    """What a detector tells beside the size of its frames: an export needs it."""
    message = start_message("uint16", FRAMES)
    own = {*least_message("uint16", FRAMES), "pixel_mask"}
    return {name: value for name, value in message.items() if name not in own}


def _specimen(name: str, folder: Path, file: str) -> Specimen:
    return Specimen(
        name, folder, file, tuple(sorted(each.name for each in folder.iterdir() if each.suffix == ".h5"))
    )


def _made_of(folder: Path, finished: Specimen) -> list[Specimen]:
    """What other commands make of a series: damage goes into the file that they made."""
    made = []
    for command in ("export", "join", "attach"):
        place = folder / command
        shutil.copytree(finished.folder, place)
        series = place / "s.h5"
        if command == "export":
            write_export(plan_export(series, "eiger", copies=True), False, lambda _n, _of: None)
            file = "s_master.h5"
        elif command == "join":
            file = "joint.h5"
            JointFile.open(place / file, add=False).add([series])
        else:
            file = Path(attach(series, [], None, How(), dry_run=False).output).name
        made.append(Specimen(command, place, file, (file,)))
    return made


def places_of_structure(path: Path) -> list[int]:
    """The offsets of all bytes that are not pixels, without long runs of zeros."""
    bytes_there = numpy.frombuffer(path.read_bytes(), numpy.uint8)
    wanted = numpy.zeros(len(bytes_there) + NEAR, bool)
    for at in numpy.flatnonzero(bytes_there):
        wanted[max(at - NEAR, 0) : at + NEAR] = True
    with contextlib.suppress(OSError, KeyError), aside.reading_here(), _opened(path) as file:
        data = file["/entry/data/data"]
        if data.chunks and not data.is_virtual:

            def leave_out(chunk: h5py.h5d.StoreInfo) -> None:
                wanted[chunk.byte_offset : chunk.byte_offset + chunk.size] = False

            data.id.chunk_iter(leave_out)
    return [int(at) for at in numpy.flatnonzero(wanted[: len(bytes_there)])]


def _opened(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r", locking=False)
    except OSError:
        return h5py.File(path, "r", swmr=True, locking=False)


def damage(path: Path, places: list[int], dice: random.Random) -> str:
    """Damages the file; says how. Most often one bit."""
    content = bytearray(path.read_bytes())
    at = dice.choice(places)
    kind = dice.choice(["bit"] * 12 + ["byte", "zeros", "noise", "cut"])
    if kind == "bit":
        bit = dice.randrange(8)
        content[at] ^= 1 << bit
        said = f"bit {bit} of byte {at}"
    elif kind == "byte":
        content[at] = dice.randrange(256)
        said = f"byte {at} is {content[at]}"
    elif kind == "cut":
        del content[at:]
        said = f"cut at {at}"
    else:
        size = min(dice.choice([8, 64, 512, 4096]), len(content) - at)
        content[at : at + size] = bytes(size) if kind == "zeros" else dice.randbytes(size)
        said = f"{size} bytes of {kind} at {at}"
    path.write_bytes(content)
    return said


@contextlib.contextmanager
def damaged(
    specimen: Specimen, folder: Path, places: dict[Path, list[int]], dice: random.Random
) -> Iterator[tuple[Path, str]]:
    """A damaged copy, and what was done to it."""
    copy = folder / "damaged"
    shutil.copytree(specimen.folder, copy)
    try:
        part = dice.choice(specimen.parts)
        original = specimen.folder / part
        if original not in places:
            places[original] = places_of_structure(original)
        said = damage(copy / part, places[original], dice)
        yield copy / specimen.file, f"{specimen.name}: {part}: {said}"
    finally:
        shutil.rmtree(copy)


def try_info(path: Path) -> str:
    """An AssertionError unless it ends with a page or with an error for the user. Returns which."""
    try:
        info = inspect_file(path)
    except PenstockError as error:
        _expect_words(error)
        if "reported nothing" in error.message:  # HDF5 has endless loops of its own
            return "deadline"
        return "crashed" if "crashed" in error.message else "error"
    info.model_dump_json()
    info_page(info)
    return "page"


def try_check(path: Path) -> str:
    plan = check_plan(path, None).model_copy(update={"index_timeout_s": SILENCE_S})
    report = check(plan, lambda _: None)
    assert report.complete
    findings_text(report.findings)
    assert report_line(report)
    return str(conclusion(report).plain.split(":")[0])


def try_recover(path: Path) -> str:
    try:
        report = recover(path, False, lambda _: None)
    except PenstockError as error:
        _expect_words(error)
        return "refused"
    assert recovery_lines(report)
    return report.way


def _expect_words(error: PenstockError) -> None:
    """An error says what is wrong; it is no crash of ours."""
    assert error.message
    assert "exit code" not in error.message, error.message
    assert "killed by" not in error.message, error.message
    for note in getattr(error, "__notes__", []):
        # What h5py raises on a damaged file; others are slips of Penstock.
        last = note.strip().splitlines()[-1]
        assert last.startswith(("OSError", "RuntimeError", "KeyError", "ValueError")), note


def try_all(path: Path) -> str:

    return f"info {try_info(path)}, check {try_check(path)}, recover {try_recover(path)}"
