"""areaDetector's layout files, as NDFileHDF5 reads them (ADCore's hdf5_xml_layout_schema.xsd and parser).

Like that parser this one is lenient: what it does not know, or what cannot be, is left out with a warning.
Files from outside are hostile until parsed: no document type, no entities, bounded size and depth.
"""

import re
from collections.abc import Iterator, Set
from dataclasses import replace

from lxml import etree

from penstock.model.errors import UsageError
from penstock.model.layout.nodes import (
    PATH_BYTES_MAX,
    Attribute,
    Constant,
    FrameValue,
    Layout,
    Node,
    When,
    join,
)
from penstock.model.layout.own_tree import ITEMS
from penstock.model.layout.values import constant_of

PAGE = "docs/reference/layout.md"
_DEPTH_MAX = 64
_ELEMENTS_MAX = 65536
_KNOWN = {
    "hdf5_layout": {"auto_ndattr_default"},
    "global": {"name", "ndattribute"},
    "group": {"name", "ndattr_default"},
    "dataset": {"name", "source", "ndattribute", "value", "type", "det_default", "when"},
    "attribute": {"name", "source", "value", "type", "ndattribute", "when"},
    "hardlink": {"name", "target"},
}
_ROOT = "hdf5_layout"
_CHILDREN = {
    _ROOT: {"global", "group"},
    "group": {"group", "dataset", "attribute", "hardlink"},
    "dataset": {"attribute"},
}
_ATTRIBUTE_SOURCES = 'give source="constant" or source="ndattribute"'
_TYPES = {"int": "int32", "float": "float64", "string": "text"}
_WHEN: dict[str, When] = {"OnFileOpen": "first", "OnFileClose": "last"}


def read_layout_xml(content: bytes, name: str, file: str) -> Layout:
    """Returns the layout and its findings; `file` is for messages. Raises UsageError if it is no XML."""
    return _Reader(_parse(content, file), name, file).layout


def _parse(content: bytes, file: str) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: not XML: a syntax error", f"see {PAGE}") from error
    if root.getroottree().docinfo.internalDTD is not None:
        line = 1 + content[: max(content.find(b"<!DOCTYPE"), 0)].count(b"\n")
        raise UsageError(
            f"{file}:{line}: it declares a document type (DOCTYPE), which is not allowed",
            "remove it; layouts need none",
        )
    return root


def _tag(element: etree._Element) -> str:
    """Without its namespace."""
    return str(etree.QName(element).localname)


def _number(text: str, kind: str) -> int | float:
    """Whole numbers may be hexadecimal."""
    try:
        return (
            (int(text, 16) if re.match(r"[+-]?0[xX]", text) else int(text)) if kind == "int" else float(text)
        )
    except ValueError:
        what = "whole number" if kind == "int" else "number"
        raise ValueError(f'"{text[:40]}" is no {what}') from None


