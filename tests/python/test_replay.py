"""Images of many formats become one array, in order, within the memory allowed."""

import bz2
import os
from pathlib import Path

import fabio
import h5py
import numpy
import pytest

from penstock.files.replay import Replay, image_files, replay_file
from penstock.model.errors import PenstockError, UsageError

SHAPE = (6, 7)


def image(number: int, kind: str = "int32") -> numpy.ndarray:
    return (numpy.arange(42).reshape(SHAPE) + 100 * number).astype(kind)


def write_cbf(folder: Path, count: int) -> None:
    for number in range(count):
        fabio.cbfimage.CbfImage(data=image(number)).write(str(folder / f"img_{number:03}.cbf"))


def read(paths: list[Path], memory: int = 1 << 20, frames: int = 100) -> tuple[Replay, numpy.ndarray]:
    told: list[tuple[int, int]] = []
    with replay_file(paths, memory, frames, lambda done, total: told.append((done, total))) as replay:
        array = numpy.load(replay.path)
        kept = replay.path
    assert not kept.exists(), "the temporary file stays behind"
    assert told == [(number + 1, replay.frames) for number in range(replay.frames)]
    return replay, array


def test_cbf_folder_in_the_order_of_names(tmp_path: Path) -> None:
    write_cbf(tmp_path, 3)
    replay, array = read([tmp_path])
    assert (replay.frames, replay.rows, replay.columns, replay.type) == (3, *SHAPE, "int32")
    assert numpy.array_equal(array, [image(0), image(1), image(2)])


def test_compressed_cbf(tmp_path: Path) -> None:
    write_cbf(tmp_path, 1)
    plain = tmp_path / "img_000.cbf"
    (tmp_path / "img_000.cbf.bz2").write_bytes(bz2.compress(plain.read_bytes()))
    plain.unlink()
    assert numpy.array_equal(read([tmp_path])[1], [image(0)])


def test_tiff_and_npy(tmp_path: Path) -> None:
    fabio.tifimage.TifImage(data=image(0, "uint16")).write(str(tmp_path / "a.tif"))
    numpy.save(tmp_path / "b.npy", numpy.stack([image(1, "uint16"), image(2, "uint16")]))
    assert numpy.array_equal(read([tmp_path])[1], [image(n, "uint16") for n in range(3)])


def test_hdf5_stack(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        data = entry.create_group("data")
        data.attrs["NX_class"] = "NXdata"
        data.attrs["signal"] = "data"
        data["data"] = numpy.stack([image(n, "uint16") for n in range(4)])
    replay, array = read([tmp_path / "s.h5"])
    assert replay.frames == 4
    assert numpy.array_equal(array, [image(n, "uint16") for n in range(4)])


def test_no_more_than_asked_and_than_fits(tmp_path: Path) -> None:
    write_cbf(tmp_path, 5)
    assert read([tmp_path], frames=2)[0].frames == 2
    assert read([tmp_path], memory=3 * 168 + 5)[0].frames == 3
    with pytest.raises(UsageError, match="--replay-memory"):
        read([tmp_path], memory=167)


def test_other_shapes_and_types_are_refused(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", image(0))
    numpy.save(tmp_path / "b.npy", image(0, "uint16"))
    with pytest.raises(PenstockError, match="image 1 is"):
        read([tmp_path])


def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no images"):
        image_files([tmp_path])
    with pytest.raises(UsageError, match="not there"):
        image_files([tmp_path / "absent"])
    os.mkfifo(tmp_path / "pipe.cbf")
    (tmp_path / "folder.cbf").mkdir()
    with pytest.raises(UsageError, match="no images"):
        image_files([tmp_path])
    with pytest.raises(UsageError, match="not there"):
        image_files([tmp_path / "pipe.cbf"])
    (tmp_path / "broken.cbf").write_bytes(b"###CBF: nothing useful")
    with pytest.raises(PenstockError, match=r"broken\.cbf"):
        read([tmp_path])
    (tmp_path / "broken.cbf").unlink()
    numpy.save(tmp_path / "flat.npy", numpy.arange(5))
    whole = (tmp_path / "flat.npy").read_bytes()
    (tmp_path / "flat.npy").write_bytes(whole.replace(b"(5,)", b"(5,("))
    with pytest.raises(PenstockError, match=r"flat\.npy"):
        read([tmp_path])
    (tmp_path / "flat.npy").write_bytes(whole)
    with pytest.raises(PenstockError, match=r"flat\.npy"):
        read([tmp_path])


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    numpy.save(tmp_path / "o.npy", numpy.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(PenstockError, match=r"o\.npy"):
        read([tmp_path])
