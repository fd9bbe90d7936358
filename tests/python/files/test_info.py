"""`penstock info` on files of others: any HDF5 file, unfinished ones, and what is not an HDF5 file."""

import io
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy
import pytest
from conftest import Run
from rich.console import Console

from penstock.files.aside import reading_here
from penstock.files.hdf5 import open_for_reading
from penstock.files.inspect import FileInfo, inspect_file
from penstock.files.structure import check_structure
from penstock.files.timing import Percentiles, chunk_bytes, rate_curve, stage_percentiles
from penstock.model.errors import PenstockError, UsageError
from penstock.report.tables import info_page


def test_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["a/b/stack"] = numpy.zeros((5, 4, 3), "float32")
        file["a/number"] = 7
        file["text"] = "hello"
    info = inspect_file(path)
    assert info.data is not None
    assert (info.data.path, info.data.shape, info.data.dtype) == ("/a/b/stack", [5, 4, 3], "float32")
    assert info.data.filters == []
    assert info.ledger == {}
    assert any("NeXus" in text for text in info.missing)
    assert "    stack  5 x 4 x 3 float32" in info.tree


def test_the_default_chain_wins_over_the_largest(tmp_path: Path) -> None:
    path = tmp_path / "chain.h5"
    with h5py.File(path, "w") as file:
        file["big"] = numpy.zeros((50, 40, 30), "uint8")
        file.attrs["default"] = "run"
        file.create_group("run").attrs["default"] = "plot"
        group = file.create_group("run/plot")
        group.attrs["signal"] = "image"
        group.create_dataset(
            "image",
            data=numpy.ones((2, 64, 64), "uint16"),
            chunks=(1, 64, 64),
            **hdf5plugin.Bitshuffle(cname="lz4"),
        )
    info = inspect_file(path)
    assert info.data is not None
    assert info.data.path == "/run/plot/image"
    assert info.data.filters == ["bitshuffle-lz4"]
    assert info.data.ratio is not None
    assert info.data.ratio > 10


def test_hostile_trees_are_survived(tmp_path: Path) -> None:
    path = tmp_path / "hostile.h5"
    with h5py.File(path, "w") as file:
        file.attrs["default"] = "loop"
        file.create_group("loop").attrs["default"] = "/loop"
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["outside"] = h5py.ExternalLink("absent.h5", "/x")
        file["entry"] = h5py.Empty("f")
        file["odd"] = numpy.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        for number in range(100):
            file.create_group(f"many/group{number:03}")
    info = inspect_file(path)
    assert info.data is None
    assert len(info.tree) <= 31
    assert info.tree[-1].startswith("…")


def test_entry_with_wrong_types(tmp_path: Path) -> None:
    path = tmp_path / "types.h5"
    with h5py.File(path, "w") as file:
        file["entry/definition"] = [1, 2, 3]
        file["entry/start_time"] = 5.0
        file["entry/instrument/detector/description/not_a_dataset"] = 1
        file["entry/penstock/frame_state"] = "text"
        file["entry/penstock/timing/received"] = numpy.zeros((2, 2))
    info = inspect_file(path)
    assert info.definition is None
    assert info.detector is None


@pytest.mark.parametrize("content", [b"", b"not hdf5 at all", b"\x89HDF\r\n\x1a\n" + b"\xff" * 500])
def test_what_is_no_hdf5_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(content)
    with pytest.raises(PenstockError, match=r"x\.h5"):
        inspect_file(path)


def test_a_cut_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.h5"
    with h5py.File(path, "w") as file:
        file["x"] = numpy.zeros(10000)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(PenstockError, match="truncated"):
        inspect_file(path)


def test_absent_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.h5", tmp_path):
        with pytest.raises(UsageError):
            inspect_file(path)


