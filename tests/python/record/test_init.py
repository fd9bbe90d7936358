"""`penstock init`: the new configuration is accepted, has the defaults, and follows the models."""

import re
from pathlib import Path

import pytest
from conftest import Run as RunCommand
from typer.testing import CliRunner, Result

from penstock.cli import application
from penstock.model.configuration import Configuration, Metrics
from penstock.model.starter import ACTIVE, COMMENTED, GROUPS, starter_text
from penstock.model.yaml_file import parse_yaml


def init(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["init", *arguments], catch_exceptions=False)


def in_force(text: str) -> str:
    """Every commented field set; comments with a meaning have a blank behind their mark."""
    return re.sub(r"^( *)#(?! )", r"\1", text, flags=re.MULTILINE)


def test_the_new_configuration_has_the_defaults() -> None:
    found = parse_yaml(starter_text("x.yaml"), Configuration, "x.yaml")
    assert found.model_dump() == Configuration.model_validate({}).model_dump()


def test_every_commented_field_is_possible_and_has_its_default() -> None:
    text = in_force(starter_text("x.yaml"))
    assert text.count("\n#") < starter_text("x.yaml").count("\n#")
    found = parse_yaml(text, Configuration, "x.yaml")
    assert [source.kind for source in found.sources] == ["tcp", "zmq", "pva"]
    assert found.metrics == Metrics()
    assert {*ACTIVE, *GROUPS, *COMMENTED, "sources"} <= found.model_fields_set
    rest = {"sources", "metrics"}
    assert found.model_dump(exclude=rest) == Configuration.model_validate({}).model_dump(exclude=rest)


def test_every_field_has_its_meaning_and_its_range() -> None:
    text = starter_text("x.yaml")
    assert "# Number of compression threads (1 to 1024).\n#threads: 2\n" in text
    assert "  #sync_interval_ms: 1000\n" in text
    for name in ("folder", *COMMENTED):
        description = Configuration.model_fields[name].description or ""
        words = " ".join(re.sub(r"^ *# ", "", text, flags=re.MULTILINE).split())
        assert description[1:].rstrip(".") in words, name
    assert max(map(len, text.splitlines())) <= 110


def test_the_recorder_accepts_the_new_configuration(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init").returncode == 0
    finished = run("record", "penstock.yaml", "--dry-run")
    assert finished.returncode == 0, finished.stderr
    assert "127.0.0.1:9900" in finished.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "beam line.yaml"
    found = init(str(path))
    assert found.exit_code == 0
    assert f"penstock record '{path}' --dry-run" in found.stdout
    assert f"penstock record '{path}' --dry-run" in path.read_text(encoding="utf-8")
    path.write_text("mine", encoding="utf-8")
    again = init(str(path))
    assert again.exit_code == 2
    words = " ".join(again.output.split())
    assert f"error: {path} exists already and is not overwritten what to do: give another name" in words
    assert path.read_text(encoding="utf-8") == "mine"
    absent = init(str(tmp_path / "absent" / "x.yaml"))
    assert absent.exit_code == 2
    assert "does not exist" in absent.output
