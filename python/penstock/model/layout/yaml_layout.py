"""Layouts in Penstock's own YAML. docs/reference/layout.md has every key."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, StringConstraints

from penstock.model.layout.nodes import PATH_BYTES_MAX, Attribute, Constant, FrameValue, Layout, Node, join
from penstock.model.layout.own_tree import GROUPS, ITEMS
from penstock.model.layout.values import constant_of
from penstock.model.plans import Plan
from penstock.model.yaml_file import parse_yaml_tree

PAGE = "docs/reference/layout.md"
PARAMETER = re.compile(r"\$\w+")  # in the place of a name
_DEPTH_MAX = 64
_SOURCES = ("frames", "series", "metadata", "constant", "link")
Name = Annotated[str, StringConstraints(max_length=255)]
Scalar = bool | int | float | str
ConstantValue = Scalar | list[int | float | str]


class LayoutParameter(Plan):
    """A word that the user of the layout can set: `--layout nxtomo?rotation_angle=theta`."""

    default: str = Field(max_length=255, description="value if it is not set")
    description: str = Field("", description="purpose")


class AttributeFrom(Plan):
    """Where an attribute's value comes from, if it is not simply written down: one of the first three."""

    constant: ConstantValue | None = Field(None, description="a value, where it needs a `type`")
    metadata: str | None = Field(
        None, max_length=255, description="the value of that name that a frame brings"
    )
    series: str | None = Field(None, description="what the series brings, by its name in the table below")
    when: Literal["first", "last"] = Field("first", description="of metadata: which frame's value")
    type: str | None = Field(None, description="of a constant: `text`, `bool`, `int32`, `float64` …")


class LayoutNode(Plan):
    """An object: a dataset or link where one of `frames` … `link` is there, else a group."""

    attributes: dict[Name, ConstantValue | AttributeFrom] = Field(
        default_factory=dict, description="by name: a value, or where it comes from"
    )
    tree: dict[Name, "LayoutNode"] | None = Field(None, description="of a group: what is in it, by name")
    nxmx: str | None = Field(
        None,
        description="of a group: takes over a group of the default layout, with its attributes and all below"
        " it that this layout names nowhere else",
    )
    frames: int | str | None = Field(
        None, description="the detector's frames, of a channel by number from 0 or by name"
    )
    default: bool = Field(
        False,
        description="for `frames` in a layout with `destination`: the dataset of frames that name none;"
        " without it the first by path",
    )
    series: str | None = Field(
        None, description="what the series brings (mask, pixel size, times …), see the table below"
    )
    metadata: str | None = Field(None, max_length=255, description="the value of that name that frames bring")
    when: Literal["every", "first", "last"] = Field(
        "every", description="of metadata: one value a frame, or a single one"
    )
    type: str | None = Field(
        None,
        description="of metadata: `int`, `uint`, `float` or `text`, and then the dataset is there even if the"
        " first frame brings no such value; of a constant as for attributes",
    )
    constant: ConstantValue | None = Field(None, description="a number, a text, a truth value, or a list")
    link: str | None = Field(None, description="another name (a hard link) of the object with that path")


class LayoutFile(Plan):
    """A layout: what is in a file, and where."""

    description: str = Field("", description="purpose")
    parameters: dict[Name, LayoutParameter] = Field(
        default_factory=dict,
        description="words to set, used as `$NAME` for a value's name (`$$NAME`: the name is `$NAME`)",
    )
    metadata: str | None = Field(
        None,
        description="the group, as a path, for values of frames without a dataset; without it they go to"
        " /entry/penstock/metadata",
    )
    destination: str | None = Field(
        None,
        max_length=255,
        description="name of the value with which each frame chooses, by its path, one of several datasets"
        " with `frames: 0`; areaDetector's `detector_data_destination`",
    )
    ndattributes: bool = Field(
        False, description="datasets of frames' values have areaDetector's attributes NDAttrName …"
    )
    attributes: dict[Name, ConstantValue | AttributeFrom] = Field(
        default_factory=dict, description="of the file's root"
    )
    tree: dict[Name, LayoutNode] = Field(description="what is in the file, by name")


