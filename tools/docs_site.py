"""MkDocs' hooks for pages that are written to be read in the repository, too (mkdocs.yml names this file).

CHANGELOG.md and CONTRIBUTING.md become pages of the site. A link to any other file outside docs/ becomes the
file's name, because the site has no copy of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"`[^`\n]+`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return without_escaped_bars(with_links_of_the_site(markdown, page.file.src_uri))


def with_links_of_the_site(markdown: str, page: str) -> str:
    """The page with each link to a file of the repository as the site can follow it.

    `page` is the path from docs/, or the name of one of PAGES.
    """
    folder = "" if page in PAGES else posixpath.join("docs", posixpath.dirname(page))
    here = posixpath.dirname(page)

    def replaced(match: re.Match[str]) -> str:
        text, link, fragment = match[1], match[2], match[3] or ""
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            return match[0]
        target = posixpath.normpath(posixpath.join(folder, link))
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
        elif target not in PAGES:
            return f"{text} (`{target}`)"
        return f"[{text}]({posixpath.relpath(target, here or '.')}{fragment})"

    return LINK.sub(replaced, markdown)


def without_escaped_bars(markdown: str) -> str:
    r"""Tables need `a\|b` where the page is read in the repository; MkDocs would show the backslash."""
    lines = markdown.split("\n")
    return "\n".join(
        CODE.sub(lambda match: match[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in lines
    )
