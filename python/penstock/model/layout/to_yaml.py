"""A layout as YAML, whatever it was read from."""

from typing import Any

import yaml

from penstock.model.layout.nodes import Attribute, Constant, Layout, Node
from penstock.model.layout.own_tree import ITEMS
from penstock.model.layout.yaml_layout import PARAMETER

_NAME_OF = {item.path: name for name, item in ITEMS.items()}
# What a constant gets where no type is said.
_NATURAL = {"text": str, "bool": bool, "int64": int, "float64": float}


class _Dumper(yaml.SafeDumper):
    """Writes each value out: layouts take no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def layout_to_yaml(layout: Layout) -> str:
    """Read again, it makes the same nodes. Parameters stand as what they were set to."""
    document: dict[str, Any] = {}
    if layout.description:
        document["description"] = layout.description
    if layout.metadata_group is not None:
        document["metadata"] = layout.metadata_group
    if layout.destination is not None:
        document["destination"] = _word(layout.destination)
    if layout.ndattributes:
        document["ndattributes"] = True
    trees: dict[str, dict[str, Any]] = {"/": document}
    document["tree"] = {}
    for node in sorted(layout.nodes, key=lambda each: each.path.count("/")):
        made = document if node.path == "/" else _grown(trees, node.path)
        made |= _fields(node)
    if "attributes" in document:
        document["tree"] = document.pop("tree")
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def _grown(trees: dict[str, dict[str, Any]], path: str) -> dict[str, Any]:
    """The mapping of an object, in those of the groups above it."""
    if path not in trees:
        above, _, name = path.rpartition("/")
        trees[path] = _grown(trees, above or "/").setdefault("tree", {}).setdefault(name, {})
    return trees[path]


def _fields(node: Node) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    match node.kind:
        case "group" if node.source:
            fields["nxmx"] = node.source
        case "frames":
            fields["frames"] = node.channel
            if node.default:
                fields["default"] = True
        case "series":
            fields["series"] = _NAME_OF[node.source]
        case "metadata" if node.metadata is not None:
            fields["metadata"] = _word(node.metadata.name)
            if node.metadata.when != "every":
                fields["when"] = node.metadata.when
            if node.metadata.type:
                fields["type"] = node.metadata.type
        case "constant" if node.constant is not None:
            fields |= _constant(node.constant)
        case "link":
            fields["link"] = node.target
    if node.attributes:
        fields["attributes"] = {attribute.name: _attribute(attribute) for attribute in node.attributes}
    return fields


def _word(name: str) -> str:
    """A name that does not look like a parameter, such as $dose."""
    return f"${name}" if name.startswith("$$") or PARAMETER.fullmatch(name) else name


def _constant(constant: Constant) -> dict[str, Any]:
    items = constant.value if isinstance(constant.value, list) else [constant.value]
    natural = all(type(item) is _NATURAL.get(constant.type) for item in items)
    return {"constant": constant.value} | ({} if natural else {"type": constant.type})


def _attribute(attribute: Attribute) -> Any:
    if attribute.constant is not None:
        fields = _constant(attribute.constant)
        return fields if "type" in fields else fields["constant"]
    if attribute.metadata is not None:
        return {"metadata": _word(attribute.metadata.name), "when": attribute.metadata.when}
    return {"series": _NAME_OF[attribute.series]}