WRITER = """
import sys, h5py
with h5py.File(sys.argv[1], "w", libver="v110") as file:
    file.create_dataset("entry/data/data", (3, 4, 4), "uint16", chunks=(1, 4, 4), maxshape=(None, 4, 4))
    file.swmr_mode = True
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_file_that_is_being_written_by_another_program(tmp_path: Path) -> None:
    path = tmp_path / "swmr.h5"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        info = inspect_file(path)
        writer.communicate("")
    assert info.data is not None
    assert info.data.shape == [3, 4, 4]


def test_timing_and_rates(tmp_path: Path) -> None:
    path = tmp_path / "timing.h5"
    second = 1_000_000_000
    with h5py.File(path, "w") as file:
        timing = file.create_group("entry/penstock/timing")
        received = numpy.array([0, 1, 2, 3, -1]) * second + 5 * second
        received[4] = -1
        timing["received"] = received
        timing["encoded"] = numpy.where(received < 0, -1, received + 2_000_000)
        timing["written"] = numpy.where(received < 0, -1, received + 5_000_000)
        data = file.create_dataset("entry/data/data", (5, 10, 10), "uint16", chunks=(1, 10, 10))
        data[:4] = 1
    with reading_here(), open_for_reading(path) as file:
        stages = {stage.stage: stage for stage in stage_percentiles(file)}
        assert stages["compress"].p50_ms == pytest.approx(2)
        assert stages["write"].max_ms == pytest.approx(3)
        assert stages["total"].frames == 4
        assert list(chunk_bytes(file["entry/data/data"], 5)) == [200, 200, 200, 200, 0]
        curve = rate_curve(file)
        width = curve[1].seconds - curve[0].seconds
        assert sum(point.received_bytes_per_s for point in curve) * width == pytest.approx(800)
        assert sum(point.written_bytes_per_s for point in curve) * width == pytest.approx(800)


@pytest.mark.parametrize(
    ("chunks", "first", "values"),
    [
        pytest.param((1, 8, 12), 7, 3 * 8 * 12, id="frames"),
        pytest.param((1, 5, 5), 7, 3 * 8 * 12, id="parts that reach beyond the frame"),
        pytest.param((4, 8, 12), 8, 2 * 8 * 12, id="several frames, of which the last chunk has two"),
        pytest.param((2, 8, 12), 7, 4 * 8 * 12, id="a frame that did not come in a chunk that is there"),
    ],
)
def test_the_ratio_is_of_what_is_stored(
    tmp_path: Path, chunks: tuple[int, ...], first: int, values: int
) -> None:
    """Of ten frames those before `first` never came: they have no chunk, and count on neither side."""
    path = tmp_path / "missing.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("entry/data/data", (10, 8, 12), "uint16", chunks=chunks)
        data[first:] = 7
        stored = data.id.get_storage_size()
    info = inspect_file(path)
    assert info.data is not None
    assert (info.data.raw_bytes, info.data.stored_bytes) == (2 * values, stored)
    assert info.data.ratio == pytest.approx(2 * values / stored)


def test_frames_in_other_files_count_where_they_are_stored(tmp_path: Path) -> None:
    shape = (6, 8, 12)
    layout = h5py.VirtualLayout(shape=shape, dtype="uint16")
    for number in range(2):
        with h5py.File(tmp_path / f"s_member_{number}.h5", "w") as file:
            part = file.create_dataset(
                "entry/data/data", (3, 8, 12), "uint16", chunks=(1, 8, 12), compression="gzip"
            )
            part[: 1 + number] = 7
        layout[3 * number : 3 * number + 3] = h5py.VirtualSource(
            f"s_member_{number}.h5", "entry/data/data", shape=(3, 8, 12)
        )
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.attrs.update(penstock_layout="split", penstock_member_files="s_member_*.h5")
        file.create_virtual_dataset("entry/data/data", layout)
    info = inspect_file(tmp_path / "s.h5")
    assert info.data is not None
    assert info.data.raw_bytes == 3 * 8 * 12 * 2
    assert info.data.ratio is not None
    assert info.data.ratio > 5


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "not readable"])
def test_frames_whose_source_file_is_gone_do_not_count_as_received(
    tmp_path: Path, in_parts: bool, is_there: bool
) -> None:
    """Frames 0, 2, 4 are in the first file, the others in the second one; of these one was never received."""
    layout = h5py.VirtualLayout(shape=(6, 8, 12), dtype="uint16")
    for number in range(2):
        with h5py.File(tmp_path / f"s_member_{number}.h5", "w") as file:
            file.create_dataset("entry/data/data", (3, 8, 12), "uint16", chunks=(1, 8, 12))
        source = h5py.VirtualSource(f"s_member_{number}.h5", "entry/data/data", shape=(3, 8, 12))
        layout[number::2] = source
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.attrs.update(penstock_layout="per_writer", penstock_member_files="s_member_*.h5")
        file["/entry/penstock/members"] = [f"s_member_{number}.h5" for number in range(2)]
        if in_parts:
            file.create_virtual_dataset("entry/penstock/parts/data_0", layout)
            layout = h5py.VirtualLayout(shape=(6, 8, 12), dtype="uint16")
            layout[0:6] = h5py.VirtualSource(".", "/entry/penstock/parts/data_0", shape=(6, 8, 12))
        file.create_virtual_dataset("entry/data/data", layout)
        states = file.create_dataset("entry/penstock/frame_state", data=numpy.array([1, 1, 1, 0, 1, 1], "u1"))
        states.attrs.update(received=5, missing=1)
    info = inspect_file(tmp_path / "s.h5")
    assert (info.ledger["received"], info.unreachable) == (5, 0)
    second = tmp_path / "s_member_1.h5"
    second.unlink()
    if is_there:
        second.write_bytes(b"something else")
    info = inspect_file(tmp_path / "s.h5")
    assert (info.ledger["received"], info.unreachable) == (3, 2)
    assert "3 received, 1 missing, 2 in source files that are missing or not readable" in shown(info)


def test_a_flipped_bit_in_an_unfinished_file_does_not_hang(tmp_path: Path) -> None:
    """HDF5's SWMR reader tries a block with a wrong checksum 100 times, with pauses that double."""
    path = tmp_path / "swmr.h5"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        left = bytearray(path.read_bytes())
        writer.communicate("")
    headers = [at for at in range(len(left)) if left.startswith(b"OHDR", at)]
    assert len(headers) > 2
    for at in headers:
        damaged = tmp_path / f"{at}.h5"
        damaged.write_bytes(left[: at + 20] + bytes([left[at + 20] ^ 1]) + left[at + 21 :])
        try:
            inspect_file(damaged)
        except PenstockError as error:
            assert "reported nothing" not in error.message