class _Reader:
    def __init__(self, root: etree._Element, name: str, file: str) -> None:
        before = root.getprevious()
        comment = before.text if before is not None and before.tag is etree.Comment else None
        self.layout = Layout(name, file, " ".join((comment or "").split()), ndattributes=True, lenient=True)
        self._count = 0
        self._default_group: str | None = None
        self._detectors: list[tuple[Node, bool]] = []
        self._first: dict[str, etree._Element] = {}  # by path
        self._groups: dict[str, dict[str, Attribute]] = {}  # by path
        automatic = True
        self.layout.nodes.append(Node("/", "group"))
        if _tag(root) == "group":
            self._group(root, "/", 1)
        else:
            automatic = self._root(root)
        self.layout.nodes = [
            replace(node, attributes=tuple(self._groups[node.path].values()))
            if node.path in self._groups
            else node
            for node in self.layout.nodes
        ]
        self._choose_detector()
        self.layout.metadata_group = (self._default_group or "/") if automatic else None

    def _error(self, element: etree._Element, what: str, actual: str, remedy: str) -> None:
        self.layout.add("error", element.sourceline or 0, what, actual, remedy)

    def _warn(self, element: etree._Element, what: str, actual: str, remedy: str) -> None:
        self.layout.add("warning", element.sourceline or 0, what, actual, remedy)

    def _leave_out(self, element: etree._Element, what: str, path: str, remedy: str) -> None:
        """An object without which the layout can be; links to it are left out too."""
        self.layout.omitted.add(path)
        self._warn(element, f"{what}, and is left out", path, remedy)

    def _root(self, root: etree._Element) -> bool:
        """Whether values that no dataset names go into a group of the layout."""
        if _tag(root) == _ROOT:
            self._known(root)
        else:
            what, shown = "the first element has another name", f"<{_tag(root)}>"
            self._warn(root, what, shown, f"<{_ROOT}> is usual; it is taken for that, as by areaDetector")
        for element in self._children(root, _CHILDREN[_ROOT]):
            if _tag(element) == "global":
                self._global(element)
            else:
                self._group(element, "/", 1)
        automatic = root.get("auto_ndattr_default", "true") if _tag(root) == _ROOT else "true"
        if automatic not in ("true", "false"):
            self._warn(
                root, "auto_ndattr_default cannot be read", automatic, "expected true or false; true is used"
            )
        return str(automatic) != "false"

    def _known(self, element: etree._Element) -> None:
        for key, value in element.attrib.items():
            if str(key).startswith("{"):
                continue  # of another namespace, as where the schema lies
            if key not in _KNOWN[_tag(element)]:
                text = f'<{_tag(element)} {key}="{value}">'
                self._warn(element, "unknown attribute", text, "it is ignored, as by areaDetector")

    def _children(self, element: etree._Element, allowed: Set[str]) -> Iterator[etree._Element]:
        """Those inside an element that is not known count as if that were not there."""
        pending = list(element.iterchildren(tag=etree.Element, reversed=True))
        while pending:
            child = pending.pop()
            self._count += 1
            if self._count > _ELEMENTS_MAX:
                raise UsageError(
                    f"{self.layout.file}:{child.sourceline}: it has more than {_ELEMENTS_MAX} elements",
                    "split it",
                )
            if _tag(child) in allowed:
                self._known(child)
                yield child
                continue
            inside = f"<{_tag(child)}> inside <{_tag(element)}>"
            self._warn(child, "this element is not allowed here", inside, "it is ignored, as by areaDetector")
            if _tag(child) not in _KNOWN:
                pending += child.iterchildren(tag=etree.Element, reversed=True)

    def _global(self, element: etree._Element) -> None:
        name, value = element.get("name"), element.get("ndattribute")
        if name == "detector_data_destination" and value:
            self.layout.destination = value
        else:
            self._warn(element, "unknown global", f"{name} = {value}", "it is ignored")

    def _name(self, element: etree._Element) -> str | None:
        name = element.get("name")
        if not name:
            self._warn(element, "it has no name, and is left out", f"<{_tag(element)}>", 'give one: name="…"')
            return None
        return str(name) if self.layout.takes_name(name, element.sourceline or 0) else None

    def _place(self, element: etree._Element, group: str) -> str | None:
        """Its path, unless it can have none. Of several objects of one name there is the first."""
        name = self._name(element)
        if name is None:
            return None
        path = join(group, name)
        first = self._first.setdefault(path, element)
        # A group may be continued.
        if first is element or _tag(first) == _tag(element) == "group":
            return path
        what, shown = "there is an object of this name; the second one is left out", f"{path}, also on line "
        self._warn(element, what, f"{shown}{first.sourceline}", "rename one")
        return None

    def _flag(self, element: etree._Element, key: str) -> bool:
        value = element.get(key)
        if value not in (None, "true", "false"):
            self._warn(
                element, f"{key} is neither true nor false", str(value), "false is used, as by areaDetector"
            )
        return str(value) == "true"

    def _group(self, element: etree._Element, parent: str, depth: int) -> None:
        path = self._place(element, parent)
        if path is None:
            return
        if depth > _DEPTH_MAX or len(path) > PATH_BYTES_MAX:
            what = "groups are too deep" if depth > _DEPTH_MAX else "the path is too long"
            limit = f"at most {_DEPTH_MAX} levels and {PATH_BYTES_MAX} bytes"
            self._error(element, what, f"{path[:60]}…", limit)
            return
        if depth == 1:
            self._known(element)
        if self._flag(element, "ndattr_default"):
            if self._default_group not in (None, path):
                self._warn(
                    element,
                    "another group is already the default for attributes",
                    path,
                    self._default_group or "",
                )
            self._default_group = self._default_group or path
        if path not in self._groups:
            self._groups[path] = {}
            self.layout.nodes.append(Node(path, "group", element.sourceline or 0))
        for child in self._children(element, _CHILDREN["group"]):
            match _tag(child):
                case "group":
                    self._group(child, path, depth + 1)
                case "dataset":
                    self._dataset(child, path)
                case "hardlink":
                    self._hardlink(child, path)
                case _:
                    self._attribute(child, self._groups[path])

    def _attributes(self, element: etree._Element) -> tuple[Attribute, ...]:
        attributes: dict[str, Attribute] = {}
        for child in self._children(element, _CHILDREN["dataset"]):
            self._attribute(child, attributes)
        return tuple(attributes.values())

    def _dataset(self, element: etree._Element, group: str) -> None:
        path = self._place(element, group)
        if path is None:
            return
        line = element.sourceline or 0
        attributes = self._attributes(element)
        default = self._flag(element, "det_default")
        source, value = element.get("source"), element.get("ndattribute")
        match source:
            case "detector":
                self._detectors.append((Node(path, "frames", line, attributes), default))
                self.layout.nodes.append(self._detectors[-1][0])
            case "ndattribute" if value:
                reported = FrameValue(value, self._when(element))
                self.layout.nodes.append(Node(path, "metadata", line, attributes, metadata=reported))
            case "constant":
                constant = self._constant(element, path)
                if constant is None:
                    self.layout.omitted.add(path)
                else:
                    self.layout.nodes.append(Node(path, "constant", line, attributes, constant=constant))
            case "ndattribute":
                self._without_source(element, path, attributes, "it names no attribute", 'ndattribute="…"')
            case None:
                sources = "detector, ndattribute or constant"
                self._without_source(element, path, attributes, "it has no source", sources)
            case other:
                what = f'its source "{other[:40]}" is unknown'
                self._leave_out(element, what, path, "give another: detector, ndattribute or constant")

    def _without_source(
        self, element: etree._Element, path: str, attributes: tuple[Attribute, ...], what: str, remedy: str
    ) -> None:
        """In areaDetector's own layouts the one that gets its times."""
        if not path.endswith("/timestamp"):
            self._leave_out(element, what, path, f"give one: {remedy}")
            return
        line = element.sourceline or 0
        self.layout.add("info", line, what, path, "it gets the arrival times of frames, in ns since 1970")
        self.layout.nodes.append(Node(path, "series", line, attributes, source=ITEMS["received"].path))

    def _when(self, element: etree._Element) -> When:
        when = element.get("when")
        if when not in (None, "OnFileOpen", "OnFileClose", "OnFileWrite", "OnFrame"):
            self._warn(
                element, "`when` is unknown", str(when), "each frame's value is stored, as by areaDetector"
            )
        return _WHEN.get(when or "", "every")

    def _constant(self, element: etree._Element, path: str) -> Constant | None:
        text, kind = element.get("value", ""), element.get("type", "string")
        try:
            if kind not in _TYPES:
                self._warn(
                    element, "the type is unknown", f"{path}: {kind}", "string is used, as by areaDetector"
                )
                kind = "string"
            if kind == "string":
                return constant_of(text)
            parts = [part.strip() for part in text.split(",")]
            numbers = [_number(part, kind) for part in parts]
            return constant_of(numbers if len(numbers) > 1 else numbers[0], _TYPES[kind])
        except ValueError as error:
            shown = f'{path}: value="{text[:80]}" type="{kind}"'
            what = f"it is left out, as its value does not have its type: {error}"
            self._warn(element, what, shown, "correct the value or the type")
            return None

    def _attribute(self, element: etree._Element, attributes: dict[str, Attribute]) -> None:
        """Adds it, unless it cannot be. Of several of one name there is the first."""
        name = self._name(element)
        if name is None:
            return
        if name in attributes:
            what = "there is an attribute of this name; the second one is left out"
            self._warn(element, what, name, "rename one")
            return
        source, value = element.get("source"), element.get("ndattribute")
        if source == "constant":
            constant = self._constant(element, f"attribute {name}")
            if constant is not None:
                attributes[name] = Attribute(name, constant=constant)
        elif source == "ndattribute" and value:
            when: When = "last" if self._when(element) == "last" else "first"
            attributes[name] = Attribute(name, metadata=FrameValue(value, when))
        else:
            shown = f"attribute {name}" if source is None else f'attribute {name}: source="{source[:40]}"'
            remedy = 'give one: ndattribute="…"' if source == "ndattribute" else _ATTRIBUTE_SOURCES
            self._warn(element, "it has no value, and is left out", shown, remedy)

    def _hardlink(self, element: etree._Element, group: str) -> None:
        path, target = self._place(element, group), element.get("target")
        if path is None:
            return
        if not target:
            self._leave_out(element, "it has no target", path, 'give one: target="/entry/…"')
            return
        # As HDF5 takes it: from the root, whatever slashes there are.
        plain = "/" + "/".join(part for part in target.split("/") if part not in ("", "."))
        if plain != target:
            self._warn(
                element, "the target is not an absolute path", f"{path} → {target}", f"{plain} is used"
            )
        self.layout.nodes.append(Node(path, "link", element.sourceline or 0, target=plain))

    def _choose_detector(self) -> None:
        """Marks the dataset of frames that choose none, as areaDetector does: of those with det_default, or
        else of all, the first by path. If frames cannot choose, the others are left out."""
        marked = [node for node, default in self._detectors if default] or [
            node for node, _ in self._detectors
        ]
        chosen = min(marked, key=lambda node: node.path, default=None)
        if chosen is None or len(self._detectors) < 2:
            self.layout.destination = None
            return
        if self.layout.destination is not None:
            self.layout.nodes = [
                replace(node, default=True) if node.path == chosen.path else node
                for node in self.layout.nodes
            ]
            return
        others = {id(node) for node, _ in self._detectors if node is not chosen}
        # All at once: a hostile file has tens of thousands of them.
        self.layout.nodes = [node for node in self.layout.nodes if id(node) not in others]
        for node, _ in self._detectors:
            if node is chosen:
                continue
            self.layout.omitted.add(node.path)
            self.layout.add(
                "warning",
                node.line,
                "it gets no frames, and is left out",
                node.path,
                f"all frames go to {chosen.path}",
            )
