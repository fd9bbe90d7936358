"""The catalogue of detectors."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import application
from penstock.cli.detector_choice import choose_detector
from penstock.model.catalogue import (
    COUNTING_TYPES,
    PAGE,
    Detector,
    custom_detector,
    detector_named,
    find_detector,
    frames_for,
    read_catalogue,
    replayed_detector,
)
from penstock.model.errors import UsageError
from penstock.programs.locate import detectors_folder
from penstock.programs.simulate import parse_rate
from penstock.report.plan.detectors import detector_sheet


@pytest.fixture(scope="module")
def catalogue() -> Mapping[str, Detector]:
    return read_catalogue(detectors_folder())


FAMILIES = {
    "EIGER2": 10,
    "PILATUS ": 1,
    "PILATUS3": 7,
    "PILATUS4": 5,
    "JUNGFRAU": 6,
    "LAMBDA": 4,
    "Merlin": 2,
    "MAXIPIX": 2,
    "EXCALIBUR": 1,
    "Timepix": 2,
    "MYTHEN": 3,
    "Rayonix": 5,
    "pco.": 3,
    "Zyla": 2,
}


def test_families_are_complete(catalogue: Mapping[str, Detector]) -> None:
    assert len(catalogue) >= 40
    for family, count in FAMILIES.items():
        found = [detector.name for detector in catalogue.values() if detector.name.startswith(family)]
        assert len(found) == count, (family, found)


def test_every_detector_is_plausible(catalogue: Mapping[str, Detector]) -> None:
    for key, detector in catalogue.items():
        assert detector.type in COUNTING_TYPES, key
        assert detector.pixel_size_m is not None, key
        assert 1e-6 <= detector.pixel_size_m[1] <= 1e-3, key
        covered = sum(gap.rows * gap.columns for gap in detector.gaps)
        assert covered < 0.3 * detector.rows * detector.columns, key
        if detector.typical_rate_hz and detector.rate_hz:
            assert detector.typical_rate_hz <= detector.rate_hz, key
        if detector.saturation_value is not None and detector.bit_depth is not None:
            assert detector.saturation_value < 2 ** max(detector.bit_depth, 32), key


def test_most_rates_and_ratios_are_known_and_none_is_made_up(catalogue: Mapping[str, Detector]) -> None:
    known = [detector for detector in catalogue.values() if detector.rate_hz]
    assert len(known) >= 40
    assert catalogue["timepix3-quad"].rate_hz == 0, "it sends events, and no frames"
    assert catalogue["jungfrau-4m"].compression is None, "of raw frames nobody published it"
    ratios = [detector.compression for detector in catalogue.values() if detector.compression]
    assert {each.basis for each in ratios} == {"measured", "published", "simulated"}


def test_names_are_found_however_they_are_written(catalogue: Mapping[str, Detector]) -> None:
    for name in ("pilatus-6m", "PILATUS 6M", "Pilatus_6M", "pilatus6m"):
        detector = find_detector(catalogue, name)
        assert (detector.rows, detector.columns) == (2527, 2463)


def test_an_unknown_name_is_answered_with_near_ones(catalogue: Mapping[str, Detector]) -> None:
    with pytest.raises(UsageError) as caught:
        find_detector(catalogue, "pilatus-66m")
    assert "pilatus-6m" in caught.value.remedy


def test_a_detector_is_found_by_its_file_alone_or_by_its_own_name(
    catalogue: Mapping[str, Detector], tmp_path: Path
) -> None:
    for name in ("pilatus-6m", "PILATUS 6M", "Pilatus_6M"):
        assert detector_named(detectors_folder(), name) == catalogue["pilatus-6m"]
    (tmp_path / "of-mine.yaml").write_text("name: other\nrows: 4\ncolumns: 4\ntype: uint16\n")
    (tmp_path / "bad.yaml").write_text("no detector\n")
    assert detector_named(tmp_path, "of-mine").name == "other"
    (tmp_path / "bad.yaml").unlink()
    assert detector_named(tmp_path, "other").rows == 4


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


FILE = """\
name: ours
rows: 100
columns: 200
type: uint16
rate_hz: 50
compression: {low: 2, typical: 5, high: 9, basis: measured, source: our images}
"""


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("rows: 100\n", "", ["the required field `rows` is missing"]),
        ("rate_hz: 50", "rate_hs: 50", ["mine.yaml:5: unknown field `rate_hs`", "rate_hz"]),
        ("columns: 200", "columns: 0", ["mine.yaml:3: columns: 0 is below the minimum of 1"]),
        ("type: uint16", "type: uint12", ["type", "uint12"]),
        ("low: 2", "low: 0.5", ["compression.low", "0.5"]),
        ("low: 2", "low: 6", ["low 6, typical 5, high 9 are not in order"]),
        ("basis: measured", "basis: guessed", ["compression.basis", "guessed"]),
    ],
)
def test_wrong_detector_files_name_field_and_remedy(
    was: str, becomes: str, words: list[str], tmp_path: Path
) -> None:
    assert was in FILE
    file = tmp_path / "mine.yaml"
    file.write_text(FILE.replace(was, becomes), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        choose_detector("plan", str(file))
    said = caught.value.message + caught.value.remedy
    for word in [*words, "mine.yaml"]:
        assert word in said, said
    assert PAGE in said or was != "rows: 100\n", said


def test_own_detector_is_chosen_by_path_or_as_custom(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE, encoding="utf-8")
    by_path = choose_detector("verdict", str(file))
    assert (by_path.name, by_path.frame_bytes, by_path.rate_hz) == ("ours", 40_000, 50)
    assert choose_detector("verdict", "custom", file=file) == by_path
    assert by_path.pixel_size_m is None, "what the file leaves out stays unknown"
    assert "pixel_size_m" not in by_path.for_plan()
    for refused in (
        {"name": "pilatus-6m", "file": file},
        {"name": "custom", "file": file, "rows": 5},
        {"name": str(file), "rows": 5},
    ):
        with pytest.raises(UsageError):
            choose_detector("verdict", **refused)  # type: ignore[arg-type]


def test_unknown_values_are_shown_as_unknown(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: ours\nrows: 1\ncolumns: 2\ntype: uint8\n", encoding="utf-8")
    console = Console(width=200)
    with console.capture() as shown:
        console.print(detector_sheet(choose_detector("detectors", str(tmp_path / "mine.yaml"))))
    words = " ".join(shown.get().split())
    for what in ("maximum rate", "pixel size", "sensor", "compression ratio"):
        assert f"{what} unknown" in words, words


def test_unknown_rate_is_asked_for_instead_of_sending_unpaced(catalogue: Mapping[str, Detector]) -> None:
    with pytest.raises(UsageError, match=r"the rate of EIGER2 X 1M-W is unknown") as caught:
        parse_rate("", catalogue["eiger2-1m-w"])
    assert "--rate HZ" in caught.value.remedy
    assert parse_rate("20", catalogue["eiger2-1m-w"]) == 20
    assert parse_rate("", catalogue["pilatus-6m"]) == 25


@pytest.mark.parametrize(
    "arguments",
    [
        ["verdict", "custom", "FOLDER", "--file", "FILE", "--dry-run"],
        ["verdict", "FILE", "FOLDER", "--dry-run"],
        ["simulate", "custom", "--file", "FILE", "--frames", "3", "--dry-run"],
        ["simulate", "FILE", "--frames", "3", "--dry-run"],
        ["advise", "custom", "--file", "FILE", "--folder", "FOLDER"],
        ["plan", "2xFILE@10"],
        ["detectors", "FILE"],
    ],
)
def test_commands_read_the_file_of_an_own_detector(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE, encoding="utf-8")
    made = [each.replace("FILE", str(file)).replace("FOLDER", str(tmp_path)) for each in arguments]
    shown = CliRunner().invoke(application, made, catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "ours" in shown.output or arguments[0] == "advise"
    file.write_text(FILE.replace("columns: 200\n", ""), encoding="utf-8")
    refused = CliRunner().invoke(application, made, catch_exceptions=False)
    assert refused.exit_code == 2
    assert "the required field `columns` is missing" in " ".join(refused.output.split())
