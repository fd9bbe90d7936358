"""Layouts as they are read: YAML and XML, what is wrong with them and in which line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Run
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.layout.check import check_layout
from penstock.model.layout.find import describe, load_layout, read_layout, ready_layouts
from penstock.model.layout.nodes import Layout
from penstock.model.layout.own_tree import GROUPS, ITEMS
from penstock.model.layout.to_yaml import layout_to_yaml
from penstock.model.layout.yaml_layout import read_layout_text
from penstock.programs.locate import layouts_folder
from penstock.report.layouts import layout_tree

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "layout"
FRAMES = "  data: {frames: 0}\n"
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(text: str | bytes, name: str = "layout.yaml") -> str:
        content = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return make


def read(choice: str) -> Layout:
    return read_layout(choice, layouts_folder())


def findings(choice: str) -> list[str]:
    """Without the folder of the file."""
    folder = str(Path(choice).parent) + "/"
    return [f"{each.level} {describe(each)}".replace(folder, "") for each in read(choice).findings]


@pytest.mark.parametrize(
    ("tree", "line", "what"),
    [
        ("  x: {serie: arm_date}\n", 3, "unknown field `tree.x.serie`; did you mean \"series\"?"),
        ("  x: {series: arm_dat}\n", 3, "a series has no such value: series: arm_dat"),
        ("  x: {nxmx: /entry/nothing}\n", 3, "the default layout lacks this group: nxmx: /entry/nothing"),
        ("  x: {frames: 0}\n", 3, "two datasets have the frames of one channel"),
        ("  x: {frames: 1, default: true}\n", 3, "default requires destination: /x"),
        ("  x: {metadata: a, default: true}\n", 3, "default is for frames: /x"),
        ("  x: {frames: 99}\n", 3, "this channel does not exist: 99"),
        ("  x: {link: /y}\n", 3, "the target does not exist: /x → /y"),
        ("  x: {link: /x}\n", 3, "links form a loop"),
        ("  x: {tree: {y: {link: /x}}}\n", 3, "the link points back into a group that contains it"),
        ("  x: {link: /data, attributes: {units: mm}}\n", 3, "a link cannot have attributes"),
        ("  x: {constant: [1, a]}\n", 3, "its values have different types"),
        ("  x: {constant: 300, type: uint8}\n", 3, "300 does not fit uint8"),
        ("  x: {constant: a, type: complex}\n", 3, 'the type "complex" is unknown'),
        ("  x: {constant: .nan}\n", 3, "nan does not fit float64"),
        ("  x: {constant: []}\n", 3, "the list is empty"),
        ("  x: {constant: \"a\\0b\"}\n", 3, "a character that HDF5 cannot store"),
        ("  x: {constant: 1, link: /data}\n", 3, "an object has exactly one kind: /x has constant, link"),
        ("  x: {constant: 1, tree: {}}\n", 3, "an object has exactly one kind: /x has constant, tree"),
        ("  x: {metadata: $dose}\n", 3, "unknown parameter: /x: $dose"),
        ("  x: {metadata: a, type: real}\n", 3, "the type of a frame's value is unknown"),
        ("  x: {metadata: a, when: last, type: int}\n", 3, "a single value has the type"),
        ("  x: {series: arm_date, when: last}\n", 3, "when is for metadata"),
        ("  x: {attributes: {a: {}}}\n", 3, "an attribute has one of constant, metadata and series"),
        ("  \"a/b\": {}\n", 3, "the name is invalid: 'a/b'"),
        ("  ..: {}\n", 3, "the name is invalid: '..'"),
        ("  \"a\\x07\": {}\n", 3, "the name is invalid: 'a\\x07'"),
        ("  \" a\": {}\n", 3, "the name is invalid: ' a'"),
        ("  on: {}\n", 3, "the name True is not text; put it in quotes"),
        ("  entry: {constant: 1}\n", 3, "/entry has to be a group"),
        ("  entry:\n    tree:\n      penstock: {}\n", 5, "/entry/penstock is Penstock's own"),
        ("  x: {nxmx: /entry/data}\n  y: {nxmx: /entry/data}\n", 4, "two groups replace the same group"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(write: Write, tree: str, line: int, what: str) -> None:
    found = [each for each in findings(write(f"tree:\n{FRAMES}{tree}")) if each.startswith("error")]
    assert len(found) == 1, found
    assert found[0].startswith(f"error layout.yaml:{line}: "), found
    assert what in found[0]


# Three times as much with each line: without bound where merge keys are followed.
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("tree: {x: {constant: 1}}", "no dataset has the frames"),
        ("tree: [", "layout.yaml:1:8: not YAML"),
        ("tree: {a: &a {}, b: *a}", "aliases (*name) are not supported"),
        ("tree: {a: &a {}, b: {<<: *a}}", "aliases (*name) are not supported"),
        (MERGE_BOMB, "aliases (*name) are not supported"),
        ("tree:\n  a: {}\n  a: {}\n", "layout.yaml:2: duplicate field `a`"),
        ("metadata: entry/x\ntree: {data: {frames: 0}}", "metadata is not a path of a group: entry/x"),
        ("metadata: /data\ntree: {data: {frames: 0}}", "frames' values cannot go there: /data"),
        ("metadata: /x\ntree: {x: {nxmx: /entry}}", "frames' values cannot go there: /x"),
        ("{" * 2000, "not YAML"),
        ("tree: " + "{a: {tree: " * 100 + "{}" + "}}" * 100, "groups are too deep"),
        ("x" * (2 << 20), "exceeds the maximum size of 1 MiB"),
        (b"tree: {\xff: {}}", "is not UTF-8 text"),
        (b"<hdf5_layout><group></hdf5_layout>", "not XML"),
        (b"<html/>", "no dataset has the frames"),
        (b"<group name='a'>" * 100 + b"</group>" * 100, "groups are too deep"),
        (b"<hdf5_layout>" + b"<group name='a'>" * 5000, "not XML"),
        (b"<hdf5_layout>" + b"<x/>" * 70_000 + b"</hdf5_layout>", "more than 65536 elements"),
    ],
)  # fmt: skip
def test_hostile_layouts_are_refused(write: Write, text: str | bytes, what: str) -> None:
    path = write(text)
    with pytest.raises(UsageError) as caught:
        load_layout(path, layouts_folder())
    assert what in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("description: x\ntree: {a: 1]\n", "2:12", "a comma or a closing bracket is missing"),
        ("tree: [a, b\nfoo: bar: baz\n", "2:4", "a comma or a closing bracket is missing"),
        ("tree:\n  a: b: c\n", "2:7", "a colon is not allowed here"),
        ("description: x\ntree: \x01\n", "2:7", r"the character '\x01' is not allowed"),
    ],
)
def test_a_slip_of_the_pen_is_one_error_with_its_place(
    write: Write, text: str, where: str, what: str
) -> None:
    """YAML's reader says it in up to eight lines, of a text of no name."""
    path = write(text)
    (finding,) = read_layout(str(path), layouts_folder()).findings
    assert f"{path}:{where}: not YAML: {what}" in finding.what + finding.where
    assert "\n" not in finding.what