def test_text_and_names_that_are_not_utf_8_are_shown(tmp_path: Path) -> None:
    """As a flipped bit leaves them."""
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        user = h5py.h5g.create(entry.id, b"user")
        h5py.h5g.create(entry.id, b"na\xf4me")
        text = h5py.h5t.C_S1.copy()
        text.set_size(8)
        text.set_cset(h5py.h5t.CSET_UTF8)
        attribute = h5py.h5a.create(user, b"NX_class", text, h5py.h5s.create(h5py.h5s.SCALAR))
        attribute.write(numpy.array(b"NX\xf4ser", dtype="S8"), mtype=text)
    info = inspect_file(path)
    assert "NX\ufffdser" in info.model_dump_json()
    assert check_structure(path), "and its structure is examined"


def test_stored_bytes_are_those_of_all_channels(tmp_path: Path) -> None:
    path = tmp_path / "channels.h5"
    with h5py.File(path, "w") as file:
        file["entry/penstock/channels"] = ["low", "high"]
        for name, channel in (("data", "low"), ("channel_1_high", "high")):
            frames = file.create_dataset(
                f"entry/data/{name}", data=numpy.ones((3, 8, 8), "uint16"), chunks=(1, 8, 8)
            )
            frames.attrs["channel"] = channel
    info = inspect_file(path)
    assert info.data is not None
    assert info.data.channels == ["low", "high"]
    assert info.data.stored_bytes == info.data.raw_bytes == 2 * 3 * 8 * 8 * 2


def test_a_constant_rate_does_not_drop_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "constant.h5"
    times = numpy.arange(33) * 100_000_000 + 1
    with h5py.File(path, "w") as file:
        for name in ("received", "written"):
            file[f"entry/penstock/timing/{name}"] = times
        file.create_dataset("entry/data/data", (33, 10, 10), "uint16", chunks=(1, 10, 10))[...] = 1
    with reading_here(), open_for_reading(path) as file:
        rates = [point.received_bytes_per_s for point in rate_curve(file)]
    assert min(rates) > 0.8 * max(rates), rates


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    path = tmp_path / "varied.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("entry/instrument")
        group.attrs["NX_class"] = "NXinstrument"
        distance = group.create_dataset("distance", data=0.25)
        distance.attrs["units"] = "m"
        group["again"] = distance
        group["text"] = "one\x1b[31mline"
        group["many"] = numpy.arange(20)
        group["elsewhere"] = h5py.ExternalLink("absent.h5", "/x")
        group["soft"] = h5py.SoftLink("/entry/nowhere")
        for number in range(40):
            file[f"entry/other/{number:02}"] = number
    return path


