"""Names of experiment, user, sample and title: from the configuration, `--set`, and the start message."""

from pathlib import Path

import h5py
import pytest
from conftest import Recorded, Run
from detector_stream import frames_of, start_message
from test_nexus import tool

from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.overrides import RecordOptions, configuration_from

FRAMES = frames_of("uint16")
PLACES = {
    "title": "/entry/title",
    "sample_name": "/entry/sample/name",
    "user_name": "/entry/user/name",
    "experiment_identifier": "/entry/experiment_identifier",
}
NAMES = {
    "title": "Run 3",
    "sample_name": "lysozyme µ",
    "user_name": "A. Person",
    "experiment_identifier": "007",
}


def names_in(path: Path) -> dict[str, str]:
    with h5py.File(path) as file:
        return {name: file[place].asstr()[()] for name, place in PLACES.items() if place in file}


def set_(**names: str) -> list[str]:
    return [word for name, value in names.items() for word in ("--set", f"nexus.{name}={value}")]


def test_names_are_where_nexus_has_them(recorded: Recorded) -> None:
    path = recorded(FRAMES, *set_(**NAMES))
    assert names_in(path) == NAMES
    with h5py.File(path) as file:
        assert file["/entry/user"].attrs["NX_class"] == "NXuser"
        assert file["/entry/data/title"].asstr()[()] == "Run 3"
    assert "Total number of errors: 0" in tool("nxvalidate", str(path))


def test_names_that_nobody_set_are_left_out(recorded: Recorded) -> None:
    assert names_in(recorded(FRAMES)) == {"title": "s", "sample_name": "unknown"}


def test_the_start_message_goes_before(recorded: Recorded) -> None:
    sent = {"penstock": {"nexus": {"user_name": "B. Person"}}}
    start = {**start_message("uint16", len(FRAMES)), "user_data": sent}
    assert names_in(recorded(FRAMES, *set_(**NAMES), start=start)) == {**NAMES, "user_name": "B. Person"}


@pytest.mark.parametrize("layout", ["nxtomo", "raw"])
def test_layouts_without_a_place_keep_the_names(recorded: Recorded, layout: str) -> None:
    with h5py.File(recorded(FRAMES, "--layout", layout, *set_(**NAMES))) as file:
        assert file["/entry/penstock/series/user/name"].asstr()[()] == "A. Person"
        assert file["/entry/penstock/series/experiment_identifier"].asstr()[()] == "007"


def configured(path: Path | None, *settings: str) -> Configuration:
    return configuration_from(path, RecordOptions(settings=list(settings)))


def test_settings_change_single_fields(tmp_path: Path) -> None:
    path = tmp_path / "recorder.yaml"
    path.write_text("nexus: {title: a, source_name: ESRF}\nstore: {durability: interval}\n", encoding="utf-8")
    found = configured(
        path, "nexus.title=b=c", "store.sync_interval_ms=500", "pool_bytes=2 GiB", "resume=true"
    )
    assert (found.nexus.title, found.nexus.source_name) == ("b=c", "ESRF")
    assert (found.store.durability, found.store.sync_interval_ms) == ("interval", 500)
    assert (found.pool_bytes, found.resume) == (2 << 30, True)


def test_options_go_before_settings() -> None:
    options = RecordOptions(given={("threads",): 3}, settings=["threads=5"])
    assert configuration_from(None, options).threads == 3


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("nexus.title", "--set nexus.title is not FIELD=VALUE"),
        ("nexus.titel=a", 'nexus.titel is not a field; did you mean "title"?'),
        ("nexus.title.more=a", "nexus.title.more is not a field"),
        ("store.sync_interval_ms=[", "[ is not a YAML value"),
        ("store.sync_interval_ms=-1", "--set store.sync_interval_ms: "),
        ("nexus.title=" + 257 * "x", "--set nexus.title: "),
    ],
)
def test_wrong_settings_are_named(setting: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        configured(None, setting)
    assert expected in error.value.message


def test_the_command_takes_settings(run: Run, tmp_path: Path) -> None:
    done = run("record", "--folder", str(tmp_path), "--set", "nexus.sample=x", "--dry-run")
    assert done.returncode == 2
    assert 'did you mean "sample_name"?' in done.stderr
