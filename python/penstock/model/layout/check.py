"""Whether a layout can be: what it names is there, each path once, and links lead somewhere."""

import re
from collections.abc import Mapping
from dataclasses import replace

from penstock.model.findings import Finding
from penstock.model.layout.nodes import PATH_BYTES_MAX, Layout, Node, is_possible, parent_of
from penstock.model.layout.own_tree import DESTINATIONS, FRAMES, KEPT, is_below

_NODES_MAX = 65536
_NAME_BYTES_MAX = 255
_ATTRIBUTES_MAX = 4096  # of one object
_DESTINATIONS_MAX = 256
_LINKS_MAX = 64  # one behind the other
# Names that all readers of NeXus files understand.
_PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")
# What the recorder makes in every layout.
_ALWAYS_THERE = {
    KEPT,
    *(f"{KEPT}/{name}" for name in ("frame_state", "series_id", "series_unique_id", "frames_announced")),
    *(f"{KEPT}/{name}" for name in ("channels", "user_data", "detector_translation", "place", "timing")),
    *(f"{KEPT}/timing/exposure_{name}" for name in ("start", "stop", "real")),
    *(f"{KEPT}/timing/{name}" for name in ("received", "encoded", "written")),
}


def check_layout(layout: Layout) -> Layout:
    """Adds findings, and makes each link lead to an object instead of to another link."""
    _Check(layout).run()
    layout.findings.sort(key=_line_of)
    return layout


def _line_of(finding: Finding) -> int:
    line = re.search(r":([0-9]+)$", finding.where)
    return int(line[1]) if line else 0