def read_layout_text(text: str, name: str, file: str, parameters: Mapping[str, str]) -> Layout:
    """Returns the layout and its findings; `file` is for messages. Raises UsageError if it is no YAML."""
    document, tree = parse_yaml_tree(text, LayoutFile, file, PAGE)
    return _Reader(document, tree, name, file, parameters).layout


class _Reader:
    """Makes nodes of the document; `tree` knows the lines."""

    def __init__(
        self, document: LayoutFile, tree: yaml.Node | None, name: str, file: str, given: Mapping[str, str]
    ) -> None:
        self._tree = tree
        self._keys: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}
        self.layout = Layout(name, file, document.description)
        self._values = {key: each.default for key, each in document.parameters.items()}
        for key, value in given.items():
            if key in self._values:
                self._values[key] = value
            else:
                known = ", ".join(self._values) or "none"
                self.layout.add("error", 0, "unknown parameter", key, f"it has: {known}")
        self.layout.parameters = dict(self._values)
        self.layout.ndattributes = document.ndattributes
        if document.destination is not None:
            self.layout.destination = self._word(document.destination, "destination", 1)
        if document.metadata is not None:
            self.layout.metadata_group = document.metadata
        self.layout.nodes.append(
            Node("/", "group", 1, self._attributes(document.attributes, ("attributes",)))
        )
        self._read(document.tree, "/", ("tree",), 1)

    def _line(self, location: tuple[str, ...]) -> int:
        """Of the key at `location`. Each mapping is gone through once, however many keys it has."""
        node, line = self._tree, 0
        for part in location:
            if not isinstance(node, yaml.MappingNode):
                break
            keys = self._keys.get(id(node))
            if keys is None:
                keys = self._keys[id(node)] = {str(key.value): (key, value) for key, value in node.value}
            if part not in keys:
                break
            key, node = keys[part]
            line = key.start_mark.line + 1
        return line

    def _read(self, tree: Mapping[str, LayoutNode], group: str, at: tuple[str, ...], depth: int) -> None:
        for name, node in tree.items():
            here = (*at, name)
            if not self.layout.takes_name(name, self._line(here)):
                continue
            path = join(group, name)
            if depth > _DEPTH_MAX or len(path) > PATH_BYTES_MAX:
                what = "groups are too deep" if depth > _DEPTH_MAX else "the path is too long"
                limit = f"at most {_DEPTH_MAX} levels and {PATH_BYTES_MAX} bytes"
                self.layout.add("error", self._line(here), what, f"{path[:60]}…", limit)
                return
            self._add(node, path, here)
            if node.tree:
                self._read(node.tree, path, (*here, "tree"), depth + 1)

    def _add(self, node: LayoutNode, path: str, at: tuple[str, ...]) -> None:
        line = self._line(at)
        given = [source for source in _SOURCES if getattr(node, source) is not None]
        attributes = self._attributes(node.attributes, (*at, "attributes"))
        if len(given) > 1 or (given and (node.tree is not None or node.nxmx is not None)):
            others = [*given, *(key for key in ("tree", "nxmx") if getattr(node, key) is not None)]
            self.layout.add(
                "error", line, "an object has exactly one kind", f"{path} has {', '.join(others)}", "keep one"
            )
            return
        kind = given[0] if given else "group"
        if kind not in ("metadata", "constant") and node.type is not None:
            self.layout.add(
                "error", line, "type is for metadata and constants", f"{path}: {node.type}", "remove it"
            )
        if kind != "metadata" and node.when != "every":
            self.layout.add("error", line, "when is for metadata", f"{path}: {node.when}", "remove it")
        if kind != "frames" and node.default:
            self.layout.add("error", line, "default is for frames", path, "remove it")
        match kind:
            case "group":
                made = Node(path, "group", line, attributes, source=self._group(node.nxmx, line))
            case "frames":
                channel = node.frames if node.frames is not None else 0
                made = Node(path, "frames", line, attributes, channel=channel, default=node.default)
            case "series":
                made = Node(path, "series", line, attributes, source=self._item(str(node.series), line))
            case "metadata":
                made = Node(path, "metadata", line, attributes, metadata=self._value(node, path, line))
            case "constant":
                constant = self._constant(node.constant, node.type, path, line)
                if constant is None:
                    return
                made = Node(path, "constant", line, attributes, constant=constant)
            case _:
                made = Node(path, "link", line, attributes, target=str(node.link))
        self.layout.nodes.append(made)

    def _group(self, path: str | None, line: int) -> str:
        if path is not None and path not in GROUPS:
            self.layout.add(
                "error",
                line,
                "the default layout lacks this group",
                f"nxmx: {path}",
                f"it has {', '.join(GROUPS)}",
            )
        return path or ""

    def _item(self, name: str, line: int) -> str:
        if name in ITEMS:
            return ITEMS[name].path
        self.layout.add(
            "error", line, "a series has no such value", f"series: {name}", f"one of {', '.join(ITEMS)}"
        )
        return "/entry/unknown"

    def _value(self, node: LayoutNode, path: str, line: int) -> FrameValue:
        kind = node.type or ""
        if kind not in ("", "int", "uint", "float", "text"):
            self.layout.add(
                "error",
                line,
                "the type of a frame's value is unknown",
                f"{path}: {kind}",
                "int, uint, float or text",
            )
            kind = ""
        if kind and node.when != "every":
            self.layout.add(
                "error",
                line,
                "a single value has the type of the frame's value",
                f"{path}: {kind}",
                "remove type",
            )
        return FrameValue(self._word(str(node.metadata), path, line), node.when, kind)  # type: ignore[arg-type]

    def _word(self, text: str, path: str, line: int) -> str:
        """A name, or what the parameter that it names is set to; `$$x` is the name `$x`."""
        if text.startswith("$$"):
            return text[1:]
        if not PARAMETER.fullmatch(text):
            return text
        if text[1:] not in self._values:
            known = ", ".join(f"${name}" for name in self._values) or "none"
            self.layout.add("error", line, "unknown parameter", f"{path}: {text}", f"it has: {known}")
        return self._values.get(text[1:], text)

    def _constant(self, value: Any, kind: str | None, path: str, line: int) -> Constant | None:
        if isinstance(value, str) and PARAMETER.fullmatch(value) and value[1:] in self._values:
            value = self._values[value[1:]]
        try:
            return constant_of(value, kind)
        except ValueError as error:
            self.layout.add(
                "error", line, f"the constant of {path} is invalid: {error}", str(value)[:80], PAGE
            )
            return None

    def _attributes(
        self, given: Mapping[str, ConstantValue | AttributeFrom], at: tuple[str, ...]
    ) -> tuple[Attribute, ...]:
        found = []
        for name, value in given.items():
            source = value if isinstance(value, AttributeFrom) else AttributeFrom(constant=value)
            made = self._attribute(name, source, self._line((*at, name)))
            if made is not None:
                found.append(made)
        return tuple(found)

    def _attribute(self, name: str, value: AttributeFrom, line: int) -> Attribute | None:
        given = [key for key in ("constant", "metadata", "series") if getattr(value, key) is not None]
        if len(given) != 1:
            what = "an attribute has one of constant, metadata and series"
            self.layout.add("error", line, what, f"{name} has {', '.join(given) or 'none'}", "give one")
            return None
        if value.metadata is not None:
            return Attribute(name, metadata=FrameValue(self._word(value.metadata, name, line), value.when))
        if value.series is not None:
            return Attribute(name, series=self._item(value.series, line))
        constant = self._constant(value.constant, value.type, f"attribute {name}", line)
        return None if constant is None else Attribute(name, constant=constant)
