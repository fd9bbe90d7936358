"""The demonstration, with a small detector: what it leaves behind, and what it refuses."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import fabio
import numpy
import pytest
from matplotlib.image import imread
from rich.console import Console
from typer.testing import CliRunner
from warm_command import popen

from penstock.cli import application
from penstock.cli.demo import _next_step
from penstock.demo import DemoOptions, Summary, demo_options, run_demo, summary_page
from penstock.demo.run import MARKER, Watchdog, prepare_folder
from penstock.files.space import require_space
from penstock.files.timing import RatePoint
from penstock.files.view.picture import shrink
from penstock.model.catalogue import Detector
from penstock.model.errors import PenstockError, UsageError
from penstock.programs.signals import note_signal
from penstock.report.pages.pictures import Phase, draw_frame, draw_throughput, mask_of
from penstock.report.progress import ProgressView


@pytest.fixture
def view() -> Iterator[ProgressView]:
    with ProgressView(Console(stderr=True)) as made:
        yield made


@pytest.fixture
def small_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "small.yaml").write_text(
        "name: small\ndescription: a small detector\nrows: 200\ncolumns: 300\n"
        "type: int32\nrate_hz: 50\ngap_value: -1\n"
        "gaps: [{row: 90, column: 0, rows: 10, columns: 300}]\n"
    )
    monkeypatch.setattr("penstock.demo.run.detectors_folder", lambda: folder)
    return folder


def options(folder: Path, data: Path | None = None) -> DemoOptions:
    return DemoOptions(folder=folder, detector="small", data=data, rate_hz=50, seconds=0.5, frames_fast=40)


def check_left_behind(folder: Path, summary: Summary) -> None:
    assert summary.problems() == []
    assert json.loads((folder / "summary.json").read_text()) == json.loads(summary.model_dump_json())
    assert [phase.check.compared_frames for phase in summary.phases] == [25, 40]
    for name in ("frame.png", "throughput.png"):
        picture = imread(folder / name)
        assert picture.shape[0] > 200
        assert picture.std() > 0.05, f"{name} shows nothing"
    assert sorted(path.name for path in folder.glob("*.h5")) == ["phase-1.h5", "phase-2.h5"]


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with popen("demo", "--folder", str(folder), "--detector", "eiger2-500k") as command:
        deadline = time.monotonic() + 60
        while not any(folder.glob("*.h5")):
            assert command.poll() is None, command.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
        assert (command.returncode, said.splitlines()[-1]) == (1, "error: interrupted")


@pytest.mark.slow
def test_simulated(
    programs: dict[str, Path], small_catalogue: Path, tmp_path: Path, view: ProgressView
) -> None:
    folder = tmp_path / "out"
    summary = run_demo(options(folder), view)
    check_left_behind(folder, summary)
    assert summary.source.startswith("simulated")
    assert summary.phases[0].asked_hz == 50
    console = Console(width=160, record=True, file=(tmp_path / "text").open("w"))
    console.print(summary_page(summary))
    shown = console.export_text()
    for word in ("lost frames", "0 different", "ratio", "median", "fine"):
        assert word in shown
    check_left_behind(folder, run_demo(options(folder), view))


def test_replayed(
    programs: dict[str, Path], small_catalogue: Path, tmp_path: Path, view: ProgressView
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    random = numpy.random.default_rng(1)
    for number in range(3):
        data = random.poisson(2, (120, 130)).astype("int32")
        fabio.cbfimage.CbfImage(data=data).write(str(images / f"{number}.cbf"))
    note_signal()  # of an earlier command of this process
    summary = run_demo(options(tmp_path / "out", images), view)
    check_left_behind(tmp_path / "out", summary)
    assert summary.source.startswith("3 recorded images")
    assert first_line(summary) == "Recorded all 65 frames; each equals what was sent"
    second = summary.phases[1]
    lost = second.recorded.model_copy(update={"frames_written": 39})
    check = second.check.model_copy(update={"different_frames": 1})
    wrong = second.model_copy(update={"recorded": lost, "check": check})
    failed = summary.model_copy(update={"phases": [summary.phases[0], wrong]})
    assert first_line(failed) == (
        f"FAILED: {second.title}: 1 of 40 frames are not in the file (and 1 further problem)"
    )


def first_line(summary: Summary) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(summary_page(summary))
    return console.export_text().splitlines()[0]


@pytest.mark.parametrize(("name", "says"), [("empty", "no images in"), ("absent", "does not exist")])
def test_data_without_images_is_refused_before_anything_is_removed(
    programs: dict[str, Path], small_catalogue: Path, tmp_path: Path, view: ProgressView, name: str, says: str
) -> None:
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "out"
    prepare_folder(folder)
    (folder / "phase-1.h5").touch()
    with pytest.raises(UsageError, match=says):
        run_demo(options(folder, tmp_path / name), view)
    assert (folder / "phase-1.h5").exists()


def test_next_step_can_be_pasted_where_penstock_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert _next_step("out/phase-1.h5") == "next: penstock view out/phase-1.h5"
    monkeypatch.setenv("PATH", "/nowhere")
    folder = tmp_path / "of `touch run` $HOME \"us\" 'me'"
    folder.mkdir()
    (folder / "penstock").write_text('#!/bin/sh\necho "$@"\n')
    (folder / "penstock").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    line = _next_step("my out/1.h5").removeprefix("next: ")
    pasted = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert pasted.stdout == "view my out/1.h5\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("problems", [[], ["1 frame is lost"]])
def test_next_step_follows_only_a_demonstration_that_succeeded(
    problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    phase = SimpleNamespace(recorded=SimpleNamespace(file="out/phase-1.h5"))
    summary = SimpleNamespace(phases=[phase], problems=lambda: problems)
    monkeypatch.setattr("penstock.cli.demo.run_demo", lambda *_: summary)
    monkeypatch.setattr("penstock.cli.demo.summary_page", lambda _: "the page")
    done = CliRunner().invoke(application, ["demo"])
    assert done.exit_code == bool(problems), done.output
    assert done.stdout.splitlines()[-1].startswith("plots:" if problems else "next:")


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.h5").write_text("years of work")
    with pytest.raises(PenstockError, match="no demonstration created"):
        prepare_folder(tmp_path)
    assert (tmp_path / "thesis.h5").read_text() == "years of work"


def test_only_its_own_files_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    prepare_folder(folder)
    for name in ("phase-1.h5", "notes.txt"):
        (folder / name).write_text("x")
    prepare_folder(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", MARKER]


def test_space_is_looked_at_first(tmp_path: Path) -> None:
    require_space(tmp_path, 1, "this")
    with pytest.raises(PenstockError, match="free"):
        require_space(tmp_path, 1 << 60, "this")


def test_a_demonstration_that_gets_nowhere_ends() -> None:
    now = 0.0
    watchdog = Watchdog(lambda: now)
    for second in range(200):
        now = second
        watchdog.look(second // 50)
    now = 300.0
    with pytest.raises(PenstockError, match=r"no frame reached.*3 are in it"):
        watchdog.look(3)


def test_quick_is_shorter(tmp_path: Path) -> None:
    usual = demo_options(tmp_path, "d", None, 2, quick=False)
    quick = demo_options(tmp_path, "d", None, 2, quick=True)
    assert quick.seconds < usual.seconds
    assert quick.frames_fast < usual.frames_fast


@pytest.mark.parametrize(
    ("rows", "columns", "rate_hz", "used_hz", "title"),
    [
        (512, 512, 50, 50, "at 50 Hz"),
        (512, 512, 9000, 500, "at 500 Hz (of 9000 Hz)"),
        (4000, 4000, 133, 20, "at 20 Hz (of 133 Hz)"),
        (512, 512, 0, 25, "at 25 Hz"),
    ],
)
def test_paced_phase_has_the_rate_of_the_detector_within_bounds(
    tmp_path: Path, rows: int, columns: int, rate_hz: float, used_hz: float, title: str
) -> None:
    shown = Detector(name="d", rows=rows, columns=columns, type="uint16", rate_hz=rate_hz)
    options = demo_options(tmp_path, "d", None, 2, quick=True)
    assert options.rate_of(shown) == pytest.approx(used_hz)
    assert options.paced_as(shown) == title


def test_masks_by_type() -> None:
    assert list(mask_of(numpy.array([0, 65534, 65535], "uint16"))) == [False, True, True]
    assert list(mask_of(numpy.array([-2, -1, 0, 5], "int32"))) == [True, True, False, False]
    assert list(mask_of(numpy.array([numpy.nan, 1.0], "float32"))) == [True, False]


def test_spots_survive_shrinking() -> None:
    frame = numpy.zeros((100, 70))
    frame[33, 44] = 9
    frame[60:80] = numpy.nan
    small = shrink(frame, 10)
    assert small.shape == (10, 7)
    assert numpy.nanmax(small) == 9
    assert numpy.isnan(small[6:8]).all()
    assert not numpy.isnan(small[:6]).any()


@pytest.mark.parametrize("value", [0, -1])
def test_frames_without_contrast_can_be_drawn(tmp_path: Path, value: int) -> None:
    draw_frame(numpy.full((20, 30), value, "int32"), "flat", tmp_path / "f.png")
    assert imread(tmp_path / "f.png").shape[2] in (3, 4)


def test_curves_without_points_can_be_drawn(tmp_path: Path) -> None:
    draw_throughput([Phase("none", []), Phase("one", [RatePoint(0.1, 5e6, 1e6)])], tmp_path / "t.png")
    assert (tmp_path / "t.png").exists()


def test_detector_bytes() -> None:
    detector = Detector.model_validate(
        {"name": "d", "rows": 2527, "columns": 2463, "type": "int32", "rate_hz": 25}
    )
    assert detector.frame_bytes == 24_896_004
    assert detector.bytes_per_s == pytest.approx(622.4e6, rel=1e-3)
