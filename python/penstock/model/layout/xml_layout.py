"""areaDetector's layout files, as NDFileHDF5 reads them (ADCore's hdf5_xml_layout_schema.xsd and parser).

Like that parser this one is lenient where nothing is lost: what it does not know, or what cannot apply, gives
a warning. Files from outside are hostile until parsed: no document type, no entities, bounded size and depth.
"""

from collections.abc import Iterator

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
_CHILDREN = {
    "hdf5_layout": {"global", "group"},
    "group": {"group", "dataset", "attribute", "hardlink"},
    "dataset": {"attribute"},
}
_ATTRIBUTE_SOURCES = 'source="constant" or source="ndattribute"'
_TYPES = {"int": "int32", "float": "float64", "string": "text"}
_WHEN: dict[str, When] = {"OnFileOpen": "first", "OnFileClose": "last"}


def read_layout_xml(content: bytes, name: str, file: str) -> Layout:
    """Returns the layout and its findings; `file` is for messages. Raises UsageError if it is no XML."""
    root = _parse(content, file)
    if _tag(root) not in ("hdf5_layout", "group"):
        raise UsageError(
            f"{file}:{root.sourceline}: the first element is <{_tag(root)}>",
            f"expected <hdf5_layout>; see {PAGE}",
        )
    return _Reader(root, name, file).layout


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
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        what = "whole number" if kind == "int" else "number"
        raise ValueError(f'"{text[:40]}" is no {what}') from None


