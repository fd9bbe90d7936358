"""Layout files of areaDetector that its own parser takes, with a warning or without: so does this one."""

import os
from pathlib import Path

import pytest
from conftest import Run

from penstock.model.layout.find import load_layout, read_layout
from penstock.model.layout.nodes import Layout
from penstock.programs.locate import layouts_folder

# Files that facilities published may be tried here as well.
FILES = Path(os.environ.get("PENSTOCK_LAYOUTS", Path(__file__).resolve().parents[2] / "corpus" / "layout"))
DETECTOR = '<dataset name="data" source="detector"/>'


def layout_of(folder: Path, inside: str) -> Layout:
    """Of a group /g, with the detector's dataset in front."""
    file = folder / "layout.xml"
    file.write_text(
        f'<hdf5_layout><group name="g">{DETECTOR}{inside}</group></hdf5_layout>', encoding="utf-8"
    )
    return read_layout(str(file), layouts_folder())


def paths(layout: Layout) -> list[str]:
    return [node.path for node in layout.nodes]


@pytest.mark.parametrize("path", sorted(FILES.glob("*.xml")), ids=lambda path: path.stem)
def test_published_layouts_have_no_error(path: Path) -> None:
    if "<Attributes" in path.read_text(encoding="utf-8"):
        return  # says which attributes there are
    assert not read_layout(str(path), layouts_folder()).errors


@pytest.mark.parametrize("root", ["xml", "hdf_layout", "anything"])
def test_root_element_may_have_any_name(tmp_path: Path, root: str) -> None:
    file = tmp_path / "layout.xml"
    file.write_text(f'<{root}><group name="g">{DETECTOR}</group></{root}>', encoding="utf-8")
    layout = load_layout(str(file), layouts_folder())
    assert paths(layout) == ["/", "/g", "/g/data"]
    assert [finding.what for finding in layout.warnings] == ["the first element has another name"]


@pytest.mark.parametrize(
    ("inside", "there", "what"),
    [
        ('<dataset name="timestamp" source="ndattribute"/>', ["timestamp"], None),
        ('<dataset name="x" source="ndattribute"/>', [], "it names no attribute, and is left out"),
        (
            '<dataset name="x" source="ndatribute"/>',
            [],
            'its source "ndatribute" is unknown, and is left out',
        ),
        ('<dataset source="constant"/>', [], "it has no name, and is left out"),
        ('<dataset name="a/b" source="constant"/>', [], "the name is invalid; it is left out"),
        ('<attribute name="x" value="1"/>', [], "it has no value, and is left out"),
        ('<attribute name="x" source="ndattribute"/>', [], "it has no value, and is left out"),
        (
            '<attribute name="x" source="constant" value="1"/><attribute name="x" source="constant"/>',
            [],
            "there is an attribute of this name; the second one is left out",
        ),
        (
            '<dataset name="data" source="constant" value="1"/>',
            [],
            "there is an object of this name; the second one is left out",
        ),
        (
            '<group name="data"><dataset name="x" source="constant"/></group>',
            [],
            "there is an object of this name; the second one is left out",
        ),
        (
            '<thing><dataset name="x" source="constant"/></thing>',
            ["x"],
            "this element is not allowed here",
        ),
        ('<hardlink name="x" target="g/data"/>', ["x"], "the target is not an absolute path"),
        ('<hardlink name="x" target="/g/data/"/>', ["x"], "the target is not an absolute path"),
        ('<hardlink name="x" target="/g//data"/>', ["x"], "the target is not an absolute path"),
        ('<hardlink name="x" target="/g/nowhere"/>', [], "the target does not exist; it is left out"),
        ('<hardlink name="x" target="/g"/>', [], "the link points back into a group that contains it"),
        ('<hardlink name="x" target="/g/x"/>', [], "links form a loop; it is left out"),
        ('<hardlink name="x"/>', [], "it has no target, and is left out"),
    ],
)
def test_odd_elements_give_a_warning(tmp_path: Path, inside: str, there: list[str], what: str | None) -> None:
    layout = layout_of(tmp_path, inside)
    assert not layout.errors
    assert paths(layout)[3:] == [f"/g/{name}" for name in there]
    assert [finding.what.removesuffix("; it is left out") for finding in layout.warnings] == (
        [what.removesuffix("; it is left out")] if what else []
    )
    for node in layout.nodes:
        assert node.kind != "link" or node.target == "/g/data"


@pytest.mark.parametrize(
    ("value", "stored"),
    [("0x1F", 31), ("-0x1", -1), ("1,0x2", [1, 2]), ("", None), ("1.5", None), ("a", None)],
)
def test_integers_may_be_hexadecimal_or_left_out(tmp_path: Path, value: str, stored: object) -> None:
    constant = f'source="constant" type="int" value="{value}"'
    layout = layout_of(
        tmp_path,
        f'<dataset name="x" {constant}/><hardlink name="y" target="/g/x"/><attribute name="z" {constant}/>',
    )
    assert not layout.errors
    attribute = layout.nodes[1].attribute("z")
    if stored is None:
        assert paths(layout)[3:] == []
        assert attribute is None
        assert len(layout.warnings) == 3
    else:
        found = layout.nodes[3].constant
        assert found is not None
        assert found.value == attribute == stored
        assert not layout.warnings


def test_group_that_is_continued_has_both_parts(tmp_path: Path) -> None:
    layout = layout_of(
        tmp_path,
        '<group name="a"><attribute name="x" source="constant" value="1"/></group>'
        '<group name="a"><dataset name="b" source="constant"/>'
        '<attribute name="x" source="constant"/></group>',
    )
    assert paths(layout)[3:] == ["/g/a", "/g/a/b"]
    assert layout.nodes[3].attribute("x") == "1"
    assert len(layout.warnings) == 1


def test_layout_with_dollar_signs_is_shown_as_it_is_read(run: Run, tmp_path: Path) -> None:
    """An IOC replaces $(P) before areaDetector sees it; a file with it is read all the same."""
    layout = layout_of(
        tmp_path,
        "".join(
            f'<dataset name="n{number}" source="ndattribute" ndattribute="{name}"/>'
            f'<attribute name="a{number}" source="ndattribute" ndattribute="{name}"/>'
            f'<dataset name="c{number}" source="constant" value="{name}"/>'
            for number, name in enumerate(["$(P)Temperature", "$dose", "$$", "$"])
        ),
    )
    shown = run("layout", "show", layout.file, "--yaml")
    file = tmp_path / "shown.yaml"
    file.write_text(shown.stdout, encoding="utf-8")
    checked = run("layout", "check", str(file))
    assert checked.returncode == 0, checked.stdout

    def plan(layout: Layout) -> list[object]:
        return sorted(layout.plan()["nodes"], key=str)

    assert plan(load_layout(str(file), layouts_folder())) == plan(layout)
