"""The sections of a report's pages."""

import pytest
from report_documents import DOCUMENTS

from penstock.report.pages.documents import page_of
from penstock.report.pages.page import Table


@pytest.mark.parametrize("name", DOCUMENTS)
def test_captions_do_not_repeat_the_title_of_their_section(name: str) -> None:
    sections = page_of(DOCUMENTS[name], "x.json").sections
    captions = [
        (section.title, block.caption)
        for section in sections
        for block in section.blocks
        if isinstance(block, Table)
    ]
    assert captions
    assert [title for title, caption in captions if title.startswith(caption)] == []
