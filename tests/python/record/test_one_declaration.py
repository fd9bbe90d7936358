"""Options are declared once on each side: models, native programs and reference agree."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from penstock.bench.run.workloads import FramesParameters, MetadataParameters, StreamParameters
from penstock.model.bench.load import LoadPlan
from penstock.model.cli_option import Cli, cli_fields
from penstock.model.configuration import Configuration
from penstock.model.plans import CheckPlan, DetectorPlan, RecorderPlan, RecoverPlan
from penstock.programs.locate import find_program

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
COMMANDS = ROOT / "python" / "penstock" / "cli"
PLANS: dict[str, type[BaseModel]] = {
    "penstock-recorder": RecorderPlan,
    "penstock-load": LoadPlan,
    "penstock-detector": DetectorPlan,
    "penstock-check": CheckPlan,
    "penstock-recover": RecoverPlan,
}
# What one side has, and why.
ONLY_NATIVE = {
    # Of tests; the defaults suit the rest.
    "penstock-detector": {"to.files.prefix", "to.tcp.window_bytes", "finish_timeout_s", "threads"},
    "penstock-check": {"dataset", "decode", "log_level"},  # of tests and of people who call it
    "penstock-recover": {"log_level", "series"},  # the recorder asks for its series itself
}
ONLY_PYTHON = {
    "penstock-recorder": {"file_mode"},  # an option of the program
    # Plans in documents: processes of their own carry out the workloads of the sciences.
    "penstock-load": {f"workload.science.{each}" for each in ("kind", "name", "jobs", "parameters")},
}
# The limit depends on another field, and each side says so in a rule of its own.
DEPENDENT = {
    "content_ratio",
    "encoding",  # the detector's: Stream V2 has no name for deflate, which the program makes for tests
    "sources.kind",  # two models on one side, and one struct on the other
    "workload.frames.image.images",
    "workload.frames.image.pixels_at",
    "workload.stream.seconds_max",
}
# What the program completes where a plan leaves it out, and a plan of `penstock` always has.
ALWAYS_GIVEN = {
    "folder",  # of the recorder: `penstock record` takes the current one
}
Facts = dict[str, Any]


@lru_cache
def description_of(program: str) -> list[Facts]:
    text = subprocess.run(
        [find_program(program), "--describe-config"], capture_output=True, text=True, check=True
    )
    described: list[Facts] = json.loads(text.stdout)
    return described


def native_facts(fields: list[Facts], path: str = "") -> Iterator[tuple[str, Facts]]:
    """Each field by its path; a kind of object is a part of it."""
    for field in fields:
        if "kinds" in field:
            for kind, inner in field["kinds"].items():
                yield f"{path}{kind}.kind", {"default": kind}
                yield from native_facts(inner, f"{path}{kind}.")
            continue
        yield path + field["name"], field
        items = field.get("items", {})
        yield from native_facts(field.get("fields", items.get("fields", [])), f"{path}{field['name']}.")


def parts_of(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return parts_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, type(int | None), list):
        return [part for inner in get_args(annotation) for part in parts_of(inner)]
    return [annotation]


def python_facts(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, Facts]]:
    for name, info in model.model_fields.items():
        parts = parts_of(info.annotation)
        models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        kinds = [each for each in models if "kind" in each.model_fields]
        yield path + name, facts_of(info, parts)
        if len(kinds) > 1:
            for each in kinds:
                (kind,) = get_args(each.model_fields["kind"].annotation)
                under = "" if name == "sources" else f"{kind}."  # one struct, and fields of both kinds
                yield from python_facts(each, f"{path}{name}.{under}")
        else:
            for each in models:
                yield from python_facts(each, f"{path}{name}.")


def facts_of(info: FieldInfo, parts: list[Any]) -> Facts:
    facts: Facts = {"required": info.is_required()}
    if info.default is not PydanticUndefined:
        facts["default"] = info.default
    of_items = get_origin(info.annotation) is list
    for limit, name in (("ge", "minimum"), ("le", "maximum")):
        found = next((getattr(item, limit) for item in info.metadata if hasattr(item, limit)), None)
        if found is not None and not of_items:
            facts[name] = found
    if exclusive := next((item.lt for item in info.metadata if hasattr(item, "lt")), None):
        facts["maximum"] = exclusive - 1
    choices = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
    if choices:
        facts["choices"] = choices
    return facts


# Objects with a form of their own, which one reader on each side knows.
OPAQUE = {"layout", "scan", "nexus", "element", "hints", "against", "codec.filters", "series"}


def opaque(path: str) -> bool:
    names = path.split(".")
    return any(name in OPAQUE for name in names) or path.startswith("codec.filters")


def compared(program: str) -> list[str]:
    """What differs between the two sides, in words."""
    native = {path: facts for path, facts in native_facts(description_of(program)) if not opaque(path)}
    python = {path: facts for path, facts in python_facts(PLANS[program]) if not opaque(path)}
    said = [
        f"{path}: only the program has it"
        for path in native.keys() - python.keys() - ONLY_NATIVE.get(program, set())
    ]
    said += [
        f"{path}: only the model has it"
        for path in python.keys() - native.keys() - ONLY_PYTHON.get(program, set())
    ]
    for path in sorted(native.keys() & python.keys() - DEPENDENT):
        said += differences(path, native[path], python[path])
    return said


def differences(path: str, native: Facts, python: Facts) -> Iterator[str]:
    if native.get("type") in ("fields", "list"):
        return
    if native.get("required") and not python["required"] and path not in ALWAYS_GIVEN:
        yield f"{path}: the program requires it, and the model does not"
    if "default" in native and "default" in python:
        mine, its = native["default"], python["default"]
        if (mine or None) != (its or None):  # none and empty are the same
            yield f"{path}: the default is {mine!r} in the program and {its!r} in the model"
    for limit in ("minimum", "maximum"):
        mine, its = native.get(limit), python.get(limit)
        if mine is None and its == 2**64 - 1:  # all that it can count
            continue
        if mine != its and not (its is None or (limit == "minimum" and mine in (None, 0) and its == 0)):
            yield f"{path}: the {limit} is {mine} in the program and {its} in the model"
        if (
            its is None
            and limit == "maximum"
            and mine is not None
            and mine < 2**31 - 1
            and "choices" not in python
        ):
            yield f"{path}: the {limit} is {mine} in the program, and the model has none"
    if native.get("choices", python.get("choices")) != python.get("choices", native.get("choices")):
        yield f"{path}: {native.get('choices')} in the program, {python.get('choices')} in the model"


@pytest.mark.parametrize("program", PLANS)
def test_program_and_model_agree_on_names_defaults_limits_and_choices(program: str) -> None:
    assert compared(program) == []


def test_a_drifted_default_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drifted = json.loads(json.dumps(description_of("penstock-recorder")))
    next(field for field in drifted if field["name"] == "end_timeout_s")["default"] = 2.0
    next(field for field in drifted if field["name"] == "threads")["maximum"] = 512
    monkeypatch.setattr(f"{__name__}.description_of", lambda _program: drifted)
    assert compared("penstock-recorder") == [
        "end_timeout_s: the default is 2.0 in the program and 10.0 in the model",
        "threads: the maximum is 512 in the program and 1024 in the model",
    ]


def test_names_tell_the_unit() -> None:
    units = {path: facts.get("unit") for path, facts in native_facts(description_of("penstock-recorder"))}
    assert (units["pool_bytes"], units["end_timeout_s"], units["store.sync_interval_ms"]) == (
        "bytes",
        "s",
        "ms",
    )


def test_the_reference_has_the_defaults_of_the_program() -> None:
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    for name, facts in native_facts(description_of("penstock-recorder")):
        row = re.search(rf"^\| `{name}` \|[^|]*\| `([^`]*)` \|", page, re.MULTILINE)
        if (
            row is None
            or isinstance(facts.get("default") or [], list)
            or name.endswith(("_bytes", "bytes_max"))
        ):
            continue
        default = facts["default"]
        assert row[1] == (str(default).lower() if isinstance(default, bool) else str(default)), name


@pytest.mark.parametrize("model", [Configuration, FramesParameters, StreamParameters, MetadataParameters])
def test_each_option_has_one_name_and_says_what_it_is(model: type[BaseModel]) -> None:
    options = [field.option for field in cli_fields(model)]
    assert len(set(options)) == len(options)
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for field in cli_fields(model):
        assert field.info.description, field.option
        assert f"`{field.flag.replace('/', ' / ')}" in page or f"`{field.option} " in page, field.option


def test_a_size_is_told_from_a_number() -> None:
    size = Annotated[int, WithJsonSchema({})]
    model = type("Model", (BaseModel,), {"__annotations__": {"pool": Annotated[size, Cli()]}})
    (field,) = cli_fields(model)
    assert field.takes_text


def helps_of(path: Path) -> list[str]:
    """Of the options and arguments that a module of commands declares itself."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    declared = [call for call in calls if ast.unparse(call.func) in ("typer.Option", "typer.Argument")]
    values = [keyword.value for call in declared for keyword in call.keywords if keyword.arg == "help"]
    return [str(value.value) for value in values if isinstance(value, ast.Constant)]


@pytest.mark.parametrize("name", ["verdict", "rehearse"])
def test_an_option_that_means_the_same_is_declared_once(name: str) -> None:
    modules = [path for path in COMMANDS.rglob("*.py") if path.stem != name]
    elsewhere = {text for path in modules for text in helps_of(path)}
    own = helps_of(COMMANDS / "bench" / f"{name}.py")
    assert own
    assert not elsewhere & set(own)
