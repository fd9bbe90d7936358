"""`penstock export`: masters that other readers open, and what neither they nor it would touch."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fabio
import h5py
import hdf5plugin  # noqa: F401
import nexus_series as sent
import numpy
import pytest
import silx.io.nxdata.parse
import silx.io.utils
from area_detector_handlers.eiger import EigerHandler
from conftest import Record
from export_readers import (
    DETECTOR,
    as_neggia_reads,
    by_hdf5_1_10,
    check_readers,
    layout_message,
    parse_nxmx,
)
from nexusformat.nexus import nxload
from typer.testing import CliRunner, Result

from penstock.cli import application
from penstock.client import Series
from penstock.files.export.export import write_export
from penstock.files.export.plan import Export, plan_export
from penstock.model.errors import PenstockError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
find_default: Any = silx.io.nxdata.parse.get_default
open_silx: Any = silx.io.utils.open
LAYOUTS = {"one": (), "split": ("--frames-per-file", "3"), "per_writer": ("--files", "per_writer")}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same series in each layout, and in another codec. Tests leave these files as they are."""
    kinds = {**LAYOUTS, "bszstd": ("--codec", "bszstd")}
    return {kind: sent.record_series(tmp_path_factory.mktemp(kind), *kinds[kind]) for kind in kinds}


