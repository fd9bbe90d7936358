"""Layouts of what is in a file, for the terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from penstock.model.findings import Finding
from penstock.model.layout.nodes import Attribute, FrameValue, Layout, Node, parent_of
from penstock.model.layout.own_tree import FRAMES, ITEMS, KEPT, UNNAMED, VIRTUAL_VALUES, is_below
from penstock.model.text import one_short_line

_NAME_OF = {item.path: name for name, item in ITEMS.items()}
_SHOWN_MAX = 60
_WHEN = {"every": "of each frame", "first": "of the first frame", "last": "of the last frame"}
_COLORS = {"error": "red", "warning": "yellow", "info": "blue"}


def layout_tree(layout: Layout) -> Tree:
    """Every object with what it is made of; of groups that are taken over, what they may hold."""
    trees: dict[str, Tree] = {}
    root = next(node for node in layout.nodes if node.path == "/")
    trees["/"] = Tree(_line("/", root, layout), guide_style="dim")
    for node in sorted(layout.nodes, key=lambda each: each.path.count("/")):
        if node.path != "/":
            above = _grown(trees, parent_of(node.path))
            trees[node.path] = above.add(_line(node.path.rpartition("/")[2], node, layout))
    _add_taken(layout, trees)
    if layout.metadata_group is not None and layout.metadata_group not in trees:
        _grown(trees, layout.metadata_group).add(_dim("… values of frames without a dataset"))
    _grown(trees, parent_of(KEPT)).add(_dim("penstock  the frame ledger and times, the same in every layout"))
    return trees["/"]


def _grown(trees: dict[str, Tree], path: str) -> Tree:
    """The branch of a group, made where no node has made it."""
    if path not in trees:
        trees[path] = _grown(trees, parent_of(path)).add(Text(one_short_line(path.rpartition("/")[2])))
    return trees[path]


def _add_taken(layout: Layout, trees: dict[str, Tree]) -> None:
    """What the series may bring into groups that are taken over."""
    named = {node.source for node in layout.nodes if node.kind == "series"}
    groups = {node.source: node.path for node in layout.nodes if node.kind == "group" and node.source}
    has_frames = any(node.kind == "frames" for node in layout.nodes)
    reported = {item.path: f"series: {name}" for name, item in ITEMS.items() if not item.is_kept} | UNNAMED
    if not has_frames:
        reported[FRAMES] = "frames"
    for path, what in reported.items():
        holders = [source for source in groups if is_below(path, source)]
        if path in named or not holders:
            continue
        source = max(holders, key=len)
        place = groups[source].rstrip("/") + path.removeprefix(source)
        if place not in trees:
            trees[place] = _grown(trees, parent_of(place)).add(_dim(f"{place.rpartition('/')[2]}  {what}"))


def _dim(text: str) -> Text:
    return Text(text, style="dim")


def _line(name: str, node: Node, layout: Layout) -> Text:
    line = Text(one_short_line(name), style="bold" if node.kind == "group" else "")
    reported = _reported(node, layout)
    if reported:
        line.append(f"  {one_short_line(reported)}", style="cyan")
    for attribute in node.attributes:
        shown = one_short_line(f"  @{attribute.name} {_attribute(attribute)}")
        line.append(shown[:_SHOWN_MAX], style="green")
    return line


def _reported(node: Node, layout: Layout) -> str:
    match node.kind:
        case "frames":
            return "frames" + (f" of channel {node.channel}" if node.channel else "") + _chosen(node, layout)
        case "series":
            name = _NAME_OF.get(node.source, node.source)
            return f"series: {name} ({ITEMS[name].what})" if name in ITEMS else node.source
        case "metadata" if node.metadata is not None:
            return _value(node.metadata)
        case "constant" if node.constant is not None:
            return f"= {str(node.constant.value)[:_SHOWN_MAX]!s} ({node.constant.type})"
        case "link":
            return f"→ {node.target}"
    taken = f"nxmx: {node.source}" if node.source else ""
    rest = "values of frames without a dataset" if node.path == layout.metadata_group else ""
    return "; ".join(part for part in (taken, rest) if part)


def _chosen(node: Node, layout: Layout) -> str:
    """Which of the frames, if a value of theirs chooses."""
    datasets = layout.destinations() if layout.chooses else []
    if node not in datasets:
        return ""
    others = ", and those that name no dataset" if node is datasets[0] else ""
    return f' whose "{layout.destination}" is {node.path}{others}'


def _value(value: FrameValue) -> str:
    kind = f", {value.type}" if value.type else ""
    virtual = f": {VIRTUAL_VALUES[value.name]}" if value.name in VIRTUAL_VALUES else ""
    return f'"{value.name}" {_WHEN[value.when]}{kind}{virtual}'


def _attribute(attribute: Attribute) -> str:
    if attribute.constant is not None:
        return f"= {attribute.constant.value}"
    if attribute.metadata is not None:
        return _value(attribute.metadata)
    return f"series: {_NAME_OF.get(attribute.series, attribute.series)}"


def layouts_table(ready: Mapping[str, Layout]) -> Table:
    """Those that come with Penstock."""
    table = Table("Name", "What it is for", "Parameters", box=None, pad_edge=False)
    for name, layout in ready.items():
        table.add_row(name, escape(layout.description), ", ".join(layout.parameters))
    return table


def layout_findings(findings: Iterable[Finding]) -> Sequence[Text]:
    """One line each, with the place in the file first."""
    lines = []
    for finding in findings:
        line = Text(f"{finding.level}: ", style=f"bold {_COLORS[finding.level]}")
        reported = ": ".join(part for part in (finding.where, finding.what, finding.actual) if part)
        line.append(one_short_line(reported), style="not bold default")
        if finding.remedy:
            line.append(f" ({one_short_line(finding.remedy)})", style="not bold dim")
        lines.append(line)
    return lines