def full_of(piece: str, before: str = "", behind: str = "") -> str:
    """As many pieces, each with its number, as a layout has room for: 1 MiB, 65536 objects."""
    pieces: list[str] = []
    size = len(before) + len(behind) + (1 << 10)
    while size < 1 << 20 and len(pieces) < 65_000:
        pieces.append(piece.replace("#", f"{len(pieces):x}"))
        size += len(pieces[-1])
    return before + "".join(pieces) + behind


XML_IN = ('<hdf5_layout><group name="g"><dataset name="frames" source="detector"/>', "</group></hdf5_layout>")
DEEP = "".join(f'<group name="{"n" * 12}{depth}">' for depth in range(60)), "</group>" * 60
LARGE = {
    "groups": (full_of('<group name="#"/>', *XML_IN), 45_000),
    "constants": (full_of('<dataset name="#" source="constant"/>', *XML_IN), 25_000),
    "attributes": (
        full_of('<attribute name="#" source="constant"/>', f"{XML_IN[0][:-2]}>", f"</dataset>{XML_IN[1]}"), 1,
    ),
    "detectors": (full_of('<group name="#"><dataset name="d" source="detector"/></group>', *XML_IN), 15_000),
    "links nowhere": (full_of('<hardlink name="#" target="/y/x"/>', *XML_IN), 1),
    "links in a chain": (full_of('<hardlink name="l#" target="/g/frames"/>', *XML_IN), 20_000),
    "deep": (
        "<hdf5_layout>" + full_of('<dataset name="#" source="constant"/>', *DEEP)
        + '<group name="f"><dataset name="d" source="detector"/></group></hdf5_layout>', 20_000,
    ),
    "one path": (full_of('<group name="g"/>', *XML_IN), 1),
    "YAML": (full_of("  g#: {constant: 1}\n", f"tree:\n{FRAMES}"), 40_000),
    "YAML links": (full_of("  g#: {link: /x}\n", f"tree:\n{FRAMES}"), 1),
    "YAML taken": (full_of("  g#: {nxmx: /entry/data}\n  h#: {link: /x}\n", f"tree:\n{FRAMES}"), 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_the_largest_layouts_end_in_seconds_with_bounded_memory(
    write: Write, tmp_path: Path, kind: str
) -> None:
    text, objects = LARGE[kind]
    path = write(text, "large.yaml" if kind.startswith("YAML") else "large.xml")
    # Its maximum comes from the kernel's status: what wait4 says counts the process that forked it.
    code = (
        "import atexit, pathlib, resource, sys\nfrom penstock.cli import application\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "atexit.register(lambda: pathlib.Path(sys.argv[2]).write_text(status.read_text()))\n"
        "application(['layout', 'check', sys.argv[1], '--json'])"
    )
    said, status_at_end = tmp_path / "findings.json", tmp_path / "status"
    with said.open("wb") as output:
        checking = subprocess.Popen([sys.executable, "-c", code, path, status_at_end], stdout=output)
        _, status, used = os.wait4(checking.pid, 0)  # of this process alone
    checking.returncode = os.waitstatus_to_exitcode(status)
    findings = json.loads(said.read_text())
    errors = [each for each in findings if each["level"] == "error"]
    assert checking.returncode == (1 if errors else 0)
    assert bool(errors) == (kind in ("attributes", "YAML links", "YAML taken")), errors[:3]
    assert used.ru_utime < 30, kind
    peak = re.search(r"VmHWM:\s+(\d+) kB", status_at_end.read_text())
    assert peak is not None
    assert int(peak[1]) < 1 << 20, "KiB"
    print(kind, len(text), f"{used.ru_utime:.1f} s", int(peak[1]) >> 10, "MiB", len(findings))
    layout = read(path)
    assert len(layout.nodes) >= objects


@pytest.mark.parametrize("name", ["billion_laughs", "external_entity", "external_subset"])
def test_document_types_are_refused(name: str) -> None:
    found = findings(str(CORPUS / "hostile" / f"{name}.xml"))
    assert len(found) == 1
    assert "declares a document type" in found[0] or "not XML" in found[0]
    assert "root:" not in found[0]  # of /etc/passwd


def test_everything_that_is_wrong_in_an_xml_layout_is_told_at_once() -> None:
    found = findings(str(CORPUS / "hostile" / "many_mistakes.xml"))
    lines: dict[tuple[str, int], str] = {}
    for each in found:
        level, where, *_ = each.split(" ")
        lines.setdefault((level, int(where.split(":")[1])), each)
    assert [line for level, line in sorted(lines) if level == "error"] == [24]
    assert [line for level, line in sorted(lines) if level == "warning"] == [
        1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
    ]  # fmt: skip
    assert 'value="one" type="int"' in lines["warning", 6]
    assert "/entry/data, also on line 4" in lines["warning", 5]
    assert all(each.endswith(")") for each in found)  # a remedy


def test_frames_choose_among_datasets_by_a_value() -> None:
    layout = read(str(CORPUS / "every_element.xml"))
    assert not layout.errors
    assert not layout.warnings
    assert layout.destination == "SaveDest"
    assert [node.path for node in layout.destinations()] == ["/exchange/data", "/exchange/data_dark"]
    assert layout.plan()["destination"] == "SaveDest"


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ("{b: {frames: 0}, a: {frames: 0}}", []),
        ("{a: {frames: 0}, b: {frames: 0, default: true}, c: {link: /entry/penstock/frames/data}}", []),
        (
            "{a: {frames: 0}, b: {frames: 1}}",
            ["warning frames have one dataset, so destination has no effect"],
        ),
        (
            "{a: {frames: 0, default: true}, b: {frames: 0, default: true}}",
            ["error two datasets are the default for frames"],
        ),
        ("{a: {frames: 0}, b: {frames: 0}, c: {frames: 1}, d: {frames: 1}}",
         ["error two datasets have the frames of one channel"]),
    ],
)  # fmt: skip
def test_yaml_layouts_have_destinations(write: Write, tree: str, found: list[str]) -> None:
    layout = read(write(f"destination: where\ntree: {tree}\n"))
    assert [f"{each.level} {each.what}" for each in layout.findings] == found
    again = read(write(layout_to_yaml(layout), "again.yaml"))
    assert again.plan() | {"name": ""} == layout.plan() | {"name": ""}


