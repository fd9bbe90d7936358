"""What `penstock export` reports of series that are interrupted, incomplete, damaged or elsewhere."""

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import nexus_series as sent
import numpy
import pytest
from typer.testing import CliRunner, Result

from penstock.cli import application
from penstock.files import inspect as inspecting
from penstock.files.structure import check_structure
from penstock.model.errors import ExitCode
from penstock.model.events import CheckReport
from penstock.model.findings import ANY_FRAME, Finding
from penstock.programs import check as checking

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
PACKAGE = Path(__file__).resolve().parents[3] / "python" / "penstock"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A series in one file, and an aborted one in several. Tests leave these files as they are."""
    split = ("--frames-per-file", "3")
    return {
        "one": sent.record_series(tmp_path_factory.mktemp("one")),
        "split": sent.record_series(tmp_path_factory.mktemp("split"), *split, missing=2),
    }


@pytest.fixture
def series(recorded: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a recorded series in a folder of its own."""

    def copy(kind: str) -> Path:
        return shutil.copytree(recorded[kind].parent, tmp_path / kind) / "s.h5"

    return copy


def export(*arguments: object) -> Result:
    return CliRunner().invoke(application, ["export", *map(str, arguments)], catch_exceptions=False)


def checked_as(monkeypatch: pytest.MonkeyPatch, **report: object) -> None:
    """Makes the native check return this report."""
    made = CheckReport.model_validate({"event": "report", "time": 0, **report})
    monkeypatch.setattr("penstock.programs.check.follow", lambda *_: made)


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_interrupted_check_ends_an_export_without_files(
    series: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, signal: str, code: int
) -> None:
    path = series("one")
    checked_as(monkeypatch, ok=False, complete=False, stopped_by=signal)
    done = export(path, "--for", "xds", "--copy")
    assert (done.exit_code, done.stdout) == (code, "")
    assert "damaged" not in done.stderr
    assert [file.name for file in path.parent.iterdir()] == ["s.h5"]


def test_interrupted_check_is_never_a_result_of_another_command(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_as(monkeypatch, ok=False, complete=False, stopped_by="SIGTERM")
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        checking.check_to_the_end(checking.check_plan(Path("s.h5"), None), lambda _: None)
    users = [path for path in PACKAGE.rglob("*.py") if "programs.check import check," in path.read_text()]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == ["cli/files/check.py"]


def test_missing_source_file_is_named_with_the_frames_that_are_left(series: Callable[[str], Path]) -> None:
    path = series("split")
    path.with_name("s_member_1.h5").unlink()
    for copy in ((), ("--copy",)):
        done = export(path, "--for", "xds", *copy)
        assert done.exit_code == ExitCode.FAILED
        assert f"source file of {path} is missing: s_member_1.h5" in done.stderr
        assert (
            "put it back next to s.h5; or export frames of the other files: --copy --frames 0:3"
            in done.stderr
        )
    part = export(path, "--for", "xds", "--copy", "--frames", "0:3")
    assert part.exit_code == 0, part.stderr
    assert "s_member_1.h5: missing, but none of its frames" in part.stderr
    assert "damaged, but not in the copied frames" in part.stderr
    with h5py.File(path.with_name("s_master.h5")) as file:
        assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0)[:3])


@pytest.mark.parametrize("reader", ["xds", "eiger"])
def test_aborted_series_is_linked_as_far_as_source_files_have_rows(
    series: Callable[[str], Path], reader: str
) -> None:
    path = series("split")
    done = export(path, "--for", reader)
    assert done.exit_code == 0, done.stderr
    assert "frames 0 to 5 of 7 are exported; no source file has the others" in done.stderr
    assert "1 frame is missing: 5;" in done.stderr
    with h5py.File(path.with_name("s_master.h5")) as file:
        data = file["/entry/data"]
        rows = numpy.concatenate([data[f"data_{number:06d}"][...] for number in (1, 2)])
        assert file["/entry/instrument/detector/detectorSpecific/nimages"][()] == len(rows) == 6
        assert numpy.array_equal(rows[:5], sent.frames_of(0)[:5])
        assert "data_000003" not in data
        assert reader == "eiger" or numpy.array_equal(data["images"][...], rows)


