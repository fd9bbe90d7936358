"""Frames that the load generator wrote are recognized by a second implementation, and damage is counted."""

from pathlib import Path

import pytest

from penstock.bench.degraded.stored import stored_frames
from penstock.model.bench.load import (
    ContentKind,
    FramesWorkload,
    Layout,
    LoadDocument,
    LoadPlan,
    PosixBackend,
)
from penstock.programs.load import load

FRAMES = 12


def written(
    folder: Path,
    layout: Layout = "file_a_frame",
    frame_bytes: int = 100_000,
    content: ContentKind = "random",
    direct: bool = False,
) -> LoadDocument:
    plan = LoadPlan(
        backend=PosixBackend(folder=str(folder), direct=direct, sync="none"),
        workload=FramesWorkload(
            frames=FRAMES,
            frame_bytes=frame_bytes,
            rate_hz=200,
            writers=2,
            buffer_frames=FRAMES,
            layout=layout,
            late_after_s=1.0,
        ),
        content=content,
        seed=7,
        prefix="frame-",
        interval_s=0.1,
    )
    document = load(plan, lambda _: None)
    assert document.problem is None
    return document


@pytest.mark.parametrize("layout", ["file_a_frame", "file_a_writer"])
@pytest.mark.parametrize("frame_bytes", [1, 511, 4096, 100_001, 17 << 20])
def test_all_frames_are_right(tmp_path: Path, layout: Layout, frame_bytes: int) -> None:
    found = stored_frames(written(tmp_path, layout, frame_bytes), tmp_path)
    assert found is not None
    assert (found.written, found.wrong) == (FRAMES, 0)


def test_zeros_are_not_judged_because_a_hole_reads_as_zeros(tmp_path: Path) -> None:
    assert stored_frames(written(tmp_path, content="zeros"), tmp_path) is None


@pytest.mark.parametrize("at", [0, 5000, 99_999])
def test_a_changed_byte_is_a_wrong_frame(tmp_path: Path, at: int) -> None:
    document = written(tmp_path)
    file = sorted(tmp_path.iterdir())[3]
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    found = stored_frames(document, tmp_path)
    assert found is not None
    assert found.wrong == 1


def test_missing_short_and_exchanged_files_are_wrong(tmp_path: Path) -> None:
    document = written(tmp_path)
    files = sorted(tmp_path.iterdir())
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    two, three = files[2].read_bytes(), files[3].read_bytes()
    files[2].write_bytes(three)
    files[3].write_bytes(two)
    found = stored_frames(document, tmp_path)
    assert found is not None
    assert found.wrong == 4


def test_a_file_of_a_writer_that_is_cut_lacks_its_last_frames(tmp_path: Path) -> None:
    document = written(tmp_path, "file_a_writer")
    file = max(tmp_path.iterdir(), key=lambda path: path.stat().st_size)  # a writer may have had no frame
    frames = file.stat().st_size // 100_000
    assert frames >= 1
    with file.open("r+b") as opened:
        opened.truncate(50_000)
    found = stored_frames(document, tmp_path)
    assert found is not None
    assert found.wrong == frames
