"""What a viewer shows first: the frames as images, in logarithmic colours, with a title and an axis."""

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import pytest
import silx.io.nxdata.parse
import silx.io.utils
from conftest import Record, Recorded, Run
from detector_stream import frames_of, full_message, least_message, start_message
from mid_series import ended_in_mid_series

open_silx: Any = silx.io.utils.open
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
FRAMES = frames_of("uint16")
OWN_AXES = """\
tree:
  run:
    attributes: {NX_class: NXentry, default: plot}
    tree:
      plot:
        nxmx: /entry/data
        attributes: {axes: [dose, ".", "."]}
        tree:
          data: {frames: 0}
          dose: {metadata: dose}
attributes: {default: run}
"""
WITHOUT_AXES = OWN_AXES.replace('        attributes: {axes: [dose, ".", "."]}\n', "")
TAKEN_NAME = WITHOUT_AXES.replace("dose: {metadata: dose}", "omega: {constant: 7}")


def shown(path: Path) -> dict[str, Any]:
    """As silx has it, which rejects a plot whose axes do not fit."""
    with open_silx(str(path)) as file:
        plot: Any = silx.io.nxdata.parse.get_default(file)
        assert plot.is_valid
        assert plot.interpretation == "image"
        axis = plot.axes[0]
        return {
            "scale": plot.plot_style.signal_scale_type,
            "axes": plot.axes_names,
            "values": None if axis is None else [round(float(value), 6) for value in axis[...]],
        }


def with_frame_time(count: int) -> dict[str, object]:
    return {**start_message("uint16", count), "goniometer": {}, "frame_time": 0.25}


@pytest.mark.parametrize("announced", [len(FRAMES), 0])
def test_frames_of_a_turning_sample_have_its_angle(recorded: Recorded, announced: int) -> None:
    path = recorded(FRAMES, start=full_message("uint16", announced))
    angles = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5]
    assert shown(path) == {"scale": "log", "axes": ["omega (degree)", None, None], "values": angles}
    with h5py.File(path) as file:
        assert file["/entry/data/title"].asstr()[()] == "s"


def test_frames_of_a_still_sample_have_their_time(recorded: Recorded) -> None:
    plot = shown(recorded(FRAMES, start=with_frame_time(len(FRAMES))))
    assert plot["axes"] == ["time (s)", None, None]
    assert plot["values"] == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_frames_without_angle_and_time_have_no_axis(recorded: Recorded) -> None:
    plot = shown(recorded(FRAMES, start=least_message("uint16", len(FRAMES))))
    assert (plot["scale"], plot["axes"]) == ("log", [None, None, None])


@pytest.mark.parametrize(
    "options", [("--frames-per-file", "2"), ("--files", "per_writer"), ("--chunk-frames", "4")]
)
def test_other_files_of_a_series_have_them_too(recorded: Recorded, options: tuple[str, ...]) -> None:
    plot = shown(recorded(FRAMES, *options, start=full_message("uint16", len(FRAMES))))
    assert plot["axes"] == ["omega (degree)", None, None]


@pytest.mark.parametrize(
    ("layout", "axes"),
    [
        pytest.param(WITHOUT_AXES, ["omega (degree)", None, None], id="taken over"),
        pytest.param(OWN_AXES, ["dose", None, None], id="axes of its own"),
        pytest.param(TAKEN_NAME, [None, None, None], id="the name is taken"),
    ],
)
def test_a_layout_keeps_what_it_says(
    recorded: Recorded, tmp_path: Path, layout: str, axes: list[str | None]
) -> None:
    (tmp_path / "own.yaml").write_text(layout, encoding="utf-8")
    told = [{"dose": float(number)} for number in range(len(FRAMES))]
    path = recorded(
        FRAMES,
        "--layout",
        str(tmp_path / "own.yaml"),
        start=full_message("uint16", len(FRAMES)),
        user_data=told,
    )
    plot = shown(path)
    assert (plot["scale"], plot["axes"]) == ("log", axes)
    with h5py.File(path) as file:
        left_over = file.get("/entry/penstock/series/data", {})
        assert not set(left_over) & {"title", "omega"}


def test_nxtomo_is_logarithmic(recorded: Recorded) -> None:
    told = [{"rotation_angle": 0.5 * number} for number in range(len(FRAMES))]
    plot = shown(recorded(FRAMES, "--layout", "nxtomo", user_data=told))
    assert (plot["scale"], plot["axes"]) == ("log", ["rotation_angle (degree)", None, None])


def test_every_dataset_of_penstock_has_a_description(recorded: Recorded) -> None:
    """Below /entry/penstock, but for what the source sent under names of its own."""
    path = recorded(FRAMES, "--frames-per-file", "2", start=full_message("uint16", len(FRAMES)))
    without: list[str] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and not item.attrs.get("description"):
            without.append(name)

    with h5py.File(path) as file:
        assert {"members", "ended_by", "frame_state", "timing", "user_data"} <= set(file["/entry/penstock"])
        file["/entry/penstock"].visititems(visit)
    assert not [name for name in without if not name.startswith(("start/", "user_data_arrays/"))]
    with h5py.File(next(path.parent.glob("s_member_*.h5"))) as member:
        assert (
            member["/entry/penstock/series_unique_id"].attrs["description"]
            == "name of the series, as announced"
        )


def test_a_file_whose_recorder_died_is_shown_as_a_finished_one(
    record: Record, run: Run, tmp_path: Path
) -> None:
    path = ended_in_mid_series(record, tmp_path)
    assert run("recover", str(path)).returncode == 0
    plot = shown(path)
    assert (plot["scale"], plot["axes"]) == ("log", ["omega (degree)", None, None])
    assert len(plot["values"]) == 100_000, "as many as were announced"