@pytest.mark.parametrize("lost", [2, 3])  # the last and the first frame of a source file
def test_frames_that_never_came_between_two_source_files_are_linked(lost: int, tmp_path: Path) -> None:
    path = sent.record_series(tmp_path, "--frames-per-file", "3", without=(lost,))
    done = export(path, "--for", "eiger")
    assert done.exit_code == 0, done.stderr
    assert f"1 frame is missing: {lost};" in done.stderr
    with h5py.File(path.with_name("s_master.h5")) as file:
        data = file["/entry/data"]
        rows = numpy.concatenate([data[f"data_{number:06d}"][...] for number in (1, 2, 3)])
    there = [number for number in range(sent.FRAMES) if number != lost]
    assert len(rows) == sent.FRAMES
    assert numpy.array_equal(rows[there], sent.frames_of(0)[there])


def test_source_file_with_rows_beyond_the_series_is_called_longer(series: Callable[[str], Path]) -> None:
    path = series("split")
    with h5py.File(path.with_name("s_member_1.h5"), "r+") as file:
        file["/entry/data/data"].resize(6, axis=0)
    done = export(path, "--for", "xds")
    assert done.exit_code == ExitCode.FAILED
    assert "s_member_1.h5: /entry/data/data is longer than its 4 frames: it has 6 rows" in done.stderr
    assert "--copy" in done.stderr


def test_copy_reports_frames_that_are_missing_in_its_range(series: Callable[[str], Path]) -> None:
    path = series("split")
    noted = "2 frames are missing: 5-6; the copy has the fill value there"
    assert noted in export(path, "--for", "xds", "--copy", "--frames", "4:7", "--dry-run").stderr
    assert "missing" not in export(path, "--for", "xds", "--copy", "--dry-run").stderr


@pytest.mark.parametrize(("reader", "is_named"), [("xds", True), ("eiger", False)])
def test_only_exports_for_xds_mention_xds(series: Callable[[str], Path], reader: str, is_named: bool) -> None:
    path = series("one")
    with h5py.File(path, "r+") as file:
        file["/entry/penstock/frame_state"][-1] = 0
    noted = export(path, "--for", reader, "--dry-run").stderr
    assert "1 frame is missing: 6" in noted
    assert ("XDS" in noted) == is_named


FRAME: dict[str, object] = {
    "what": "a chunk's checksum is wrong",
    "where": "/entry/data/data frame 2",
    "frames": (2, 2),
}
SOURCE_FILES_FRAME = {
    "what": "a chunk's checksum is wrong",
    "where": "s_data_0.h5: /entry/data/data frame 6",
    "source_file": "s_data_0.h5",
    "frames": ANY_FRAME,
}
VALUES = {"what": "a part of the file outside the frames is corrupt", "where": "HDF5's structures"}
LACKING = {"what": "a frame is marked as received but missing", "where": "frame 2", "frames": (2, 2)}
MORE: dict[str, object] = {"what": "a chunk's checksum is wrong", "where": "5 more", "places": 5}


@pytest.mark.parametrize(
    ("errors", "frames", "code", "words"),
    [
        ([FRAME, VALUES, LACKING], ":7", 1, "the copy has the same bytes"),
        ([SOURCE_FILES_FRAME], ":2", 1, "the copy has the same bytes"),
        ([FRAME], "3:7", 0, "damaged, but not in the copied frames"),
        ([FRAME, MORE], "3:7", 1, "the copy has the same bytes"),
        ([VALUES], ":7", 1, "is damaged, but no frame is"),
        ([VALUES, LACKING], ":7", 1, "lacks frames that it should have"),
    ],
)
def test_damage_is_reported_as_what_it_is_in_the_copy(
    series: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    errors: list[dict[str, object]],
    frames: str,
    code: int,
    words: str,
) -> None:
    findings = [Finding.model_validate({"level": "error", **each}) for each in errors]
    checked_as(monkeypatch, ok=False, findings=findings)
    done = export(series("one"), "--for", "xds", "--copy", "--frames", frames)
    assert (done.exit_code, words in done.stderr) == (code, True), done.stderr
    assert ("same bytes" in done.stderr) == ("same bytes" in words)


