"""What is wrong with a document, a description or an option is told in words of our own."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.main
from campaign_documents import made_up_run
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typer.testing import CliRunner

from penstock.bench.campaign.campaigns import plan_campaign
from penstock.bench.run.run import Access, frames_request, stream_workload
from penstock.bench.run.workloads import parameters_of
from penstock.cli import application
from penstock.cli.lazy import argument_name
from penstock.files.documents import parse_document
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Target
from penstock.model.configuration import Configuration
from penstock.model.errors import ExitCode, UsageError
from penstock.model.problems import place_of, words_of
from penstock.model.yaml_file import parse_yaml

OF_PYDANTIC = re.compile(
    r"Input |should |Field required|Extra inputs|permitted|valid (string|integer|number|boolean|list|dict)"
    r"|Value error|parse string|tag |discriminator|errors\.pydantic|type=|instance of|Invalid JSON"
)


class Small(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = Field(1, gt=0, lt=10)
    share: float = Field(0.5, ge=0, le=1, allow_inf_nan=False)
    name: str = Field("ab", min_length=2, max_length=4, pattern="^[a-z]*$")
    numbers: list[int] = Field([1], min_length=1, max_length=2)
    inner: dict[str, int] = {}
    flag: bool = False


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"number": 0}, "number: 0 must be greater than 0"),
        ({"number": 10}, "number: 10 must be less than 10"),
        ({"number": 1.5}, "number: 1.5 is not a whole number"),
        ({"number": "x"}, 'number: "x" is not a whole number'),
        ({"number": [1]}, "number: [1] is not a whole number"),
        ({"share": -1}, "share: -1 is below the minimum of 0"),
        ({"share": 2}, "share: 2 exceeds the maximum of 1"),
        ({"share": "x"}, 'share: "x" is not a number'),
        ({"share": float("inf")}, "share: inf is not a finite number"),
        ({"name": 5}, "name: 5 is not text"),
        ({"name": "a"}, 'name: "a" is shorter than the minimum of 2 characters'),
        ({"name": "abcde"}, 'name: "abcde" is longer than the maximum of 4 characters'),
        ({"name": "A1"}, 'name: "A1" does not match the pattern ^[a-z]*$'),
        ({"numbers": 1}, "numbers: 1 is not a list"),
        ({"numbers": []}, "numbers: [] has fewer items than the minimum of 1"),
        ({"numbers": [1, 2, 3]}, "numbers: [1, 2, 3] has more items than the maximum of 2"),
        ({"inner": 1}, "inner: 1 is not a YAML mapping"),
        ({"flag": "x"}, 'flag: "x" is not true or false'),
        ({"colour": 1}, "colour: this field is unknown"),
        ({"number": {"a": 1}}, "number: a YAML mapping is not a whole number"),
        ({"numbers": {"a": 1}}, "numbers: a YAML mapping is not a list"),
        (5, "5 is not a YAML mapping"),
    ],
)
def test_the_words(values: Any, words: str) -> None:
    with pytest.raises(ValidationError) as found:
        Small.model_validate(values)
    (problem,) = found.value.errors()
    place = place_of(problem)
    assert f"{place}: {words_of(problem)}".removeprefix(": ") == words


def test_a_value_of_json_is_no_yaml() -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(Small).validate_json('{"number": [{}], "inner": 1}')
    words = [words_of(problem, of_json=True) for problem in found.value.errors()]
    assert words == ["[a JSON object] is not a whole number", "1 is not a JSON object"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it ends prematurely, at line 1, column 0"),
        ('{"a": ', "it ends prematurely, at line 1, column 6"),
        ("hello", "it is not JSON, at line 1, column 1"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_broken_json(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(Small).validate_json(text)
    assert words_of(found.value.errors()[0]).startswith(words)


GOOD: dict[str, Any] = json.loads(made_up_run().model_dump_json())
BAD_DOCUMENTS = {
    "it ends prematurely": json.dumps(GOOD)[:5000],
    "its field `ceiling_hz`: it is not a number": json.dumps(GOOD | {"ceiling_hz": "fast"}),
    "its field `document`: this field is required and missing": json.dumps(
        {key: GOOD[key] for key in GOOD if key != "document"}
    ),
    "its field `validity`: it is not allowed; expected 'valid', 'warned' or 'invalid'": json.dumps(
        GOOD | {"validity": "fine"}
    ),
    "its field `document`: it is not a JSON object": json.dumps(GOOD | {"document": 5}),
    "its field `checks`: it is not a list": json.dumps(GOOD | {"checks": 5}),
    "its 'format' '5' is unknown; expected one of 'penstock-run 1'": json.dumps({"format": 5}),
    "its 'format' is missing": "{}",
    "it is not JSON": "hello",
}


@pytest.mark.parametrize("words", BAD_DOCUMENTS)
def test_documents_are_refused_in_our_words(words: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_document(BAD_DOCUMENTS[words].encode(), "it.json")
    assert words in found.value.message
    assert not OF_PYDANTIC.search(found.value.message), found.value.message
    assert "penstock-run 1." not in found.value.message


@pytest.mark.parametrize("change", [{"format": "penstock-run 2"}, {"colour": "red"}])
def test_a_document_of_a_later_version_says_what_to_do(change: dict[str, str]) -> None:
    with pytest.raises(UsageError) as found:
        parse_document(json.dumps(GOOD | change).encode(), "it.json")
    assert "later one" in found.value.remedy
    assert next(iter(change.values())) in found.value.message or "colour" in found.value.message
    with pytest.raises(UsageError) as damaged:
        parse_document(
            json.dumps(GOOD | change | {"checks": 5, "format": "penstock-run 1"}).encode(), "it.json"
        )
    assert "later one" not in damaged.value.remedy


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def told(error: UsageError) -> str:
    """Returns the message without the values of users, which may be any words."""
    return re.sub(r'"[^"]*"', "", error.message)


@given(value=Json, name=st.sampled_from(sorted(GOOD)))
@settings(max_examples=200, deadline=None)
def test_no_damaged_document_shows_pydantics_words(value: Any, name: str) -> None:
    with suppress(UsageError):
        try:
            parse_document(json.dumps(GOOD | {name: value}).encode(), "it.json")
        except UsageError as error:
            assert not re.search(r"Input should|Field required|Extra inputs|Value error", told(error))
            raise


@pytest.mark.parametrize(
    "text",
    [
        "title: [1]\nworkload: frames",
        "title: ''\nworkload: frames",
        "title: x\nworkload: frames\nblocks: 0",
        "title: x\nworkload: frames\nblocks: many",
        "title: x\nworkload: frames\ncases: []",
        "title: x\nworkload: frames\ncases: 5",
        "title: x\nworkload: frames\nvary: [1]",
        "title: x\nworkload: frames\nscale: .inf",
        "title: x\nworkload: frames\nviews: [{kind: plot, value: x}]",
        "title: x\nworkload: frames\nviews: [{kind: pie}]",
        "title: x\nworkload: frames\nparameters: {Rate: 5}",
        "title: x\nworkload: frames\nvary: {rate: []}",
    ],
)
def test_descriptions_are_refused_in_our_words(text: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_yaml(text, CampaignFile, "c.yaml")
    assert not OF_PYDANTIC.search(told(found.value)), found.value.message


def planned(parameters: str) -> None:
    text = f"title: x\nworkload: metadata\nparameters: {{{parameters}}}"
    plan_campaign("c", parse_yaml(text, CampaignFile, "c.yaml"), [Target(name="a", path="/")], seed=1)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("Items: 5", 'c.yaml:3: the name `Items`: "Items" must consist of lower-case letters, digits and _'),
        ("7: 5", "c.yaml:3: the name 7 is not text; put it in quotes"),
        ("file_size: 1 GiB", "c: the case of the campaign: `file_size`: 1 GiB exceeds the maximum of 64 MiB"),
        ("shift: 70", "c: the case of the campaign: `shift` 70 is not possible with `threads` 1"),
        ("depth: 30", "`depth` of the workload metadata: 30 exceeds the maximum of 20"),
        ("size: 5", "`size` of the workload metadata: this parameter is unknown"),
    ],
)
def test_campaigns_are_refused_in_the_words_of_their_descriptions(parameters: str, words: str) -> None:
    with pytest.raises(UsageError) as found:
        planned(parameters)
    assert words in found.value.message
    assert "--" not in found.value.message + found.value.remedy


def test_options_are_refused_in_our_words() -> None:
    for make in (
        lambda: parameters_of("frames", {"rate": "fast"}),
        lambda: parameters_of("stream", {"threads": 0}),
        lambda: parameters_of("stream", {"order": "backwards"}),
        lambda: frames_request(1, 1e9, 1, 1, 1, None, "file_a_frame", Access()),
        lambda: frames_request(0, 10, 1, 1, 1, None, "file_a_frame", Access()),
        lambda: stream_workload(1, 4096, 0, True, True, 0, direct=False),
    ):
        with pytest.raises(UsageError) as found:
            make()
        assert not OF_PYDANTIC.search(told(found.value)), found.value.message
        assert found.value.remedy


def test_no_other_place_shows_pydantics_words() -> None:
    """Whoever takes a message out of a problem takes ours."""
    package = Path(__file__).resolve().parents[3] / "python" / "penstock"
    taking = [
        path.name for path in package.rglob("*.py") if re.search(r'\[["\']msg["\']\]', path.read_text())
    ]
    assert taking == ["problems.py"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "eiger2-16m", "--days-per-week", "5d"], '--days-per-week: "5d" is not a number of days'),
        (["bench", "frames", "/", "--rate", "100Hz"], '--rate: "100Hz" is not a rate in Hz'),
        (["verdict", "pilatus-6m", "/", "--soak", "10m"], '--soak: "10m" is not a number of seconds'),
        (["verdict", "pilatus-6m", "/", "--seconds", "x"], '--seconds: "x" is not a number of seconds'),
        (["check", "x.h5", "--threads", "0"], "--threads: 0 is below the minimum of 1"),
        (["record", "--threads", "two"], '--threads: "two" is not a whole number'),
        (["plan", "--encoding", "bslz"], "--encoding: \"bslz\" is not allowed; expected 'none'"),
    ],
)
def test_options_that_typer_reads_are_refused_in_our_words(arguments: list[str], words: str) -> None:
    shown = CliRunner().invoke(application, arguments)
    assert shown.exit_code == ExitCode.USAGE
    assert words in shown.output
    assert "--help` lists" in shown.output
    assert not OF_PYDANTIC.search(re.sub(r'"[^"]*"', "", shown.output)), shown.output


def test_every_number_of_every_command_is_refused_in_our_words() -> None:
    """No command reports the wording of pydantic for a number."""
    for names, command in commands_below(typer.main.get_command(application), ()):
        for option in command.params:
            described = getattr(option, "type_descriptor", None)
            if described is None or described.annotation not in (int, float) or option.opts[0][:2] != "--":
                continue
            shown = CliRunner().invoke(application, [*names, option.opts[0], "x1", *["/"] * 3])
            assert f'{option.opts[0]}: "x1" is not a ' in shown.output, shown.output


def test_help_of_json_names_only_options_of_the_command() -> None:
    for names, command in commands_below(typer.main.get_command(application), ()):
        options = {name for each in command.params for name in each.opts}
        for option in command.params:
            if "--json" in option.opts:
                assert set(re.findall(r"--[a-z-]+", option.help)) <= options, names


def test_every_empty_path_of_every_command_is_named_as_empty() -> None:
    """Python takes it for the current directory."""
    tried = 0
    for names, command in commands_below(typer.main.get_command(application), ()):
        paths = [each for each in command.params if "Path" in str(each.type_descriptor.annotation)]
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        for parameter in paths:
            is_argument = parameter in arguments
            given = ["/"] * arguments.index(parameter) + [""] if is_argument else [parameter.opts[0], ""]
            shown = CliRunner().invoke(application, [*names, *given])
            name = (
                argument_name(parameter).removesuffix("...") if is_argument else max(parameter.opts, key=len)
            )
            assert shown.exit_code == ExitCode.USAGE
            assert f"error: {name}: the path is empty\n" in shown.output, (names, shown.output)
            tried += 1
    assert tried > 70
    shown = CliRunner().invoke(application, ["bench", "frames", "/", "--content-file", ""])
    assert "error: --content-file: the path is empty\n" in shown.output  # an option of text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pool: 1 GiB", 'did you mean "pool_bytes"?'),
        ("pool_bytes: 1 KiB", "pool_bytes: 1 KiB is below the minimum of 64 MiB"),
        ("frame_bytes_max: 8 GiB", "frame_bytes_max: 8 GiB exceeds the maximum of 4.29 GB"),
        ("codec: {filter: []}", "codec.filter: [] is not text"),
        ("codec: {parameters: x}", 'codec.parameters: "x" is not a list'),
        ("file_mode: 0640", 'file_mode: 0640 must be in quotes: file_mode: "0640"'),
        ("file_mode: 640", 'file_mode: 640 must be in quotes: file_mode: "0640"'),
        ("file_mode: '999'", 'file_mode: "999" is not an octal mode'),
        ("codec: {filter: lz4, encoding: bslz4}", "codec: filter and encoding exclude each other"),
        ("codec: {encoding: lz4, level: 3}", "codec: level is 3, but lz4 has no levels"),
        ('file_name: "{run}.h5"', "file_name: unknown placeholder {run}"),
        ("files: {layout: split}", "--frames-per-file N"),
    ],
)
def test_a_configuration_is_refused_by_its_fields_and_in_units(text: str, words: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_yaml(text, Configuration, "c.yaml")
    assert words in found.value.message


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("store: {sync_interval_ms: 5 s}", "number of milliseconds without a unit, 1 to 3600000"),
        ("idle_timeout_s: 5s", "number of seconds without a unit, 0 to 86400"),
        ("metrics: 9810", '"listen: 127.0.0.1:9810"'),
        ("sources: {kind: tcp}", 'put "- " before `kind`'),
    ],
)
def test_remedy_of_a_configuration_names_what_to_write(text: str, remedy: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_yaml(text, Configuration, "c.yaml")
    assert remedy in found.value.remedy


def commands_below(command: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield names, command
        return
    for name in inner:
        yield from commands_below(inner[name], (*names, name))
