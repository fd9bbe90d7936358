"""Images of many formats become one array, in order, within the memory allowed."""

import bz2
import contextlib
import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fabio
import h5py
import numpy
import pytest
import tifffile
from typer.testing import CliRunner, Result

from penstock.cli import application
from penstock.files.images.replay import Replay, image_files, replay_file
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
    with pytest.raises(UsageError, match="does not exist"):
        image_files([tmp_path / "absent"])
    os.mkfifo(tmp_path / "pipe.cbf")
    (tmp_path / "folder.cbf").mkdir()
    with pytest.raises(UsageError, match="no images"):
        image_files([tmp_path])
    with pytest.raises(UsageError, match="does not exist"):
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


FRAMES = numpy.stack([image(number, "uint16") for number in range(4)])


def write_eiger(folder: Path) -> Path:
    """A master with its data files, as DECTRIS' file writer makes them."""
    for number in (1, 2):
        with h5py.File(folder / f"run_data_{number:06}.h5", "w") as file:
            file["/entry/data/data"] = FRAMES[2 * number - 2 : 2 * number]
    master = folder / "run_master.h5"
    with h5py.File(master, "w") as file:
        for number in (1, 2):
            link = h5py.ExternalLink(f"run_data_{number:06}.h5", "/entry/data/data")
            file[f"/entry/data/data_{number:06}"] = link
        file["/entry/instrument/detector/detectorSpecific/pixel_mask"] = numpy.zeros(SHAPE, "uint32")
    return master


def test_an_eiger_master_is_read_through_its_links(tmp_path: Path) -> None:
    assert numpy.array_equal(read([write_eiger(tmp_path)])[1], FRAMES)


def test_a_folder_with_a_master_and_its_data_files_has_each_image_once(tmp_path: Path) -> None:
    write_eiger(tmp_path)
    assert numpy.array_equal(read([tmp_path])[1], FRAMES)


def test_a_data_file_that_is_not_beside_its_master_is_named(tmp_path: Path) -> None:
    master = write_eiger(tmp_path)
    (tmp_path / "run_data_000002.h5").unlink()
    with pytest.raises(
        PenstockError, match=r"data_000002 of .*run_master\.h5 is in run_data_000002\.h5"
    ) as missing:
        read([master])
    assert "does not exist" in missing.value.message
    with h5py.File(tmp_path / "run_data_000002.h5", "w"):
        pass
    with pytest.raises(PenstockError, match=r"leads to /entry/data/data of .*run_data_000002\.h5"):
        read([master])


def test_a_source_of_a_virtual_dataset_that_is_not_there_is_named(tmp_path: Path) -> None:
    """HDF5 would show the fill value."""
    layout = h5py.VirtualLayout(shape=FRAMES.shape, dtype="uint16")
    layout[:] = h5py.VirtualSource("gone.h5", "/entry/data/data", shape=FRAMES.shape)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("/entry/data/data", layout)
    with pytest.raises(
        PenstockError, match=r"/entry/data/data of .*v\.h5 is in gone\.h5, which does not exist"
    ):
        read([tmp_path / "v.h5"])


