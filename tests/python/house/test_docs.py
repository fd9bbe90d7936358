"""Pages that follow from the code agree with it, and the examples in them work."""

import functools
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from penstock.bench.campaign.campaigns import plan_campaign
from penstock.cli import application
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Target
from penstock.model.configuration import Configuration
from penstock.model.events import _BY_PROGRAM, _COMMON
from penstock.model.yaml_file import parse_yaml

ROOT = Path(__file__).resolve().parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load()


@pytest.mark.parametrize("name", generate.PAGES)
def test_pages_agree_with_the_code(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), "run: python docs/generate.py"


def test_the_page_of_events_has_every_event_and_field() -> None:
    """And no other: a table's row for each, by the program that prints it."""
    page = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    events_of = {
        "Recorder": {"listening", "series_start", "rejected", "failed", *_BY_PROGRAM["penstock-recorder"]},
        "pvAccess source": {"channel", "frame_problem", "source_progress", "source_series_end"},
        "Simulated detector": set(_BY_PROGRAM["penstock-detector"]),
    }
    programs = ("penstock-recorder", "penstock-recorder", "penstock-detector")
    for section, (title, events), program in zip(sections, events_of.items(), programs, strict=True):
        documented: dict[str, set[str]] = {}
        event = ""
        for row in re.findall(r"^\| (?!Event|---).*", section, re.MULTILINE):
            _, name, fields, *_ = row.split("|")
            event = name.strip(" `") or event
            documented.setdefault(event, set()).update(re.findall(r"`(\w+)`", fields))
        kinds = _COMMON | _BY_PROGRAM[program]
        expected = {name: set(kinds[name].model_fields) - {"event", "time"} for name in events}
        expected.pop("placement", None)  # of --show-placement, for people
        assert section.startswith(title)
        assert documented == expected


def test_the_configuration_example_is_valid() -> None:
    configuration = parse_yaml(generate.EXAMPLE, Configuration, "example")
    assert configuration.pool_bytes == 4 << 30
    assert configuration.plan({}).store.sync_interval_ms == 500


def test_the_example_of_a_campaign_can_be_planned() -> None:
    file = parse_yaml(generate.CAMPAIGN_EXAMPLE, CampaignFile, "example")
    plan = plan_campaign("example", file, [Target(name="here", path="/tmp")], seed=1)
    assert [case.name for case in plan.campaign.cases] == ["rate=10", "rate=20", "rate=40"]


COMMAND_PAGES = [
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").rglob("*.md")),
    ROOT / "docs" / "reference" / "cli.md",
    ROOT / "docs" / "README.md",
    ROOT / "README.md",
]
# In a sentence a command may have a name for what the user puts there, or stand for several.
PLACEHOLDER = re.compile(r"…|[A-Z]+")


def commands(path: Path) -> list[str]:
    """The penstock commands in a page's console blocks and sentences."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```(?:console|bash|sh|shell)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines += re.findall(r"(?<!`)`(penstock [^`]+)`", prose)
    return [line for line in lines if re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?penstock ", line)]


@functools.cache
def help_of(*command: str) -> str:
    shown = CliRunner().invoke(application, [*command, "--help"])
    assert shown.exit_code == 0, f"penstock {' '.join(command)}"
    return shown.output


@pytest.mark.parametrize("path", COMMAND_PAGES, ids=lambda path: path.name)
def test_options_in_the_documentation_exist(path: Path) -> None:
    """Each command line of the pages names a command and options that its help knows."""
    for line in commands(path):
        words = shlex.split(line.partition(" #")[0].rstrip("&"))
        words = words[[word.endswith("penstock") for word in words].index(True) + 1 :]
        words = words[: words.index("--")] if "--" in words else words  # a command on a client follows
        command = words[:2] if words[0] in ("bench", "lab", "layout", "runs") else words[:1]
        command = [word for word in command if not PLACEHOLDER.fullmatch(word)]
        if not command or words[0].startswith("-"):
            continue
        shown = help_of(*command)
        for word in words[1:]:
            if word.startswith("--"):
                assert re.search(rf"(?<![\w-]){re.escape(word.partition('=')[0])}(?![\w-])", shown), (
                    f"{path}: {line}"
                )


@pytest.mark.parametrize("path", COMMAND_PAGES, ids=lambda path: path.name)
def test_configurations_in_the_documentation_are_valid(path: Path) -> None:
    """YAML blocks that name sources are whole or partial configurations, those with a workload campaigns."""
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
        if "sources:" in block:
            parse_yaml(block, Configuration, str(path))
        if "workload:" in block:
            described = parse_yaml(block, CampaignFile, str(path))
            plan_campaign("example", described, [Target(name="here", path="/tmp")], seed=1)


def test_figures_of_the_readme_are_measured() -> None:
    """Each "Penstock / peer" pair is in the benchmarks: update it when they are measured again."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"[\d.,]+ / [\d.,]+ GB/s", readme)
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert pairs
    assert [pair for pair in pairs if f"| {pair} |" not in measured] == []