INSTRUMENT = """\
/entry/instrument/  NXinstrument
  again  scalar float64 = 0.25
    @units = "m"
  distance = /entry/instrument/again
  elsewhere -> absent.h5:/x
  many  20 int64 = [0, 1, 2, 3, 4, 5, 6, 7, …]
  soft -> /entry/nowhere
  text  scalar text = "one\\x1b[31mline\""""


def test_the_tree_below_a_path_has_attributes_links_and_values(varied: Path, run: Run) -> None:
    def tree(below: str) -> list[str]:
        return run("info", str(varied), "--tree", below).stdout.splitlines()

    assert tree("/entry/instrument") == INSTRUMENT.splitlines()
    assert tree("entry/other/07") == ["/entry/other/07  scalar int64 = 7"]
    absent = run("info", str(varied), "--tree", "/entry/absent")
    assert absent.returncode == 2
    assert "--tree /entry/absent: " in absent.stderr


def test_all_shows_more_than_a_screen(varied: Path, run: Run) -> None:
    assert "    39  scalar int64 = 39" not in run("info", str(varied)).stdout
    shown = run("info", str(varied), "--all").stdout
    assert "    39  scalar int64 = 39" in shown
    assert '@units = "m"' in shown


def test_a_tree_that_leads_back_to_itself_ends(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "loop.h5"
    with h5py.File(path, "w") as file:
        below = file.create_group("a/b")
        below["back"] = file["a"]
    assert run("info", str(path), "--tree", "/").stdout == "/\n  a/\n    b/\n      back = /a\n"


def shown(info: FileInfo) -> str:
    page = Console(file=io.StringIO(), width=200)
    page.print(info_page(info))
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_start_and_end_are_in_one_form() -> None:
    times = {"start_time": "2026-11-25T15:17:35.329730+00:00", "end_time": "2026-11-25T15:18:02.000000Z"}
    page = shown(FileInfo(file="s.h5", bytes=1, **times))
    assert "start  2026-11-25T15:17:35.329730Z" in page
    local = shown(FileInfo(file="s.h5", bytes=1, start_time="2026-11-25T16:17:35+01:00"))
    assert "2026-11-25T16:17:35+01:00" in local, "what a detector reports stays"


@pytest.mark.parametrize(("filled", "expected"), [(7, "3 received, 7 missing"), (9, ", 9 filled")])
def test_places_without_a_frame_are_named_once(filled: int, expected: str) -> None:
    ledger = {"received": 3, "missing": 7, "filled": filled}
    page = shown(FileInfo(file="s.h5", bytes=1, ledger=ledger))
    assert expected in page
    assert ("filled" in page) == (filled == 9), "the points of a scan may be more than its frames"


def test_the_time_to_write_names_the_wait_in_it() -> None:
    times = {"frames": 1, "p50_ms": 62, "p90_ms": 62, "p99_ms": 62, "max_ms": 62}
    page = shown(
        FileInfo(
            file="s.h5", bytes=1, timing=[Percentiles(stage=each, **times) for each in ("compress", "write")]
        )
    )
    lines = page.splitlines()
    assert [line.startswith("time to write") for line in lines if "includes the wait" in line] == [True]


def test_lengths_of_the_detector_are_shown_in_readable_units() -> None:
    fields = {"sensor_thickness": "0.00045 m", "x_pixel_size": "7.5e-05 m", "distance": "0.15 m", "gain": "1"}
    page = " ".join(shown(FileInfo(file="s.h5", bytes=1, detector_fields=fields)).split())
    assert "sensor thickness 450 µm" in page
    assert "x pixel size 75 µm" in page
    assert "distance 150 mm gain 1" in page