PLACES = {
    "areadetector": {
        "/entry/instrument/detector/data": FRAMES,
        "/entry/instrument/NDAttributes/x": numpy.arange(4),
    },
    "first_eigers": {"/entry/data_000001": FRAMES[:3], "/entry/data_000002": FRAMES[3:]},
    "lima": {"/entry_0000/measurement/data": FRAMES[:1], "/entry_0001/measurement/data": FRAMES[1:]},
    "lima_instrument": {"/entry_0000/instrument/eiger1/data": FRAMES},
    "bliss": {
        "/1.1/measurement/mca": numpy.zeros((4, 2048), "uint32"),
        "/1.1/measurement/diode": numpy.zeros(4),
        "/1.1/measurement/eiger": FRAMES[:3],
        "/2.1/measurement/eiger": FRAMES[3:],
    },
    "plain_stack": {
        "/scan/7/images": FRAMES,
        "/scan/mask": numpy.zeros(SHAPE, "uint8"),
        "/scan/x": numpy.arange(9),
    },
    "scan": {"/entry/data/data": FRAMES.reshape(2, 2, *SHAPE)},
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_hdf5_images_are_found_where_their_programs_put_them(
    tmp_path: Path, places: dict[str, numpy.ndarray]
) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        for place, values in places.items():
            file[place] = values
    assert numpy.array_equal(read([tmp_path / "s.h5"])[1], FRAMES)


def test_a_single_image_in_an_hdf5_file_is_one_image(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["picture"] = FRAMES[0]
    assert numpy.array_equal(read([tmp_path / "s.h5"])[1], FRAMES[:1])


def test_chunks_of_several_images_are_read_in_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("/entry/data/data", data=FRAMES, chunks=(3, 4, 4), compression="gzip")
    assert numpy.array_equal(read([tmp_path / "s.h5"])[1], FRAMES)


def test_of_several_datasets_one_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file["/a/images"] = FRAMES
        file["/b/images"] = FRAMES + 1
    with pytest.raises(
        PenstockError, match="2 datasets that may hold the images: /a/images, /b/images"
    ) as several:
        read([path])
    assert f"{path}::/a/images" in several.value.remedy
    assert numpy.array_equal(read([Path(f"{path}::/b/images")])[1], FRAMES + 1)
    with pytest.raises(UsageError, match="no images at /c"):
        read([Path(f"{path}::/c")])


def test_an_hdf5_file_without_images_says_where_they_were_looked_for(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["/entry/data/x"] = numpy.arange(5)
    with pytest.raises(PenstockError, match="no images in a known location") as none:
        read([tmp_path / "s.h5"])
    for place in (
        "/entry/data/data_000001",
        "/entry/instrument/detector/data",
        "/entry_0000/measurement/data",
    ):
        assert place in none.value.remedy


def test_numbers_of_any_byte_order_become_little_endian(tmp_path: Path) -> None:
    numpy.save(tmp_path / "b.npy", FRAMES.astype(">u2"))
    numpy.save(tmp_path / "f.npy", numpy.asfortranarray(FRAMES))
    tifffile.imwrite(tmp_path / "t.tif", FRAMES[0], byteorder=">")
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["/entry/data/data"] = FRAMES.astype(">u2")
    for name in ("b.npy", "f.npy", "s.h5"):
        replay, array = read([tmp_path / name])
        assert (replay.type, array.dtype.str, numpy.array_equal(array, FRAMES)) == ("uint16", "<u2", True), (
            name
        )
    assert numpy.array_equal(read([tmp_path / "t.tif"])[1], FRAMES[:1])


@pytest.mark.parametrize("kind", ["bool", "complex64", "float16"])
def test_numbers_that_cannot_be_sent_are_refused_by_their_type(tmp_path: Path, kind: str) -> None:
    numpy.save(tmp_path / "a.npy", FRAMES.astype(kind))
    with pytest.raises(PenstockError, match=rf"a\.npy is of {kind}"):
        read([tmp_path / "a.npy"])


TIFF: dict[str, dict[str, Any]] = {
    "bigtiff": {"bigtiff": True},
    "stack": {"metadata": None},
    "shaped": {},
    "imagej": {"imagej": True},
    "deflate": {"compression": "zlib", "bigtiff": True},
    "tiles": {"tile": (16, 16), "metadata": None},
}


@pytest.mark.parametrize("options", TIFF.values(), ids=TIFF)
def test_a_tiff_stack_gives_all_its_images(tmp_path: Path, options: dict[str, Any]) -> None:
    tifffile.imwrite(tmp_path / "s.tif", FRAMES, photometric="minisblack", **options)
    assert numpy.array_equal(read([tmp_path / "s.tif"])[1], FRAMES)
    packed = tmp_path / "s.tif.gz"
    packed.write_bytes(gzip.compress((tmp_path / "s.tif").read_bytes()))
    assert numpy.array_equal(read([packed])[1], FRAMES)


def test_a_cbf_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    write_cbf(tmp_path, 1)
    path = tmp_path / "img_000.cbf"
    content = bytearray(path.read_bytes())
    content[content.index(b"\x0c\x1a\x04\xd5") + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        PenstockError, match=r"image 0 of .*img_000\.cbf is corrupt: its checksum or length is wrong"
    ):
        read([path])


def test_a_tiff_with_colours_is_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "c.tif", numpy.zeros((6, 7, 3), "uint8"), photometric="rgb")
    with pytest.raises(PenstockError, match=r"c\.tif has images of the shape \(6, 7, 3\)"):
        read([tmp_path / "c.tif"])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3 :] = os.urandom(len(content) - len(content) // 3)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, scramble])
def test_what_libraries_say_of_damaged_files_does_not_come_through(
    tmp_path: Path, damage: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """The error names the file in the program's own words, and nothing else is printed."""
    big = numpy.random.default_rng(1).integers(0, 9, (3, 64, 64)).astype("uint16")
    fabio.cbfimage.CbfImage(data=big[0].astype("int32")).write(str(tmp_path / "a.cbf"))
    fabio.edfimage.EdfImage(data=big[0]).write(str(tmp_path / "a.edf"))
    tifffile.imwrite(tmp_path / "a.tif", big, compression="zlib", photometric="minisblack")
    numpy.save(tmp_path / "a.npy", big)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("/entry/data/data", data=big, chunks=(1, 64, 64), compression="gzip")
    (tmp_path / "a.cbf.bz2").write_bytes(bz2.compress((tmp_path / "a.cbf").read_bytes()))
    capfd.readouterr()
    raw = re.compile(r"Error|Traceback|h5py|fabio|errno|0x|Unable to|object at|Can't")
    for path in sorted(tmp_path.iterdir()):
        damage(path)
        try:
            read([path])
        except PenstockError as error:
            assert str(path) in error.message, error.message
            assert not raw.search(error.message), error.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.cbf", "a.tif", "a.npy", "a.h5"])
def test_a_wrong_byte_anywhere_leads_to_images_or_to_an_error_of_ours(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    match path.suffix:
        case ".cbf":
            fabio.cbfimage.CbfImage(data=image(0)).write(str(path))
        case ".tif":
            tifffile.imwrite(path, FRAMES, compression="zlib", photometric="minisblack")
        case ".npy":
            numpy.save(path, FRAMES)
        case _:
            with h5py.File(path, "w") as file:
                file.create_dataset("/scan/frames", data=FRAMES, chunks=(1, *SHAPE), compression="gzip")
    content = path.read_bytes()
    random = numpy.random.default_rng(7)
    for at in random.integers(0, min(len(content), 1500), 60):
        path.write_bytes(content[:at] + random.bytes(1) + content[at + 1 :])
        with contextlib.suppress(PenstockError), replay_file([path], 1 << 20, 9, lambda _n, _of: None):
            pass


def simulate(*arguments: object) -> Result:
    command = ["simulate", *map(str, arguments), "--dry-run", "--json"]
    return CliRunner().invoke(application, command, catch_exceptions=False)


def test_a_custom_detector_takes_its_shape_and_type_from_the_images(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", FRAMES.astype("int32"))
    told = simulate("custom", "--replay", tmp_path)
    assert told.exit_code == 0, told.stderr
    detector = json.loads(told.stdout)["detector"]
    assert (detector["rows"], detector["columns"], detector["type"]) == (*SHAPE, "int32")
    without = simulate("custom")
    assert (without.exit_code, "requires --rows and --columns" in without.stderr) == (2, True)


def test_bszstd_over_zeromq_says_which_clients_do_not_read_it() -> None:
    size = ("custom", "--rows", 8, "--columns", 8, "--encoding")
    zmq, tcp = "zmq://127.0.0.1:0", "tcp://127.0.0.1:9900"
    said = [
        simulate(*size, encoding, "--to", to).stderr
        for encoding, to in (("bszstd", zmq), ("bslz4", zmq), ("bszstd", tcp))
    ]
    assert ["DECTRIS' clients" in text for text in said] == [True, False, False], said
