"""Plots as SVG that stands inside a page: its colours are the page's, its names are its own."""

import io
import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

from penstock.report.pages.page import Picture
from penstock.report.printable import printable

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
# Matplotlib draws with these; the page has a style for each, in light and in dark.
COLOURS = {
    "text": "#0a0b01",
    "rule": "#0a0b02",
    "first": "#0a0b03",
    "second": "#0a0b04",
    "good": "#0a0b05",
    "warning": "#0a0b06",
    "bad": "#0a0b07",
    "void": "#0a0b08",
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "penstock",
    # A text of a document may have any characters: none of them is a formula.
    "text.parse_math": False,
    "text.color": COLOURS["text"],
    "axes.edgecolor": COLOURS["rule"],
    "axes.labelcolor": COLOURS["text"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.color": COLOURS["text"],
    "ytick.color": COLOURS["text"],
    "grid.color": COLOURS["rule"],
    "font.size": 9,
    "font.family": "sans-serif",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "axes.grid": True,
    "grid.linewidth": 0.5,
}
_numbers = itertools.count(1)


def picture(
    title: str, description: str, draw: Callable[[Figure], None], height: float, is_void: bool = False
) -> Picture:
    """`height` in inches, of a plot 8 inches wide. `draw` may fail at impossible figures."""
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that its own font lacks; the page has others
        figure = Figure(figsize=(8, height), layout="constrained")
        written = io.BytesIO()
        try:
            draw(figure)
            if is_void:
                _mark_void(figure)
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(written, format="svg", transparent=True, metadata=nothing)
        except (ValueError, OverflowError, FloatingPointError, ArithmeticError, MemoryError):
            return Picture(title, description, "")
    svg = _for_a_page(written.getvalue(), f"plot{next(_numbers)}", printable(title), printable(description))
    return Picture(title, description, svg)


def _mark_void(figure: Figure) -> None:
    figure.text(
        0.5,
        0.5,
        "INVALID",
        fontsize=44,
        rotation=20,
        ha="center",
        va="center",
        color=COLOURS["bad"],
        alpha=0.35,
        zorder=10,
    )


def _for_a_page(written: bytes, name: str, title: str, description: str) -> str:
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(written)
    for each in root.iter():
        _make_own(each, name)
    # It takes the width that there is.
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-description")
    for place, (kind, text) in enumerate((("title", title), ("desc", description))):
        reported = ElementTree.Element(f"{{{_SVG}}}{kind}")
        reported.set("id", f"{name}-{'title' if kind == 'title' else 'description'}")
        reported.text = text
        root.insert(place, reported)
    svg = ElementTree.tostring(root, encoding="unicode")
    for colour, code in COLOURS.items():
        svg = svg.replace(code, f"var(--{colour})")
    return svg


def _make_own(element: ElementTree.Element, name: str) -> None:
    """Several plots of one page must not have names in common."""
    for attribute, value in element.attrib.items():
        if attribute == "id":
            element.set(attribute, f"{name}-{value}")
        elif value.startswith("#") and attribute.endswith("href"):
            element.set(attribute, f"#{name}-{value[1:]}")
        elif "url(#" in value:
            element.set(attribute, re.sub(r"url\(#", f"url(#{name}-", value))
        elif attribute == "style" and "font:" in value:
            element.set(attribute, re.sub(r"(font: [^;]*px) [^;]*", r"\1 sans-serif", value))
