"""One flipped bit anywhere in a finished recording: `penstock check` finds it, or h5py reads what it read
before."""

import hashlib
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from detector_stream import multi_dimensional
from plain_client import Client
from rounds import Setup, recording, rounds, say, seed

from penstock.model.errors import PenstockError
from penstock.programs.check import check, check_plan

FRAMES, SHAPE = 24, (80, 90)
READ_S = 60

LAYOUTS: dict[str, dict[str, Any]] = {
    "log": {"codec": {"encoding": "bslz4"}},
    "chunks of frames": {"codec": {"encoding": "zstd"}, "chunk": {"frames": 4}},
    "slots": {"store": {"placement": "slots"}},
    "split": {"files": {"layout": "split", "frames": 10}},
}


def content(path: Path) -> str:
    """All that h5py reads of the file, as a checksum. In a process of its own: HDF5 may crash or hang."""
    imports = f"import sys; sys.path[:0] = {sys.path!r}; import test_flipped_bits"
    code = f"{imports}; test_flipped_bits.print_content({str(path)!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=READ_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "HDF5 hangs"
    return done.stdout if done.returncode == 0 else f"HDF5 fails: {done.stderr[-200:]}"


def print_content(path: str) -> None:
    def show(name: str, value: object) -> None:
        array = numpy.asarray(value)
        data = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
        print(name, array.dtype, array.shape, hash_of(data))

    def visit(group: h5py.Group) -> None:
        for name, value in sorted(group.attrs.items()):
            show(f"{group.name}@{name}", value)
        for key in sorted(group):
            item = group[key]
            if isinstance(item, h5py.Group):
                visit(item)
                continue
            show(item.name, item[()])
            for name, value in sorted(item.attrs.items()):
                show(f"{item.name}@{name}", value)

    with h5py.File(path) as file:
        visit(file)


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data).hexdigest()


def record(folder: Path, options: dict[str, Any]) -> Path:
    dice = numpy.random.default_rng(5)
    mask = multi_dimensional(dice.integers(0, 2, SHAPE, dtype="uint32"))
    flat = multi_dimensional(dice.random(SHAPE, dtype="float32"))
    user_data = {"proposal": "P1", "µ": [1]}
    fields: dict[str, Any] = {"pixel_mask": {"a": mask}, "flatfield": {"a": flat}, "user_data": user_data}
    store = options.get("store", {})
    others = {name: value for name, value in options.items() if name not in ("store", "codec")}
    encoding = options.get("codec", {}).get("encoding", "bslz4")
    setup = Setup(store=store, encoding=encoding, options=others)
    with recording(folder, setup) as recorder, Client(f"127.0.0.1:{recorder.ports[0]}") as client:
        client.start("s", FRAMES, SHAPE, **fields)
        for number in range(FRAMES):
            if number % 7 != 3:
                client.image("s", number, dice.poisson(2, SHAPE).astype("uint16"))
        client.end("s")
    return folder / "s.h5"


def pages_of(files: list[Path]) -> list[tuple[Path, int]]:
    """Those in which something lies: between slots there is nothing."""
    pages = []
    for file in files:
        data = numpy.fromfile(file, "uint8")
        data = data[: len(data) // 4096 * 4096].reshape(-1, 4096)
        pages += [(file, int(page)) for page in numpy.flatnonzero(data.any(axis=1))]
    return pages


def flip(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 1 << bit]))


def is_found(file: Path) -> bool:
    try:
        report = check(check_plan(file, None), lambda _: None)
    except PenstockError:
        return True
    return not report.ok


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_flipped_bit_is_found_or_harmless(tmp_path: Path, layout: str) -> None:
    file = record(tmp_path, LAYOUTS[layout])
    expected = content(file)
    assert "pixel_mask" in expected
    assert not is_found(file)
    dice = random.Random(f"{seed()} {layout}")
    pages = pages_of(sorted(tmp_path.glob("*.h5")))
    count = 5 * rounds(1)
    found = 0
    for number in range(count):
        target, page = dice.choice(pages)
        at, bit = page * 4096 + dice.randrange(4096), dice.randrange(8)
        flip(target, at, bit)
        if is_found(file):
            found += 1
        else:
            what = f"seed {seed()}, {layout}, flip {number}: bit {bit} of byte {at} of {target.name}"
            assert content(file) == expected, f"{what} changes what is read, and the check finds nothing"
        flip(target, at, bit)
    say(f"{layout}: {found} of {count} flipped bits found, the others harmless")