def damage(source_file: Path, row: int) -> None:
    """Inverts a byte of a frame's chunk."""
    with h5py.File(source_file) as file:
        chunk = file["/entry/data/data"].id.get_chunk_info_by_coord((row, 0, 0))
    with source_file.open("r+b") as raw:
        raw.seek(chunk.byte_offset + chunk.size - 1)
        byte = raw.read(1)[0]
        raw.seek(-1, 1)
        raw.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize(
    ("frames", "code", "words"),
    [
        ("0:3", 0, "damaged, but not in the copied frames"),
        ("3:4", 0, "damaged, but not in the copied frames"),
        ("3:5", 1, "leave the damaged frames out (--frames)"),
    ],
)
def test_damage_in_a_source_file_has_the_frame_number_of_the_series(
    series: Callable[[str], Path], frames: str, code: int, words: str
) -> None:
    path = series("split")
    damage(path.with_name("s_member_1.h5"), 1)
    done = export(path, "--for", "xds", "--copy", "--frames", frames)
    assert (done.exit_code, words in done.stderr) == (code, True), done.stderr
    assert "s_member_1.h5: /entry/data/data frame 4 of the series at offset" in done.stderr


def test_cut_source_file_is_left_out_of_a_copy(series: Callable[[str], Path]) -> None:
    path = series("split")
    cut = path.with_name("s_member_1.h5")
    with cut.open("r+b") as file:
        file.truncate(cut.stat().st_size // 2)
    part = export(path, "--for", "xds", "--copy", "--frames", "0:3")
    assert part.exit_code == 0, part.stderr
    assert "damaged, but not in the copied frames" in part.stderr
    with h5py.File(path.with_name("s_master.h5")) as file:
        assert numpy.array_equal(file["/entry/data/images"][...], sent.frames_of(0)[:3])


@pytest.mark.parametrize(("frames", "code"), [("0:3", 0), ("0:4", 1)])
def test_further_places_in_a_source_file_without_copied_frames_are_left_out(
    series: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, frames: str, code: int
) -> None:
    of_file: dict[str, object] = {"level": "error", "source_file": "s_member_1.h5"}
    frame = FRAME | of_file | {"where": "s_member_1.h5: /entry/data/data frame 5", "frames": (5, 5)}
    findings = [Finding.model_validate(each) for each in (frame, MORE | of_file)]
    checked_as(monkeypatch, ok=False, findings=findings)
    done = export(series("split"), "--for", "xds", "--copy", "--frames", frames)
    assert done.exit_code == code, done.stderr


@pytest.mark.parametrize(("file", "output"), [("", None), ("s.h5", "")])
def test_empty_name_is_wrong_usage(
    recorded: dict[str, Path], file: str, output: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded["one"].parent)
    options = () if output is None else ("--output", output)
    done = export(file, "--for", "xds", *options)
    assert done.exit_code == ExitCode.USAGE
    assert "what to do" in done.stderr
    assert "PosixPath" not in done.stderr


def test_remedies_name_the_file(series: Callable[[str], Path]) -> None:
    path = series("one")
    with h5py.File(path, "r+") as file:
        del file["/entry/instrument/detector/x_pixel_size"]
    assert f"and then run penstock recover {path}" in export(path, "--for", "xds").stderr
    with h5py.File(path, "r+") as file:
        del file["/entry/end_time"]
    refused = export(path, "--for", "xds").stderr
    assert f"penstock recover {path}" in refused
    assert "--resume" in refused


def test_resume_is_not_advised_for_series_in_several_files(series: Callable[[str], Path]) -> None:
    path = series("split")
    with h5py.File(path, "r+") as file:
        del file["/entry/end_time"]
    refused = export(path, "--for", "xds").stderr
    assert f"killed: penstock recover {path}" in refused
    assert not inspecting.series_can_resume(path)
    assert not inspecting.series_can_resume(path.with_name("s_member_1.h5"))
    assert not inspecting.inspect_file(path).can_resume
    assert "--resume" not in " ".join(finding.remedy for finding in check_structure(path, True))
