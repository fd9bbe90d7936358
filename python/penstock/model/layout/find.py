"""Layouts by name or path."""

from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl

from penstock.model.errors import UsageError
from penstock.model.findings import Finding
from penstock.model.layout.check import check_layout
from penstock.model.layout.nodes import Layout, Node
from penstock.model.layout.xml_layout import read_layout_xml
from penstock.model.layout.yaml_layout import PAGE, read_layout_text
from penstock.model.problems import reason_of

_FILE_BYTES_MAX = 1 << 20
_SUFFIXES = (".yaml", ".yml", ".xml")


def ready_layouts(folder: Path) -> dict[str, Path]:
    """Those that come with Penstock, by name."""
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES}


def read_layout(choice: str, folder: Path) -> Layout:
    """A ready layout's name, or a file; `?NAME=VALUE&…` behind it sets parameters.

    Findings list its problems. Raises UsageError if there is nothing to read.
    """
    path, given = _divide(choice, folder)
    content = _content(path)
    try:
        return check_layout(_parse(path, content, given))
    except UsageError as error:
        findings = [
            Finding(level="error", what=line, remedy=error.remedy)
            for line in error.message.splitlines()
            if line
        ]
        return Layout(path.stem, str(path), nodes=[Node("/", "group")], findings=findings)


def _parse(path: Path, content: bytes, given: dict[str, str]) -> Layout:
    """A UsageError where it is neither."""
    if path.suffix == ".xml" or content.lstrip().startswith(b"<"):
        layout = read_layout_xml(content, path.stem, str(path))
        if given:
            layout.add("error", 0, "layouts in XML have no parameters", ", ".join(given), "leave them out")
        return layout
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", f"see {PAGE}") from error
    return read_layout_text(text, path.stem, str(path), given)


def load_layout(choice: str, folder: Path) -> Layout:
    """Returns a valid layout. Raises UsageError with its problems otherwise."""
    layout = read_layout(choice, folder)
    if layout.errors:
        raise UsageError(
            "\n".join(describe(finding) for finding in layout.errors),
            f"`penstock layout check {choice}` lists all problems; see {PAGE}",
        )
    return layout


def describe(finding: Finding) -> str:
    """ "file:line: what is wrong: value (remedy)" """
    reported = ": ".join(part for part in (finding.where, finding.what, finding.actual) if part)
    return f"{reported} ({finding.remedy})" if finding.remedy else reported


def _divide(choice: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """The file, and the parameters behind it."""
    ready = ready_layouts(folder)
    if choice in ready:
        return ready[choice], {}
    if Path(choice).exists():
        return Path(choice), {}
    name, mark, query = choice.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=64))
    if mark and not given:
        raise UsageError(f'"{choice}": no parameters follow the question mark', f"write {name}?NAME=VALUE")
    path = ready.get(name, Path(name))
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UsageError(
                f"the file {path.absolute()} does not exist",
                "check the path; `penstock layout list` lists the layouts",
            )
        near = get_close_matches(name, ready, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UsageError(
            f'"{name}" is neither a layout nor a file', f"{hint}`penstock layout list` lists the layouts"
        )
    return path, given


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)  # a device has no size, and no end
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}: {reason_of(error)}", "check the path and its permissions"
        ) from error
    if len(content) > _FILE_BYTES_MAX:
        raise UsageError(f"{path} exceeds the maximum size of 1 MiB", "check the path")
    return content