@pytest.fixture
def series(recorded: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a recorded series in a folder of its own."""

    def copy(kind: str = "one") -> Path:
        folder = shutil.copytree(recorded[kind].parent, tmp_path / kind)
        return folder / "s.h5"

    return copy


def export(path: Path, reader: Any = "xds", overwrite: bool = False, **options: Any) -> Export:
    plan = plan_export(path, reader, **options)
    write_export(plan, overwrite, lambda done, of: None)
    return plan


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(application, ["export", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_master_for_xds_shows_the_frames_of_each_layout(series: Callable[[str], Path], layout: str) -> None:
    path = series(layout)
    done = export(path)
    master = path.with_name("s_master.h5")
    assert done.writes == [master]
    assert [part.frames for part in done.parts] == ([3, 3, 1] if layout == "split" else [7])
    check_readers(master)
    with open_silx(str(master)) as file:
        shown = find_default(file)
        assert (shown.is_valid, shown.signal_name) == (True, "images")
        assert numpy.array_equal(shown.signal[...], sent.frames_of(0))
    root = nxload(str(master))
    with root.nxfile:
        assert numpy.array_equal(root.entry.data.images[5], sent.frames_of(0)[5])
    with h5py.File(path.parent.rename(path.parent.with_name("elsewhere")) / "s_master.h5") as file:
        assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0))
        assert numpy.array_equal(file["/entry/data/data_000001"][0], sent.frames_of(0)[0])


def test_a_master_in_another_folder_leads_back(series: Callable[[str], Path], tmp_path: Path) -> None:
    there = tmp_path / "xds" / "run_master.h5"
    there.parent.mkdir()
    done = export(series("split"), output=there)
    assert [part.file for part in done.parts] == [f"../split/s_member_{n}.h5" for n in range(3)]
    check_readers(there)


@pytest.mark.parametrize(("reader", "layout"), [("xds", "one"), ("xds", "split"), ("eiger", "one")])
def test_the_hdf5_of_durin_reads_chunks_through_the_links(
    series: Callable[[str], Path], reader: str, layout: str
) -> None:
    done = export(series(layout), reader)
    for part in done.parts:
        frames = by_hdf5_1_10(Path(done.master), f"/entry/data/{part.name}", part.frames)
        wanted = sent.frames_of(0)[part.first_frame : part.first_frame + part.frames]
        assert numpy.array_equal(numpy.stack(frames), wanted)


def test_a_recorded_index_has_four_frames_in_its_first_block(recorded: dict[str, Path]) -> None:
    """More neggia does not follow (1.2.0, at source); so the note of an export, and --copy."""
    content = recorded["one"].read_bytes()
    header = content.index(b"EAHD")
    assert content[header + 8] == 4


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["xds", "eiger"])
def test_pynxtools_misses_no_required_field(series: Callable[[str], Path], reader: str) -> None:
    done = export(series("one"), reader)
    command = [str(Path(sys.executable).with_name("pynx")), "validate", done.master]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    text = said.stdout + said.stderr
    assert "NXmx" in text
    assert "required" not in text.lower(), text


@pytest.mark.parametrize("kind", ["one", "split", "bszstd"])
def test_copied_frames_have_the_index_that_neggia_knows(series: Callable[[str], Path], kind: str) -> None:
    path = series(kind)
    done = export(path, copies=True, frames_a_file=3)
    files = [path.with_name(f"s_data_00000{n}.h5") for n in (1, 2, 3)]
    assert done.writes == [*files, path.with_name("s_master.h5")]
    check_readers(done.writes[-1])
    for file in files:
        assert layout_message(file, "/entry/data/data") == (3, 2)
    with h5py.File(files[1]) as copy, h5py.File(path) as source:
        data = copy["/entry/data/data"]
        assert (data.attrs["image_nr_low"], data.attrs["image_nr_high"]) == (4, 6)
        if kind == "one":
            stored = source["/entry/data/data"].id.read_direct_chunk((4, 0, 0))
            assert data.id.read_direct_chunk((1, 0, 0)) == stored, "as it was recorded"


def test_a_missing_frame_is_told_of_and_copied_as_the_fill_value(series: Callable[[str], Path]) -> None:
    path = series("one")
    with h5py.File(path, "r+") as file:
        del file["/entry/instrument/detector/data"]
        lost = file["/entry/data/data"]
        lost.resize(sent.FRAMES - 1, axis=0)
        lost.resize(sent.FRAMES, axis=0)
        file["/entry/penstock/frame_state"][-1] = 0
    assert (linked := plan_export(path, "xds")).missing == 1
    assert any("1 frame is missing" in note for note in linked.notes)
    copied = export(path, copies=True, stretch=(None, sent.FRAMES))
    with h5py.File(copied.writes[0]) as file:
        assert (file["/entry/data/data"][-1] == 65535).all()
        assert numpy.array_equal(file["/entry/data/data"][:-1], sent.frames_of(0)[:-1])


def test_a_copy_of_an_aborted_series_ends_with_the_last_received_frame(tmp_path: Path) -> None:
    path = sent.record_series(tmp_path, missing=3)
    told = invoke(path, "--for", "xds", "--copy")
    assert (told.exit_code, f"frames 0 to 3 of {sent.FRAMES}" in " ".join(told.stderr.split())) == (0, True)
    with h5py.File(path.with_name("s_master.h5")) as file:
        assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0)[:4])
        assert file[f"{DETECTOR}/detectorSpecific/nimages"][()] == 4
        assert file["/entry/sample/transformations/omega"].shape == (4,), "DIALS counts images by it"


def test_a_copy_may_have_a_part_of_the_frames(series: Callable[[str], Path]) -> None:
    path = series("one")
    done = export(path, "eiger", copies=True, frames_a_file=2, single=True, stretch=(2, 5))
    assert [part.frames for part in done.parts] == [2, 1]
    with h5py.File(done.master) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], sent.frames_of(0)[2:5])
        omega = [sent.OMEGA_START + number * sent.OMEGA_STEP for number in (2, 3, 4)]
        assert file["/entry/sample/transformations/omega"][...].tolist() == omega
        assert file["/entry/sample/transformations/chi"].shape in ((1,), ())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--frames", "0:2"), "links to all frames"),
        (("--copy", "--frames", "3"), "is not FIRST:END"),
        (("--copy", "--frames", "2:2"), "is not a part of the 7 frames"),
        (("--copy", "--frames", "0:8"), "is not a part of the 7 frames"),
    ],
)
def test_impossible_frames_are_rejected(
    recorded: dict[str, Path], options: tuple[str, ...], why: str
) -> None:
    told = invoke(recorded["one"], "--for", "xds", *options)
    assert (told.exit_code, why in " ".join(told.stderr.split())) == (2, True), told.stderr


@pytest.mark.parametrize("reader", ["xds", "eiger"])
def test_both_masters_have_the_names_of_eiger_files(series: Callable[[str], Path], reader: str) -> None:
    path = series("one")
    with h5py.File(export(path, reader).master) as file:
        detector = file[DETECTOR]
        assert detector["detector_distance"][()] == detector["distance"][()] == pytest.approx(sent.DISTANCE_M)
        assert detector["detector_distance"].attrs["units"] == "m"
        assert detector["detector_number"][()] == b"E-01-0042"
        assert detector["detectorSpecific/photon_energy"][()] == sent.ENERGY_EV
        assert detector["detectorSpecific/photon_energy"].attrs["units"] == "eV"
        assert "eiger_fw_version" not in detector["detectorSpecific"], "DIALS refuses all but EIGER's sizes"


@pytest.mark.parametrize("reader", ["xds", "eiger"])
def test_both_masters_tell_dials_which_values_are_counts(series: Callable[[str], Path], reader: str) -> None:
    """The two highest values of bit_depth_readout bits are flags, as are values below underload_value."""
    path = series("one")
    with h5py.File(path, "r+") as file:
        file[f"{DETECTOR}/bit_depth_readout"][...] = 12  # of the electronics: 4094 and 4095 are counts
        if "underload_value" in file[DETECTOR]:
            del file[f"{DETECTOR}/underload_value"]
    with h5py.File(export(path, reader).master) as file:
        detector = parse_nxmx(file).entries[0].instruments[0].detectors[0]
        assert (detector.bit_depth_readout, detector.underload_value) == (16, 0)


@pytest.mark.parametrize("reader", ["xds", "eiger"])
@pytest.mark.parametrize("files", [1, 3])
def test_bluesky_reads_the_frames_and_its_metadata(
    series: Callable[[str], Path], reader: str, files: int
) -> None:
    """Its EigerHandler counts files by names that begin with "data", and takes frames from data_000001, …"""
    path = series("one")
    done = export(path, reader, output=path.with_name("s_5_master.h5"), copies=True, frames_a_file=8 - files)
    assert len(done.parts) == (1 if files == 1 else 2)
    handler = EigerHandler(path.with_name("s"), images_per_file=1)
    try:
        assert numpy.array_equal(handler(5).compute(), sent.frames_of(0))
        assert handler._md["detector_distance"] == pytest.approx(sent.DISTANCE_M)
        assert numpy.array_equal(handler._md["pixel_mask"], sent.mask())
        assert handler._md["count_time"] == sent.COUNT_TIME_S
    finally:
        handler.close()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("copies", [False, True])
def test_a_master_with_a_single_dataset_has_each_frame_once(
    series: Callable[[str], Path], layout: str, copies: bool
) -> None:
    path = series(layout)
    done = export(path, "eiger", single=True, copies=copies, frames_a_file=4)
    frames = sent.frames_of(0)
    with h5py.File(done.master) as file:
        assert list(file["/entry/data"]) == ["data"]
        assert numpy.array_equal(file["/entry/data/data"][...], frames)
        assert file[f"{DETECTOR}/detectorSpecific/nimages"][()] == sent.FRAMES
    with fabio.open(done.master) as images:
        assert images.nframes == sent.FRAMES
        assert all(numpy.array_equal(images.get_frame(n).data, frame) for n, frame in enumerate(frames))
    with open_silx(done.master) as file:
        shown = find_default(file)
        assert (shown.is_valid, shown.signal_name) == (True, "data")
    root = nxload(done.master)
    with root.nxfile:
        assert numpy.array_equal(root.entry.data.data[5], frames[5])


# A name of letters outside ASCII, and one whose bytes are not UTF-8 (Latin-1), as older programs write them.
@pytest.mark.parametrize("name", ["Me\u00dfreihe 測定", os.fsdecode(b"Me\xdfreihe")])
@pytest.mark.parametrize("reader", ["xds", "eiger"])
@pytest.mark.parametrize("copies", [False, True])
def test_readers_find_the_frames_of_a_file_with_any_name(
    series: Callable[[str], Path], name: str, reader: str, copies: bool
) -> None:
    path = series("one")
    path = path.rename(path.with_name(f"{name}.h5"))
    arguments = [path, "--for", reader, *(["--copy", "--frames-per-file", 4] if copies else [])]
    told = invoke(*arguments)
    assert told.exit_code == 0, told.stderr
    master = path.with_name(f"{name}_master.h5")
    assert numpy.array_equal(numpy.concatenate(list(linked(master))), sent.frames_of(0))
    if reader == "xds":
        check_readers(master)
    assert "reihe" in " ".join(invoke(master, "--for", reader).stderr.split()), "names the recorded file"


def linked(master: Path) -> Iterator[numpy.ndarray]:
    with h5py.File(master) as file:
        for name in sorted(file["/entry/data"]):
            if name.startswith("data_"):
                yield file["/entry/data"][name][...]


@pytest.mark.parametrize("layout", ["split", "per_writer"])
def test_source_files_may_have_any_name(tmp_path: Path, layout: str) -> None:
    name = "Me\u00dfreihe {series_unique_id}.h5"
    recorded = sent.record_series(tmp_path, "--file-name", name, *LAYOUTS[layout])
    path = recorded.with_name(name.format(series_unique_id=recorded.stem))
    done = export(path, "eiger", single=True)
    with h5py.File(done.master) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], sent.frames_of(0))


def test_a_single_dataset_is_not_for_xds(series: Callable[[str], Path]) -> None:
    told = invoke(series("one"), "--for", "xds", "--single-dataset")
    assert (told.exit_code, "--for eiger" in " ".join(told.stderr.split())) == (2, True), told.stderr


def test_thresholds_that_are_left_out_are_named(series: Callable[[str], Path]) -> None:
    told = invoke(series("one"), "--for", "eiger", "--dry-run")
    assert "threshold_2: left out" in " ".join(told.stderr.split())


def test_frames_name_the_value_of_pixels_without_data(series: Callable[[str], Path]) -> None:
    path = series("one")
    xds = export(path, "xds", copies=True, overwrite=True)
    for file_path, name in ((path, "data"), (Path(xds.master), "images"), (xds.writes[0], "data")):
        with h5py.File(file_path) as file:
            fill = file[f"/entry/data/{name}"].attrs["_FillValue"]
            assert (fill, fill.dtype) == (65535, numpy.dtype("uint16")), file_path


def test_a_master_for_eiger_readers_has_their_names_and_is_hdf5_1_8(series: Callable[[str], Path]) -> None:
    path = series("one")
    export(path, "eiger", copies=True, frames_a_file=4)
    master = path.with_name("s_master.h5")
    check_readers(master)
    for file_path in (master, path.with_name("s_data_000002.h5")):
        with h5py.File(file_path) as file:
            assert file.id.get_create_plist().get_version()[0] == 0
    with h5py.File(master) as file:
        assert list(file["/entry/data"]) == ["data_000001", "data_000002"]
        detector = file[DETECTOR]
        assert detector["detector_distance"][()] == pytest.approx(sent.DISTANCE_M)
        assert detector["detector_distance"].attrs["units"] == "m"
        assert detector["detector_number"][()] == b"E-01-0042"
        assert detector["bit_depth_image"][()] == 16
        specific = {name: item[()] for name, item in detector["detectorSpecific"].items()}
        assert numpy.array_equal(specific.pop("pixel_mask"), sent.mask())
        assert specific == {
            "nimages": sent.FRAMES,
            "ntrigger": 1,
            "x_pixels_in_detector": sent.COLUMNS,
            "y_pixels_in_detector": sent.ROWS,
            "photon_energy": sent.ENERGY_EV,
            "countrate_correction_count_cutoff": sent.SATURATION,
        }
        omega = file["/entry/sample/goniometer"]
        assert omega["omega"][3] == pytest.approx(sent.OMEGA_START + 3 * sent.OMEGA_STEP)
        assert omega["omega_range_average"][()] == pytest.approx(sent.OMEGA_STEP)
        assert omega["omega_range_total"][()] == pytest.approx(sent.FRAMES * sent.OMEGA_STEP)
        assert omega["chi"][0] == 12


def replaced(path: Path, **dataset: Any) -> None:
    """Other frames in place of the recorded ones."""
    with h5py.File(path, "r+") as file:
        del file["/entry/data/data"], file[f"{DETECTOR}/data"]
        file["/entry/data"].create_dataset("data", **dataset)


def interleaved(path: Path) -> None:
    layout = h5py.VirtualLayout(shape=(6, 48, 80), dtype="uint16")
    for rank in (0, 1):
        layout[rank::2] = h5py.VirtualSource(f"s_member_{rank}.h5", "/entry/data/data", shape=(6, 48, 80))[
            rank::2
        ]
        shutil.copy(path, path.with_name(f"s_member_{rank}.h5"))
    with h5py.File(path, "r+") as file:
        del file["/entry/data/data"], file[f"{DETECTOR}/data"]
        file["/entry/data"].create_virtual_dataset("data", layout)


def without(*names: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            for name in names:
                del file[name]

    return edit


SHAPE = {"shape": (7, 48, 80), "dtype": "uint16"}
REFUSED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "float": (lambda path: replaced(path, data=numpy.zeros((7, 48, 80), "float32")), "float32", "DIALS"),
    "wide": (lambda path: replaced(path, data=numpy.zeros((7, 48, 80), "int64")), "int64", "DIALS"),
    "tiles": (lambda path: replaced(path, **SHAPE, chunks=(1, 24, 80)), "one frame per chunk", "--copy"),
    "several": (
        lambda path: replaced(path, **SHAPE, chunks=(7, 48, 80)),
        "one frame per chunk",
        "--copy",
    ),
    "contiguous": (lambda path: replaced(path, **SHAPE), "no chunks", "--copy"),
    "deflate": (
        lambda path: replaced(path, **SHAPE, chunks=(1, 48, 80), compression="gzip"),
        "deflate (1)",
        "--copy",
    ),
    "scan": (lambda path: replaced(path, shape=(2, 3, 48, 80), dtype="uint16"), "4 dimensions", "--copy"),
    "interleaved": (interleaved, "several ranks", "--copy"),
    "unfinished": (without("/entry/end_time"), "/entry/end_time", "recover"),
    "pixels": (without(f"{DETECTOR}/y_pixel_size"), "no /entry/instrument/detector/y_pixel_size", "h5py"),
    "frames": (without("/entry/data", DETECTOR), "no frames", "info"),
    "definition": (without("/entry/definition"), "definition NXmx", "Penstock recorded"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_readers_could_not_read_is_refused_with_a_reason(
    series: Callable[[str], Path], why: str
) -> None:
    path = series("one")
    edit, said, remedy = REFUSED[why]
    edit(path)
    with pytest.raises(PenstockError) as refused:
        plan_export(path, "xds")
    assert said in refused.value.message
    assert remedy in refused.value.remedy
    # Only what would help there: a codec is no remedy for a scan.
    assert ("codec.encoding" in refused.value.remedy) == (why == "deflate")
    assert ("or record with one frame" in refused.value.remedy) == (why in ("tiles", "several"))


def test_the_reason_is_that_of_the_readers_the_export_is_for(series: Callable[[str], Path]) -> None:
    path = series("one")
    without(f"{DETECTOR}/y_pixel_size")(path)
    with pytest.raises(PenstockError, match="durin"):
        plan_export(path, "xds", copies=True)
    with pytest.raises(PenstockError, match="programs for EIGER files"):
        plan_export(path, "eiger", copies=True)


def test_a_master_that_xds_would_not_find_is_refused(series: Callable[[str], Path]) -> None:
    """It puts `master` in the place of question marks. Programs for EIGER files are told the name."""
    path = series("one")
    told = invoke(path, "--for", "xds", "--output", path.with_name("run7.h5"))
    assert (told.exit_code, "run7_master.h5" in "".join(told.stderr.split())) == (2, True), told.stderr
    assert [file.name for file in path.parent.iterdir()] == ["s.h5"]
    assert invoke(path, "--for", "eiger", "--output", path.with_name("run7.h5")).exit_code == 0


def whole_mapping(path: Path) -> None:
    """As h5py maps a source that it is told nothing of: all of it, of whatever extent."""
    layout = h5py.VirtualLayout(shape=(7, 48, 80), dtype="uint16")
    layout[...] = h5py.VirtualSource("gone.h5", "/data", shape=(7, 48, 80))
    with h5py.File(path, "r+") as file:
        del file["/entry/data/data"], file[f"{DETECTOR}/data"]
        file["/entry/data"].create_virtual_dataset("data", layout)


def test_frames_that_are_not_there_and_exports_are_refused(series: Callable[[str], Path]) -> None:
    path = series("one")
    master = export(path).writes[-1]
    with pytest.raises(PenstockError, match="is an export") as refused:
        plan_export(master, "xds")
    assert "s.h5" in refused.value.remedy
    whole_mapping(path)
    with pytest.raises(PenstockError, match=r"source file of .*s\.h5 is missing: gone\.h5"):
        plan_export(path, "xds")


def test_what_grows_and_what_is_linked_is_copied_as_it_stands(series: Callable[[str], Path]) -> None:
    path = series("one")
    with h5py.File(path, "r+") as file:
        column = file.create_dataset("/entry/sample/temperature", data=numpy.arange(7.0), maxshape=(None,))
        column.attrs["units"] = "K"
        file["/entry/sample/t"] = h5py.SoftLink("/entry/sample/temperature")
        file["/entry/sample/gone"] = h5py.SoftLink("/nowhere")
        file["/entry/sample/frames"] = file["/entry/data/data"]
    for reader in ("xds", "eiger"):
        export(path, reader, overwrite=True)
        with h5py.File(path.with_name("s_master.h5")) as file:
            sample = file["/entry/sample"]
            assert list(sample["temperature"]) == list(sample["t"]) == list(range(7))
            assert sample["temperature"].attrs["units"] == "K"
            assert not {"gone", "frames"} & set(sample)


@pytest.mark.parametrize("copies", [False, True])
def test_a_member_that_is_not_there_is_missed(series: Callable[[str], Path], copies: bool) -> None:
    path = series("split")
    path.with_name("s_member_1.h5").unlink()
    with pytest.raises(PenstockError, match=r"source file of .*s\.h5 is missing: s_member_1\.h5"):
        plan_export(path, "xds", copies=copies)


def test_a_file_that_has_no_end_is_refused(series: Callable[[str], Path]) -> None:
    path = series("one")
    with h5py.File(path, "r+") as file:
        file["/entry/sample/again"] = file["/entry"]
    with pytest.raises(PenstockError, match="over 16 levels"):
        export(path)
    assert [file.name for file in path.parent.iterdir()] == ["s.h5"]


def test_another_codec_is_refused_and_a_members_own_file_too(series: Callable[[str], Path]) -> None:
    with pytest.raises(PenstockError, match=r"bitshuffle \(32008\) with [56] parameters"):
        plan_export(series("bszstd"), "xds")
    with pytest.raises(PenstockError, match="a part of a series"):
        plan_export(series("split").with_name("s_member_1.h5"), "xds")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("copies", [False, True])
def test_a_series_that_is_being_recorded_is_refused_until_its_end(
    record: Record, tmp_path: Path, layout: str, copies: bool
) -> None:
    """And the recorder takes no notice; afterwards everything is there."""
    recorder = record(tmp_path, *LAYOUTS[layout])
    frames = numpy.random.default_rng(4).integers(0, 9, (6, 48, 80)).astype("uint16")
    metadata = {"pixel_size_x": 75e-6, "pixel_size_y": 75e-6}
    path = tmp_path / "s.h5"
    options: dict[str, Any] = {"copies": copies, "frames_a_file": 4}
    with Series(
        recorder.address, dtype="uint16", shape=(48, 80), frames=6, name="s", metadata=metadata
    ) as series:
        for number, frame in enumerate(frames):
            series.send(frame)
            series.wait_acknowledged(30)
            with pytest.raises(
                PenstockError, match=r"/entry/end_time is missing|was never closed|still open"
            ) as refused:
                plan_export(path, "xds", **options)
            assert "wait" in refused.value.remedy
            assert number < 5 or not list(tmp_path.glob("*_master*"))
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (6, 0, None)
    done = export(path, "xds", **options)
    with h5py.File(done.writes[-1]) as file:
        assert numpy.array_equal(file["/entry/data/images"][...], frames)


def test_a_file_that_nobody_closed_is_refused(series: Callable[[str], Path]) -> None:
    """Its end is told, but it may not be all of it yet."""
    path = series("one")
    die = (
        "import h5py, os, sys; file = h5py.File(sys.argv[1], 'r+', libver='latest'); file.swmr_mode = True;"
        " os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", die, str(path)], timeout=60, check=True)
    with pytest.raises(PenstockError, match="still open for writing"):
        plan_export(path, "xds")


def test_a_scan_is_copied_row_by_row(series: Callable[[str], Path]) -> None:
    path = series("one")
    frames = sent.frames_of(0)[:6]
    replaced(path, data=frames.reshape(2, 3, 48, 80))
    done = export(path, copies=True)
    assert numpy.array_equal(numpy.stack(list(as_neggia_reads(done.writes[-1]))), frames)


@pytest.mark.parametrize("reader", ["xds", "eiger"])
@pytest.mark.parametrize("copies", [False, True])
def test_names_may_have_per_cent_signs(series: Callable[[str], Path], reader: str, copies: bool) -> None:
    """HDF5 takes %b in the mappings of a virtual dataset for a number."""
    path = series("one")
    path = path.rename(path.with_name("100% (b) %b 50%.h5"))
    done = export(path, reader, copies=copies)
    with h5py.File(done.master) as file:
        if reader == "xds":
            assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0))
        assert numpy.array_equal(file["/entry/data/data_000001"][...], sent.frames_of(0))


def test_members_may_have_per_cent_signs(tmp_path: Path) -> None:
    config = tmp_path / "names.yaml"
    config.write_text('file_name: "%b{series_unique_id}%.h5"\n', encoding="ascii")
    sent.record_series(tmp_path, str(config), "--frames-per-file", "3")
    path = tmp_path / "%bs%.h5"
    for copies in (False, True):
        done = export(path, overwrite=True, copies=copies)
        with h5py.File(done.master) as file:
            assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0))


def test_points_without_a_frame_are_counted(tmp_path: Path) -> None:
    axes = [{"name": "y", "points": 3}, {"name": "x", "points": 4}]
    scan = {"penstock": {"scan": {"axes": axes, "order": "given", "place": "place"}}}
    path = sent.record_series(tmp_path, user_data=scan, missing=2)
    assert plan_export(path, "xds", copies=True, stretch=(None, None)).missing == 0, "ends after the last one"
    assert plan_export(path, "xds", copies=True, stretch=(None, 12)).missing == 12 - sent.FRAMES + 2


def test_what_a_layout_has_put_in_the_place_of_readers_names(tmp_path: Path) -> None:
    """Readers take these names for what the export says they are."""
    layout = tmp_path / "own.yaml"
    layout.write_text(
        """tree:
  entry:
    nxmx: /entry
    tree:
      sample: {nxmx: /entry/sample, tree: {goniometer: {constant: none}}}
      instrument:
        nxmx: /entry/instrument
        tree:
          detector:
            nxmx: /entry/instrument/detector
            tree:
              saturation_value: {constant: high}
              bit_depth_image: {constant: 1}
              detectorSpecific: {tree: {nimages: {constant: 3}, mine: {constant: 4}}}
""",
        encoding="utf-8",
    )
    path = sent.record_series(tmp_path, "--layout", str(layout))
    for reader in ("xds", "eiger"):
        done = export(path, reader, overwrite=True)
        with h5py.File(done.master) as file:
            specific = file[f"{DETECTOR}/detectorSpecific"]
            assert (specific["nimages"][()], specific["mine"][()]) == (sent.FRAMES, 4)
            assert specific["countrate_correction_count_cutoff"][()] == sent.SATURATION
            assert file[f"{DETECTOR}/bit_depth_image"][()] == 16
            assert file["/entry/sample/goniometer/omega"][0] == sent.OMEGA_START


def test_a_file_of_another_layout_says_so(tmp_path: Path) -> None:
    path = sent.record_series(tmp_path, "--layout", "raw")
    with pytest.raises(PenstockError, match="has the layout raw") as refused:
        plan_export(path, "xds", copies=True)
    assert "nxmx: /entry" in refused.value.remedy


def test_nothing_but_an_export_is_replaced_and_that_only_when_asked(series: Callable[[str], Path]) -> None:
    path = series("split")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    for recorded in (path, path.with_name("s_member_1.h5")):
        told = invoke(path, "--for", "eiger", "--output", recorded, "--overwrite")
        assert (told.exit_code, "holds recorded frames" in told.stderr) == (2, True)
    own = path.with_name("own.h5")
    with h5py.File(own, "w"):
        pass
    told = invoke(path, "--for", "eiger", "--output", own, "--overwrite")
    assert (told.exit_code, "is not an export" in told.stderr) == (2, True)
    own.unlink()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    first = invoke(path, "--for", "eiger", "--json")
    assert (first.exit_code, json.loads(first.stdout)["reader"]) == (0, "eiger")
    again = invoke(path, "--for", "xds")
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    with h5py.File(path.with_name("s_master.h5")) as file:
        assert file.attrs["penstock_export"] == "eiger"
    assert invoke(path, "--for", "xds", "--overwrite").exit_code == 0
    with h5py.File(path.with_name("s_master.h5")) as file:
        assert file.attrs["penstock_export"] == "xds"
    assert {name: (path.parent / name).read_bytes() for name in before} == before


def test_a_dry_run_tells_and_writes_nothing(series: Callable[[str], Path]) -> None:
    path = series("one")
    told = invoke(path, "--for", "xds", "--copy", "--dry-run")
    assert (told.exit_code, told.stdout.count("would write")) == (0, 2)
    linked = invoke(path, "--for", "xds", "--dry-run")
    assert "neggia reads the first 4 frames" in " ".join(linked.stderr.split())
    for_eiger = invoke(path, "--for", "eiger", "--dry-run")
    assert for_eiger.exit_code == 0
    assert "neggia" not in for_eiger.stderr, "it is a plug-in of XDS"
    assert [file.name for file in path.parent.iterdir()] == ["s.h5"]
    refused = invoke(path, "--for", "albula")
    assert refused.exit_code == 2


def test_copy_of_frames_whose_bytes_changed_is_reported(series: Callable[[str], Path]) -> None:
    path = series("one")
    assert invoke(path, "--for", "xds", "--copy").exit_code == 0
    with h5py.File(path) as file:
        chunk = file["/entry/data/data"].id.get_chunk_info_by_coord((5, 0, 0))
    with path.open("r+b") as stream:
        stream.seek(chunk.byte_offset + chunk.size - 1)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([last ^ 1]))
    done = invoke(path, "--for", "xds", "--copy", "--overwrite")
    assert done.exit_code == 1, done.output
    assert "a chunk's checksum is wrong" in done.output
    assert path.with_name("s_master.h5").is_file(), "the other frames are worth having"


def test_a_damaged_frame_ends_a_copy_and_leaves_nothing(series: Callable[[str], Path]) -> None:
    path = series("bszstd")
    with h5py.File(path) as file:
        chunk = file["/entry/data/data"].id.get_chunk_info(5)
    with path.open("r+b") as damaged:
        damaged.seek(chunk.byte_offset + 14)
        damaged.write(b"\xff" * 40)
    with pytest.raises(PenstockError, match="frame 5 of /entry/data/data cannot be read"):
        export(path, copies=True, frames_a_file=3)
    assert [file.name for file in path.parent.iterdir()] == ["s.h5"]


def checked(path: Path) -> Result:
    return CliRunner().invoke(application, ["check", str(path)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("copies", "reader", "single"),
    [
        (False, "xds", False),
        (False, "eiger", True),
        (True, "eiger", False),
        pytest.param(False, "eiger", False, marks=pytest.mark.slow),
        pytest.param(True, "xds", False, marks=pytest.mark.slow),
        pytest.param(True, "eiger", True, marks=pytest.mark.slow),
    ],
)
def test_the_check_knows_exports_and_misses_their_frames(
    series: Callable[[str], Path], reader: str, single: bool, copies: bool
) -> None:
    path = series("one")
    done = export(path, reader, copies=copies, single=single)
    master = Path(done.master)
    fine = checked(master)
    assert (fine.exit_code, "not written by Penstock" in fine.stdout) == (0, False), fine.stdout
    assert ("s.h5 has the checksums and was checked" in " ".join(fine.stdout.split())) is not copies
    assert ("copied frames have no checksums" in fine.stdout) is copies
    shown = CliRunner().invoke(application, ["info", str(master)], catch_exceptions=False).stdout
    assert "export of s.h5" in shown
    assert "stored 0 B" not in " ".join(shown.split())
    frames = master.with_name(done.parts[0].file)
    if copies:  # they are in a file that does not name another
        alone = " ".join(checked(frames).stdout.split())
        assert "`penstock check` of the recorded file verifies the recorded ones" in alone
    frames.rename(frames.with_suffix(".away"))
    broken = checked(master)
    told = " ".join(broken.stdout.split())
    said = "the target of a link cannot be checked" if single else "linked frames are not there"
    assert (broken.exit_code, said in told) == (1, True), told
    assert f"{done.parts[0].dataset} of {frames.name}" in told


def test_read_only_folder_is_a_matter_of_permission(
    series: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_export(series("one"), "xds")
    monkeypatch.setattr("os.access", lambda *_, **_more: False)
    with pytest.raises(UsageError, match="no permission to write into"):
        write_export(plan, False, lambda done, of: None)