def test_what_does_not_apply_gives_warnings_alone(write: Write) -> None:
    text = (CORPUS / "every_element.xml").read_text(encoding="utf-8")
    layout = read(write(text.replace("detector_data_destination", "other"), "other.xml"))
    assert not layout.errors
    told = [f"{each.where.rpartition(':')[2]} {each.what}" for each in layout.warnings]
    assert told == [
        "5 unknown global",
        "18 it gets no frames, and is left out",
        "50 its target is left out, and so is the link",
    ]


def test_areadetectors_own_default_needs_no_root_element(write: Write) -> None:
    """It begins with <group>."""
    path = write('<group name="entry"><dataset name="data" source="detector"/></group>', "own.xml")
    layout = load_layout(path, layouts_folder())
    assert [node.path for node in layout.nodes] == ["/", "/entry", "/entry/data"]
    assert layout.metadata_group == "/"
    nowhere = write(
        '<hdf5_layout auto_ndattr_default="false"><group name="a" ndattr_default="true">'
        '<dataset name="data" source="detector"/></group></hdf5_layout>',
        "nowhere.xml",
    )
    assert load_layout(nowhere, layouts_folder()).metadata_group is None


def test_parameters_are_set_behind_the_name(write: Write) -> None:
    folder = layouts_folder()

    def angle(choice: str) -> str | None:
        node = next(
            each for each in load_layout(choice, folder).nodes if each.path == "/entry/sample/rotation_angle"
        )
        return node.metadata.name if node.metadata else None

    assert angle("nxtomo") == "rotation_angle"
    assert angle("nxtomo?rotation_angle=a%20b&image_key=k") == "a b"
    for choice, what in (
        ("nxtomo?angle=x", "unknown parameter"),
        ("nxtomo?", "no parameters follow"),
        ("nxtom", "is neither a layout nor a file"),
        (str(CORPUS / "every_element.xml") + "?a=b", "layouts in XML have no parameters"),
    ):
        with pytest.raises(UsageError, match=what):
            load_layout(choice, folder)