class _Reader:
    def __init__(self, root: etree._Element, name: str, file: str) -> None:
        before = root.getprevious()
        comment = before.text if before is not None and before.tag is etree.Comment else None
        self.layout = Layout(name, file, " ".join((comment or "").split()), ndattributes=True)
        self._count = 0
        self._default_group: str | None = None
        self._detectors: list[tuple[Node, bool]] = []
        automatic = True
        self.layout.nodes.append(Node("/", "group"))
        if _tag(root) == "group":
            self._group(root, "/", 1)
        else:
            automatic = self._root(root)
        self._choose_detector()
        self.layout.metadata_group = (self._default_group or "/") if automatic else None

    def _error(self, element: etree._Element, what: str, actual: str, remedy: str) -> None:
        self.layout.add("error", element.sourceline or 0, what, actual, remedy)

    def _warn(self, element: etree._Element, what: str, actual: str, remedy: str) -> None:
        self.layout.add("warning", element.sourceline or 0, what, actual, remedy)

    def _root(self, root: etree._Element) -> bool:
        """Whether values that no dataset names go into a group of the layout."""
        self._known(root)
        for element in self._children(root):
            if _tag(element) == "global":
                self._global(element)
            else:
                self._group(element, "/", 1)
        automatic = root.get("auto_ndattr_default", "true")
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

    def _children(self, element: etree._Element) -> Iterator[etree._Element]:
        for child in element.iterchildren(tag=etree.Element):
            self._count += 1
            if self._count > _ELEMENTS_MAX:
                raise UsageError(
                    f"{self.layout.file}:{child.sourceline}: it has more than {_ELEMENTS_MAX} elements",
                    "split it",
                )
            if _tag(child) in _CHILDREN.get(_tag(element), set()):
                self._known(child)
                yield child
            else:
                inside = f"<{_tag(child)}> inside <{_tag(element)}>"
                self._warn(
                    child, "this element is not allowed here", inside, "it is ignored, as by areaDetector"
                )

    def _global(self, element: etree._Element) -> None:
        value = f"{element.get('name')} = {element.get('ndattribute')}"
        if element.get("name") == "detector_data_destination":
            self._warn(
                element,
                "the dataset of a frame cannot follow from an attribute",
                value,
                "all frames go to the default dataset; the value is kept with each frame",
            )
        else:
            self._warn(element, "unknown global", value, "it is ignored")

    def _name(self, element: etree._Element) -> str | None:
        name = element.get("name")
        if not name:
            self._error(element, "the name is missing", f"<{_tag(element)}>", 'give one: name="…"')
            return None
        return str(name) if self.layout.takes_name(name, element.sourceline or 0) else None

    def _flag(self, element: etree._Element, key: str) -> bool:
        value = element.get(key)
        if value not in (None, "true", "false"):
            self._warn(
                element, f"{key} is neither true nor false", str(value), "false is used, as by areaDetector"
            )
        return str(value) == "true"

    def _group(self, element: etree._Element, parent: str, depth: int) -> None:
        name = self._name(element)
        if name is None:
            return
        path = join(parent, name)
        if depth > _DEPTH_MAX or len(path) > PATH_BYTES_MAX:
            what = "groups are too deep" if depth > _DEPTH_MAX else "the path is too long"
            limit = f"at most {_DEPTH_MAX} levels and {PATH_BYTES_MAX} bytes"
            self._error(element, what, f"{path[:60]}…", limit)
            return
        if depth == 1:
            self._known(element)
        if self._flag(element, "ndattr_default"):
            if self._default_group is not None:
                self._warn(
                    element, "another group is already the default for attributes", path, self._default_group
                )
            self._default_group = self._default_group or path
        place = len(self.layout.nodes)
        attributes: list[Attribute] = []
        for child in self._children(element):
            match _tag(child):
                case "group":
                    self._group(child, path, depth + 1)
                case "dataset":
                    self._dataset(child, path)
                case "hardlink":
                    self._hardlink(child, path)
                case _:
                    attributes += self._attribute(child)
        self.layout.nodes.insert(place, Node(path, "group", element.sourceline or 0, tuple(attributes)))

    def _dataset(self, element: etree._Element, group: str) -> None:
        name = self._name(element)
        if name is None:
            return
        path, line = join(group, name), element.sourceline or 0
        attributes = tuple(each for child in self._children(element) for each in self._attribute(child))
        default = self._flag(element, "det_default")
        match element.get("source"):
            case "detector":
                self._detectors.append((Node(path, "frames", line, attributes), default))
                self.layout.nodes.append(self._detectors[-1][0])
            case "ndattribute":
                value = element.get("ndattribute")
                if not value:
                    self._error(element, "the attribute is not named", path, 'give one: ndattribute="…"')
                    return
                reported = FrameValue(value, self._when(element))
                self.layout.nodes.append(Node(path, "metadata", line, attributes, metadata=reported))
            case "constant":
                constant = self._constant(element, path)
                if constant is not None:
                    self.layout.nodes.append(Node(path, "constant", line, attributes, constant=constant))
            case None:
                self._without_source(element, path)
            case other:
                self._error(
                    element,
                    "the source is unknown",
                    f'{path}: source="{other}"',
                    "detector, ndattribute or constant",
                )

    def _without_source(self, element: etree._Element, path: str) -> None:
        """In areaDetector's own default layout the one that gets its times."""
        if path.endswith("/timestamp"):
            line = element.sourceline or 0
            what, remedy = "it has no source", "it gets the arrival times of frames, in ns since 1970"
            self.layout.add("info", line, what, path, remedy)
            self.layout.nodes.append(Node(path, "series", line, source=ITEMS["received"].path))
            return
        self.layout.omitted.add(path)
        self._warn(
            element, "it has no source, and is left out", path, "give one: detector, ndattribute or constant"
        )

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
            self._error(
                element, f"the value does not have its type: {error}", shown, "correct the value or the type"
            )
            return None

    def _attribute(self, element: etree._Element) -> list[Attribute]:
        name = self._name(element)
        if name is None:
            return []
        match element.get("source"):
            case "constant":
                constant = self._constant(element, f"attribute {name}")
                return [] if constant is None else [Attribute(name, constant=constant)]
            case "ndattribute":
                value = element.get("ndattribute")
                if value:
                    when: When = "last" if self._when(element) == "last" else "first"
                    return [Attribute(name, metadata=FrameValue(value, when))]
                self._error(element, "the attribute is not named", name, 'give one: ndattribute="…"')
            case None:
                self._error(element, "the source is missing", f"attribute {name}", _ATTRIBUTE_SOURCES)
            case other:
                self._error(
                    element, "the source is unknown", f"attribute {name}: {other}", _ATTRIBUTE_SOURCES
                )
        return []

    def _hardlink(self, element: etree._Element, group: str) -> None:
        name, target = self._name(element), element.get("target")
        if name is None:
            return
        path = join(group, name)
        if not target:
            self._error(element, "the target is missing", path, 'give one: target="/entry/…"')
            return
        self.layout.nodes.append(Node(path, "link", element.sourceline or 0, target=target))

    def _choose_detector(self) -> None:
        """Of several datasets for frames one gets them all."""
        chosen = next((node for node, default in self._detectors if default), None)
        chosen = chosen or (self._detectors[0][0] if self._detectors else None)
        left_out = {id(node) for node, _ in self._detectors if node is not chosen}
        # All at once: a hostile file has tens of thousands of them.
        self.layout.nodes = [node for node in self.layout.nodes if id(node) not in left_out]
        for node, _ in self._detectors:
            if node is chosen:
                continue
            self.layout.omitted.add(node.path)
            self.layout.add(
                "warning",
                node.line,
                "it gets no frames, and is left out",
                node.path,
                f"all frames go to {chosen.path if chosen else ''}",
            )