class _Check:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.by_path: dict[str, Node] = {}
        self._taken: list[str] | None = None

    def run(self) -> None:
        if len(self.layout.nodes) > _NODES_MAX:
            count = str(len(self.layout.nodes))
            self.layout.add("error", 0, "there are too many objects", count, f"the maximum is {_NODES_MAX}")
            return
        for node in self.layout.nodes:
            self._look_at(node)
        self._metadata_group()
        self._frames()
        self._taken_twice()
        self._follow_links()
        self._plots()

    def _error(self, node: Node, what: str, actual: str, remedy: str) -> None:
        self.layout.add("error", node.line, what, actual, remedy)

    def _refuse(self, link: Node, what: str, actual: str, remedy: str) -> None:
        """A link that cannot be."""
        level, what = self.layout.of_what_cannot_be(what)
        self.layout.add(level, link.line, what, actual, remedy)
        self.layout.omitted.add(link.path)

    def _look_at(self, node: Node) -> None:
        names = node.path.split("/")[1:] if node.path != "/" else []
        if names:
            self._name(node, names[-1])
        for attribute in node.attributes:
            if not is_possible(attribute.name) or len(attribute.name.encode()) > _NAME_BYTES_MAX:
                self._error(node, "the attribute's name is invalid", repr(attribute.name), "choose another")
        if len(node.attributes) > _ATTRIBUTES_MAX:
            actual = f"{node.path} has {len(node.attributes)}"
            self._error(node, "there are too many attributes", actual, f"the maximum is {_ATTRIBUTES_MAX}")
        if len({attribute.name for attribute in node.attributes}) < len(node.attributes):
            self._error(node, "duplicate attribute", node.path, "remove one of the two")
        if node.attributes and node.kind == "link":
            self._error(node, "a link cannot have attributes", node.path, "give them to its target")
        if node.path == KEPT or is_below(node.path, KEPT):
            self._error(node, f"{KEPT} is Penstock's own", node.path, "choose another place")
        if node.path == "/entry" and node.kind != "group":
            self._error(node, f"/entry has to be a group, for {KEPT}", node.path, "choose another name")
        if node.metadata is not None and not is_possible(node.metadata.name, slashes=True):
            self._error(node, "no frame has a value of that name", repr(node.metadata.name), "correct it")
        if node.channel == "" or (isinstance(node.channel, int) and not 0 <= node.channel < 32):
            self._error(
                node, "this channel does not exist", str(node.channel), "channels count from 0, up to 31"
            )
        first = self.by_path.setdefault(node.path, node)
        if first is not node:
            self._error(
                node, "two objects have one path", f"{node.path}, also on line {first.line}", "rename one"
            )

    def _name(self, node: Node, name: str) -> None:
        if not _PLAIN.fullmatch(name):
            self.layout.add(
                "warning",
                node.line,
                "NeXus allows no such name",
                node.path,
                "letters, digits, _ and - suit all readers",
            )
        if len(node.path.encode()) > PATH_BYTES_MAX:
            self._error(node, "the path is too long", f"{node.path[:60]}…", f"at most {PATH_BYTES_MAX} bytes")

    def _metadata_group(self) -> None:
        group = self.layout.metadata_group
        if group is None or group == "/":
            return
        node = self.by_path.get(group)
        line = node.line if node is not None else 0
        parts = group.split("/")
        if parts[0] or not all(is_possible(part) for part in parts[1:]):
            self.layout.add(
                "error", line, "metadata is not a path of a group", group, "for example /entry/metadata"
            )
            return
        kept = group == KEPT or is_below(group, KEPT)
        above = [self.by_path.get("/".join(parts[:count])) for count in range(2, len(parts) + 1)]
        if kept or any(each is not None and each.kind != "group" for each in above):
            self.layout.add(
                "error", line, "frames' values cannot go there", group, "use a separate group for metadata"
            )
        elif node is not None and node.source:
            remedy = "let it be another group than one with nxmx"
            self.layout.add("error", line, "frames' values cannot go there", group, remedy)

    def _frames(self) -> None:
        channels: dict[int | str, Node] = {}
        for node in self.layout.nodes:
            if node.kind == "frames":
                first = channels.setdefault(node.channel, node)
                chosen = self.layout.destination is not None and node.channel == 0
                if first is not node and not chosen:
                    what = "two datasets have the frames of one channel"
                    self._error(node, what, f"{first.path} and {node.path}", "let one be a link")
        self._destinations()
        taken = any(
            node.kind == "group" and node.source and is_below(FRAMES, node.source)
            for node in self.layout.nodes
        )
        if not taken and 0 not in channels and not any(isinstance(each, str) for each in channels):
            what, remedy = "no dataset has the frames", 'frames: 0 for one of them; in XML source="detector"'
            self.layout.add("error", 0, what, self.layout.name, remedy)

    def _destinations(self) -> None:
        """Datasets among which a value of each frame chooses."""
        name, datasets = self.layout.destination, self.layout.destinations()
        if name is not None and not is_possible(name, slashes=True):
            what = "destination cannot be the name of a frame's value"
            self.layout.add("error", 0, what, repr(name), "correct it")
        if name is not None and len(datasets) > _DESTINATIONS_MAX:
            what, actual = "there are too many datasets for frames", str(len(datasets))
            self._error(datasets[0], what, actual, f"the maximum is {_DESTINATIONS_MAX}")
        if name is not None and len(datasets) < 2:
            what = "frames have one dataset, so destination has no effect"
            self.layout.add("warning", 0, what, name, "give a second dataset with frames: 0, or remove it")
        defaults = [node for node in self.layout.nodes if node.default]
        if name is None and defaults:
            what = "default requires destination"
            self._error(defaults[0], what, defaults[0].path, "add destination, or remove default")
        for node in defaults[1:]:
            paths = f"{defaults[0].path} and {node.path}"
            self._error(node, "two datasets are the default for frames", paths, "keep one")

    def _taken_twice(self) -> None:
        seen: dict[str, Node] = {}
        for node in self.layout.nodes:
            if node.kind == "group" and node.source:
                first = seen.setdefault(node.source, node)
                if first is not node:
                    self._error(
                        node, "two groups replace the same group", f"{first.path} and {node.path}", "keep one"
                    )

    def _follow_links(self) -> None:
        nodes = []
        for node in self.layout.nodes:
            if node.kind != "link":
                nodes.append(node)
                continue
            target = self._end_of(node)
            if target is not None:
                nodes.append(replace(node, target=target))
        self.layout.nodes = nodes
        self.by_path |= {node.path: node for node in nodes}
        self._circles()

    def _end_of(self, link: Node) -> str | None:
        """The object that a link leads to; None where it is left out."""
        target = link.target
        for _ in range(_LINKS_MAX):
            if target in self.layout.omitted:
                self.layout.omitted.add(link.path)
                what = "its target is left out, and so is the link"
                self.layout.add(
                    "warning", link.line, what, f"{link.path} → {target}", "choose another target"
                )
                return None
            node = self.by_path.get(target)
            if node is None:
                return target if self._may_come(link, target) else None
            if node.kind != "link":
                return target
            target = node.target
        self._refuse(link, "links form a loop", link.path, "let one point to a dataset or group")
        return None

    def _may_come(self, link: Node, target: str) -> bool:
        """What no node has may still come: below a group that is taken over, or as a frame's value."""
        if target in _ALWAYS_THERE or (self.layout.destination is not None and target in DESTINATIONS):
            return True
        if any(is_below(target, group) for group in self._taken_groups()):
            return True
        if self.layout.metadata_group is not None and parent_of(target) == self.layout.metadata_group:
            what = "the link exists only if frames have that value"
            self.layout.add(
                "warning", link.line, what, f"{link.path} → {target}", "name the value in a dataset"
            )
            return True
        self._refuse(
            link, "the target does not exist", f"{link.path} → {target}", "name an object of this layout"
        )
        return False

    def _circles(self) -> None:
        """A link to a group is another way into it; whoever walks the tree must come to an end."""
        ways: dict[str, list[Node]] = {}
        for node in self.layout.nodes:
            if node.kind == "link":
                ways.setdefault(parent_of(node.path), []).append(node)
        if not any(self._is_group(node.target) for links in ways.values() for node in links):
            return
        groups = {node.path for node in self.layout.nodes if node.kind == "group"}
        inner: dict[str, list[str]] = {}
        for path in groups - {"/"}:
            inner.setdefault(parent_of(path), []).append(path)
        state: dict[str, int] = {}
        for start in sorted(groups):
            self._walk(start, inner, ways, state)
        refused = {node.path for node in self.layout.nodes if node.kind == "link"} & self.layout.omitted
        self.layout.nodes = [node for node in self.layout.nodes if node.path not in refused]

    def _is_group(self, path: str) -> bool:
        node = self.by_path.get(path)
        return path == "/" or (node is not None and node.kind == "group")

    def _walk(
        self,
        start: str,
        inner: Mapping[str, list[str]],
        ways: Mapping[str, list[Node]],
        state: dict[str, int],
    ) -> None:
        """Depth first, without recursion: 1 is on the way, 2 is done."""
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            path, leaving = pending.pop()
            if leaving:
                state[path] = 2
                continue
            if state.get(path):
                continue
            state[path] = 1
            pending.append((path, True))
            pending += [(each, False) for each in inner.get(path, ()) if not state.get(each)]
            for link in ways.get(path, ()):
                if not self._is_group(link.target):
                    continue
                if state.get(link.target) == 1:
                    shown = f"{link.path} → {link.target}"
                    self._refuse(
                        link, "the link points back into a group that contains it", shown, "link its contents"
                    )
                elif not state.get(link.target):
                    pending.append((link.target, False))

    def _plots(self) -> None:
        """What readers show first: @default leads to an NXdata, whose @signal names a dataset."""
        for node in self.layout.nodes:
            if node.kind != "group" or node.source:
                continue
            for name in ("default", "signal"):
                named = node.attribute(name)
                if isinstance(named, str) and not self._leads(node, named):
                    self.layout.add(
                        "warning",
                        node.line,
                        f"its attribute {name} names no object",
                        f"{node.path}: {named}",
                        "name an object of the group",
                    )

    def _leads(self, node: Node, named: str) -> bool:
        path = named if named.startswith("/") else f"{node.path.rstrip('/')}/{named}"
        return path in self.by_path or any(is_below(path, group) for group in self._taken_groups())

    def _taken_groups(self) -> list[str]:
        """Those that are taken over from the default layout, each once, and so few."""
        if self._taken is None:
            taken = {
                node.source: node.path for node in self.layout.nodes if node.kind == "group" and node.source
            }
            self._taken = list(taken.values())
        return self._taken
