"""Huge pages for peers whose buffers lie in ordinary ones otherwise; as root alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure.process import BenchmarkError

_RESERVED = Path("/proc/sys/vm/nr_hugepages")


def may_reserve_huge_pages() -> bool:
    return os.access(_RESERVED, os.W_OK)


@contextmanager
def reserved_huge_pages(size_bytes: int) -> Iterator[None]:
    """So many bytes more than before, in huge pages of the kernel's usual size, until the block ends."""
    if size_bytes == 0:
        yield
        return
    before = int(_RESERVED.read_text())
    wanted = before + -(-size_bytes // _page_bytes())
    try:
        _RESERVED.write_text(str(wanted))
        if (found := int(_RESERVED.read_text())) < wanted:
            raise BenchmarkError(f"the kernel has {found} huge pages; {wanted} are needed")
        yield
    finally:
        _RESERVED.write_text(str(before))


def _page_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Hugepagesize:"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError("this kernel has no huge pages")
