"""Helps, completion, width and verbosity of the commands."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner
from warm_command import penstock

from penstock.cli import application
from penstock.cli.application import COMMANDS
from penstock.cli.lazy import LaterGroup
from penstock.model import panels

runner = CliRunner()
PREPOSITIONS = (
    "above", "after", "as", "at", "before", "behind", "beside", "between", "beyond", "by", "for", "from",
    "in", "into", "of", "on", "over", "past", "than", "that", "through", "to", "under", "with", "within",
    "without",
)  # fmt: skip
# Conditions such as "With --measure: number of files to create." start with the option that they need.
CONDITION = "With --"
# They have groups for some of their options only.


def _commands() -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = []
    for name, later in COMMANDS.items():
        names += [(name, under) for under in later.commands] if isinstance(later, LaterGroup) else [(name,)]
    return names


def _command(names: tuple[str, ...]) -> Any:
    found: Any = typer.main.get_command(application)
    for name in names:
        found = found.commands[name]
    return found


@pytest.mark.parametrize("names", _commands())
def test_helps_start_with_a_verb_or_noun_and_stand_alone(names: tuple[str, ...]) -> None:
    command = _command(names)
    texts = {"the command": command.help} | {str(each.opts): each.help for each in command.params}
    for where, text in texts.items():
        assert text, where
        first = text.split()[0].lower()
        assert text.startswith(CONDITION) or first not in PREPOSITIONS, f"{where}: {text}"
        assert text[0].isupper() or text.startswith("uniqueId"), f"{where}: {text}"


@pytest.mark.parametrize("names", _commands())
def test_each_option_is_in_a_known_group(names: tuple[str, ...]) -> None:
    """The group of other options is for `--help` alone."""
    options = [
        each for each in _command(names).params if each.param_type_name == "option" and each.name != "help"
    ]
    groups = {str(each.opts): each.rich_help_panel for each in options if not each.hidden}
    known = set(panels.ORDER) - {panels.OTHER}
    assert {option: group for option, group in groups.items() if group not in known} == {}


def test_ranges_have_one_style() -> None:
    shown = " ".join(CliRunner().invoke(application, ["bench", "network", "--help"]).output.split())
    assert "0.1 to 3600" in shown
    assert "<=x" not in shown
    assert "range>" not in shown


def test_options_of_record_are_in_groups() -> None:
    shown = runner.invoke(application, ["record", "--help"]).output
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Arguments:",
        "Sources:",
        "Files:",
        "Compression:",
        "Memory and threads:",
        "Series life cycle:",
        "Run:",
        "Output:",
        "Options:",
    ]


@pytest.mark.parametrize("names", _commands())
def test_usage_lines_and_types_have_one_style(names: tuple[str, ...]) -> None:
    """Arguments are FILE, [FILE] or FILE...; no other brackets, and no type of Python."""
    text = CliRunner().invoke(application, [*names, "--help"]).stdout
    usage = text.splitlines()[0].partition("[OPTIONS]")[2].split()
    assert all(re.fullmatch(r"\[?[A-Z][A-Z-]*(\.\.\.)?\]?", word) for word in usage), usage
    assert not re.search(r"<[a-z\[|_. A-Z]+>", text.partition("Examples:")[0])


def test_a_piped_help_is_not_wrapped_and_one_with_columns_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    command = [sys.executable, "-m", "penstock", "record", "--help"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert max(map(len, piped.splitlines())) > 200
    wrapped = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "90"}
    ).stdout
    assert max(map(len, wrapped.partition("Examples:")[0].splitlines())) <= 90


def test_a_piped_table_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    command = [sys.executable, "-m", "penstock", "detectors"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    folder = Path(__file__).resolve().parents[3] / "detectors"
    rows = [line for line in piped.splitlines() if line.split()[:1] and line.split()[0] != "name"]
    names = {line.split()[0].strip("│┃") for line in rows}
    assert {path.stem for path in folder.glob("*.yaml")} <= names


@pytest.mark.parametrize("arguments", [["detectors", "pilatus-6m"], ["plan", "pilatus-6m"], ["detectors"]])
def test_piped_lines_have_no_blanks_at_their_ends(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables pad their last column, which makes hundreds of blanks where a cell is long."""
    monkeypatch.delenv("COLUMNS", raising=False)
    command = [sys.executable, "-m", "penstock", *arguments]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["Record a detector", "Measure storage and networks"]),
        (["record"], ["Usage: penstock record", "--folder"]),
        (["bench", "frames"], ["Usage: penstock bench frames", "--frame-size"]),
        (["bench"], ["Usage: penstock bench", "metadata"]),
    ],
)
def test_help_shows_the_help_of_a_command(arguments: list[str], words: list[str]) -> None:
    shown = runner.invoke(application, ["help", *arguments])
    assert shown.exit_code == 0
    assert [word for word in words if word not in shown.output] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recrod"], ["`recrod`", "did you mean `penstock record`?"]),
        (["bench", "frame"], ["`frame`", "did you mean `penstock bench frames`?"]),
        (["record", "x"], ["`x`", "penstock record --help"]),
    ],
)
def test_help_of_an_unknown_command_names_a_similar_one(arguments: list[str], words: list[str]) -> None:
    shown = runner.invoke(application, ["help", *arguments])
    assert shown.exit_code == 2
    assert [word for word in words if word not in shown.stderr] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("penstock rec", {"record", "recover"}),
        ("penstock simulate pil", {"pilatus-6m"}),
        ("penstock verdict eiger2-16", {"eiger2-16m"}),
        ("penstock plan 2xpil", {"2xpilatus-6m"}),
        ("penstock demo --detector pil", {"pilatus-6m"}),
        ("penstock record --layout nx", {"nxmx", "nxtomo", "nxdata-scan"}),
        ("penstock layout show nxt", {"nxtomo"}),
        ("penstock campaign pilatus-6m-r", {"pilatus-6m-rates"}),
        ("penstock plan --block nvme", {"nvme-server-example"}),
        ("penstock help bench fr", {"frames"}),
        ("penstock bench str", {"stream"}),
        ("penstock bench stream --sync ea", {"each"}),
    ],
)
def test_names_complete_with_tab(words: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert expected <= set(penstock().stdout.split())


def test_completion_script_is_for_this_command() -> None:
    shown = runner.invoke(application, ["--help"]).output
    assert "--install-completion" in shown
    assert "--show-completion" in shown


def test_help_of_the_commands_is_fast() -> None:
    """Measured 0.06 s alone; processor time does not depend on other load."""
    best = 1e9
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "penstock", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.3


def test_quiet_and_verbose_exclude_each_other() -> None:
    shown = runner.invoke(application, ["advise", "pilatus-6m", "--quiet", "--verbose"])
    assert shown.exit_code == 2
    assert "--quiet and --verbose exclude each other" in shown.stderr


@pytest.mark.slow
def test_quiet_prints_no_plan_and_verbose_names_the_program(tmp_path: Path) -> None:
    def bench(*options: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "penstock", "bench", "frames", str(tmp_path), "--rate", "0"]
        small = ("--frames", "4", "--frame-size", "4KiB", "--writers", "1", "--yes", *options)
        done = subprocess.run([*command, *small], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 4), done.stderr
        return done.stdout, done.stderr

    result, said = bench()
    assert "4 of 4" in said or "target" in said
    result, said = bench("--quiet")
    assert result
    assert "penstock-load" not in said
    assert not [line for line in said.splitlines() if not line.startswith("warning")], said
    _, said = bench("--verbose")
    assert "started " in said
    assert "penstock-load" in said
