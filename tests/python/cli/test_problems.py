"""What is wrong with a document, a description or an option is told in words of our own."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from campaign_documents import made_up_run
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from penstock.bench.campaign.campaigns import plan_campaign
from penstock.bench.run.run import Access, frames_request, stream_workload
from penstock.bench.run.workloads import parameters_of
from penstock.files.documents import parse_document
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Target
from penstock.model.errors import UsageError
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
        ({"number": 0}, "number: it must be more than 0"),
        ({"number": 10}, "number: it must be less than 10"),
        ({"number": 1.5}, "number: a whole number is expected"),
        ({"number": "x"}, "number: a whole number is expected"),
        ({"number": [1]}, "number: a whole number is expected"),
        ({"share": -1}, "share: it must be at least 0"),
        ({"share": 2}, "share: it must be at most 1"),
        ({"share": "x"}, "share: a number is expected"),
        ({"share": float("inf")}, "share: a finite number is expected"),
        ({"name": 5}, "name: a text is expected"),
        ({"name": "a"}, "name: its length must be at least 2"),
        ({"name": "abcde"}, "name: its length must be at most 4"),
        ({"name": "A1"}, "name: it must fit the pattern ^[a-z]*$"),
        ({"numbers": 1}, "numbers: a list is expected"),
        ({"numbers": []}, "numbers: its length must be at least 1"),
        ({"numbers": [1, 2, 3]}, "numbers: its length must be at most 2"),
        ({"inner": 1}, "inner: a set of fields is expected"),
        ({"flag": "x"}, "flag: true or false is expected"),
        ({"colour": 1}, "colour: there is no such field"),
        (5, "a set of fields is expected"),
    ],
)
def test_the_words(values: Any, words: str) -> None:
    with pytest.raises(ValidationError) as found:
        Small.model_validate(values)
    (problem,) = found.value.errors()
    place = place_of(problem)
    assert f"{place}: {words_of(problem)}".removeprefix(": ") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it ends in the middle, at line 1, column 0"),
        ('{"a": ', "it ends in the middle, at line 1, column 6"),
        ("hello", "it is no JSON, at line 1, column 1"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_broken_json(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(Small).validate_json(text)
    assert words_of(found.value.errors()[0]).startswith(words)


GOOD: dict[str, Any] = json.loads(made_up_run().model_dump_json())
BAD_DOCUMENTS = {
    "it ends in the middle": json.dumps(GOOD)[:5000],
    "its field `ceiling_hz`: a number is expected": json.dumps(GOOD | {"ceiling_hz": "fast"}),
    "its field `document`: it is missing": json.dumps({key: GOOD[key] for key in GOOD if key != "document"}),
    "its field `validity`: it must be 'valid', 'warned' or 'invalid'": json.dumps(
        GOOD | {"validity": "fine"}
    ),
    "its field `checks`: a list is expected": json.dumps(GOOD | {"checks": 5}),
    "its 'format' is 5; it must be one of 'penstock-run 1'": json.dumps({"format": 5}),
    "its 'format' is missing": "{}",
    "it is no JSON": "hello",
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
    """Without the values, which may be any words."""
    return re.sub(r"\(given: .*\)", "", error.message)


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
        ("Items: 5", "c.yaml:3: the name `Items`: small letters, digits and _, a letter first, are expected"),
        ("7: 5", "c.yaml:3: the name 7 is no text; put it in quotes"),
        ("file_size: 1 GiB", "c: the case of the campaign: `file_size` is 1 GiB: it must be at most 64 MiB"),
        ("shift: 70", "c: the case of the campaign: `shift` 70 is not possible with `threads` 1"),
        ("depth: 30", "`depth` of the workload metadata: it must be at most 20 (given: 30)"),
        ("size: 5", "`size` of the workload metadata: there is no such parameter"),
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
