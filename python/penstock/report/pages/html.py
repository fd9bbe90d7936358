"""Pages as one HTML file that needs nothing beside it."""

import functools
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.report.pages.page import Page
from penstock.report.printable import printable


def _shown(value: object) -> object:
    """What a template puts into the page: text of documents is cut and cleaned, and then escaped."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("penstock.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def html_of(pages: Sequence[Page]) -> str:
    """`pages`: the first one names the file."""
    return _environment().get_template("report.html.j2").render(pages=pages, title=pages[0].title)