def test_ready_layouts_have_nothing_against_them() -> None:
    ready = ready_layouts(layouts_folder())
    assert set(ready) == {"raw", "nxmx", "nxtomo", "nxdata-scan", "areadetector-default"}
    for name, path in ready.items():
        layout = load_layout(name, layouts_folder())
        assert not layout.warnings
        assert layout.description
        assert load_layout(str(path), layouts_folder()).plan() == layout.plan()


# Names that a layout may have, readers' favourites among them.
names = st.one_of(
    st.sampled_from(["entry", "data", "x_1", "µm", "a b", "-", "1"]),
    st.text("abcdefghij_.é", min_size=1, max_size=6).filter(lambda name: name not in (".", "..", "entry")),
)
constants = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.lists(st.integers(-9, 9), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=3), min_size=1, max_size=3),
)
attributes = st.dictionaries(
    names,
    st.one_of(
        constants,
        st.builds(
            lambda name, when: {"metadata": name, "when": when}, names, st.sampled_from(["first", "last"])
        ),
        st.builds(lambda item: {"series": item}, st.sampled_from(sorted(ITEMS))),
    ),
    max_size=3,
)
leaves = st.one_of(
    st.builds(lambda value, more: {"constant": value, "attributes": more}, constants, attributes),
    st.builds(
        lambda name, more: {"metadata": name, "attributes": more},
        names | st.sampled_from(["$(P)", "$$dose", "$1 a"]),
        attributes,
    ),
    st.builds(lambda name: {"metadata": name, "when": "last"}, names),
    st.builds(
        lambda name, kind: {"metadata": name, "type": kind},
        names,
        st.sampled_from(["int", "uint", "float", "text"]),
    ),
    st.builds(lambda item: {"series": item}, st.sampled_from(sorted(ITEMS))),
    st.just({"link": "/frames"}),
)
trees = st.recursive(
    st.dictionaries(names.filter(lambda name: name != "entry"), leaves, max_size=4),
    lambda inner: st.dictionaries(
        names,
        st.builds(lambda tree, more: {"tree": tree, "attributes": more}, inner, attributes),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


def places(tree: dict[str, Any], group: str = "") -> set[str]:
    found = set()
    for name, node in tree.items():
        found.add(f"{group}/{name}")
        found |= places(node.get("tree") or {}, f"{group}/{name}")
    return found


@given(trees, st.none() | st.just("/values"))
@settings(max_examples=40, deadline=None)
def test_any_tree_is_read_and_written_as_it_is(tree: dict[str, Any], metadata: str | None) -> None:
    document: dict[str, Any] = {"tree": {**tree, "frames": {"frames": 0}}} | (
        {"metadata": metadata} if metadata else {}
    )
    text = yaml.safe_dump(json.loads(json.dumps(document)), allow_unicode=True)
    layout = check_layout(read_layout_text(text, "made", "made.yaml", {}))
    assert not layout.errors, layout.errors
    assert {node.path for node in layout.nodes} == {"/", *places(document["tree"])}
    lines = text.splitlines()
    for node in layout.nodes[1:]:
        assert node.path.rpartition("/")[2] in lines[node.line - 1]
    again = check_layout(read_layout_text(layout_to_yaml(layout), "made", "made.yaml", {}))

    def in_order(one: Layout) -> list[Any]:
        return sorted(one.plan()["nodes"], key=lambda node: node["path"])

    assert in_order(again) == in_order(layout)
    assert again.metadata_group == layout.metadata_group
    assert layout_tree(layout).children


def test_the_command_shows_and_checks(run: Run, write: Write) -> None:
    shown = run("layout", "show", "nxmx").stdout
    for group in GROUPS:
        assert group.rpartition("/")[2] in shown
    for item in ITEMS.values():
        assert item.is_kept or item.path.rpartition("/")[2] in shown, item
    as_yaml = run("layout", "show", str(CORPUS / "every_element.xml"), "--yaml")
    assert as_yaml.returncode == 0, as_yaml.stderr
    one = load_layout(str(CORPUS / "every_element.xml"), layouts_folder())
    other = load_layout(write(as_yaml.stdout), layouts_folder())
    assert sorted(other.plan()["nodes"], key=str) == sorted(one.plan()["nodes"], key=str)
    bad = write("tree:\n  data: {frames: 0}\n  x: {link: /y}\n")
    checked = run("layout", "check", bad)
    assert checked.returncode == 1
    assert f"{bad}:3: the target does not exist: /x → /y" in checked.stdout
    assert run("layout", "check", "nothing.xml").returncode == 2
    refused = run("record", "--layout", bad, "--dry-run")
    assert refused.returncode == 2
    assert f"{bad}:3" in refused.stderr
    planned = run("record", "--layout", "nxtomo", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "rotation_angle" in planned.stdout


@pytest.mark.parametrize("page", ["how-to/record/choose-a-layout.md", "reference/layout.md"])
def test_layouts_in_the_documentation_are_sound(write: Write, page: str) -> None:
    text = (CORPUS.parents[2] / "docs" / page).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "tree:" in block]
    assert blocks
    for block in blocks:
        assert not findings(write(block))


def test_a_configuration_does_not_forget_its_layout() -> None:
    settings = Configuration.model_validate({"layout": "raw"})
    with pytest.raises(ValueError, match="was not read"):
        settings.plan({})
    layout = load_layout("raw", layouts_folder())
    told = settings.plan({}, layout=layout).layout
    assert told is not None
    assert told["name"] == "raw"
