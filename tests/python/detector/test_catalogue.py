"""The catalogue of detectors."""

from pathlib import Path

import pytest
from rich.console import Console

from penstock.model.catalogue import (
    COUNTING_TYPES,
    Detector,
    custom_detector,
    find_detector,
    frames_for,
    read_catalogue,
    replayed_detector,
)
from penstock.model.errors import UsageError
from penstock.programs.locate import detectors_folder
from penstock.report.tables import detector_sheet


@pytest.fixture(scope="module")
def catalogue() -> dict[str, Detector]:
    return read_catalogue(detectors_folder())


@pytest.mark.parametrize(
    "name",
    [
        "PCO 4000",
        "PCO Edge",
        "PILATUS 6M",
        "Excalibur",
        "EIGER2 1M",
        "EIGER2 4M",
        "EIGER2 9M",
        "EIGER2 16M",
        "PILATUS4",
        "JUNGFRAU",
        "Lambda",
    ],
)
def test_the_detectors_that_were_promised_are_there(catalogue: dict[str, Detector], name: str) -> None:
    key = "".join(letter for letter in name.lower() if letter.isalnum())
    assert any("".join(c for c in found if c.isalnum()).startswith(key) for found in catalogue), list(
        catalogue
    )


def test_every_detector_is_plausible(catalogue: dict[str, Detector]) -> None:
    for key, detector in catalogue.items():
        assert detector.type in COUNTING_TYPES, key
        assert detector.rate_hz > 0, key
        assert 1e-6 <= detector.pixel_size_m[0] <= 1e-3, key
        covered = sum(gap.rows * gap.columns for gap in detector.gaps)
        assert covered < 0.3 * detector.rows * detector.columns, key


def test_names_are_found_however_they_are_written(catalogue: dict[str, Detector]) -> None:
    for name in ("pilatus-6m", "PILATUS 6M", "Pilatus_6M", "pilatus6m"):
        detector = find_detector(catalogue, name)
        assert (detector.rows, detector.columns) == (2527, 2463)


def test_an_unknown_name_is_answered_with_near_ones(catalogue: dict[str, Detector]) -> None:
    with pytest.raises(UsageError) as caught:
        find_detector(catalogue, "pilatus-66m")
    assert "pilatus-6m" in caught.value.remedy


def test_custom() -> None:
    assert custom_detector(3, 5, None).frame_bytes == 30
    for rows, columns, kind in ((None, 5, None), (0, 5, None), (5, 1 << 21, None), (5, 5, "float128")):
        with pytest.raises(UsageError):
            custom_detector(rows, columns, kind)


def test_a_gap_beyond_the_pixels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "name: bad\nrows: 4\ncolumns: 4\ntype: uint16\ngaps:\n  - {row: 3, column: 0, rows: 2, columns: 1}\n"
    )
    with pytest.raises(UsageError, match=r"gaps\[0\].*4 x 4"):
        read_catalogue(tmp_path)


def test_a_replay_keeps_gaps_only_where_the_shape_is_the_same() -> None:
    base = Detector.model_validate(
        {"name": "d", "rows": 4, "columns": 4, "type": "uint16", "gap_value": 65535}
        | {"gaps": [{"row": 1, "column": 0, "rows": 1, "columns": 4}]}
    )
    assert replayed_detector(base, 4, 4, "uint16").gaps == base.gaps
    assert replayed_detector(base, 8, 4, "uint16").gaps == []
    assert replayed_detector(base, 4, 4, "int32").gap_value is None


def test_frames_for() -> None:
    assert [frames_for(10, 25), frames_for(0.01, 25), frames_for(0.5, 3)] == [250, 1, 2]


def test_modules_and_rates_are_shown_with_units() -> None:
    detector = find_detector(read_catalogue(detectors_folder()), "eiger2-1m")
    console = Console(width=200)
    with console.capture() as shown:
        console.print(detector_sheet(detector))
    words = " ".join(shown.get().split())
    assert "2 x 1 modules of 512 x 1028 pixels, gaps 38 rows and 12 columns" in words
    assert "gaps 1 rectangle gap" in words
    assert "maximum rate 2000 Hz" in words
    assert "typical rate 500 Hz" in words
