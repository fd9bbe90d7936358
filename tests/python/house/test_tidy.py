"""tools/tidy.py: each rule finds its fault, and leaves a clean tree alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools" / "tidy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tidy"] = module
    spec.loader.exec_module(module)
    return module


tidy = load()


def findings(tmp_path: Path, rule: str, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = tidy.Tree(tmp_path, tuple(sorted(files)))
    return [str(finding) for finding in getattr(tidy, rule)(tree)]


# One row a rule: the file that breaks it, the file that keeps it, and a word of the sentence.
CASES = [
    (
        "check_arrows",
        "native/codec/a.hpp",
        '#include "store/store.hpp"\n',
        '#include "frame/frame.hpp"\n',
        "may not",
    ),
    (
        "check_arrows",
        "native/base/a.hpp",
        '#include "frame/frame.hpp"\n',
        '#include "base/bytes.hpp"\n',
        "nothing",
    ),
    (
        "check_arrows",
        "native/base/a.hpp",
        '#include "../frame/frame.hpp"\n',
        "#include <vector>\n",
        "by its path",
    ),
    ("check_arrows", "native/stray/a.hpp", "\n", "", "no row"),
    ("check_mpi", "native/load/a.cpp", "#include <mpi.h>\n", "#include <fmt/format.h>\n", "mpi.h"),
    ("check_hdf5", "native/store/a.cpp", "#include <hdf5.h>\n", "#include <fmt/format.h>\n", "hdf5.h"),
    ("check_mpi", "native/load/a.cpp", "#include <mpi.h>\n", "#include <fmt/format.h>\n", "mpi.h"),
    ("check_hdf5", "native/store/a.cpp", "#include <H5FDdevelop.h>\n", "", "H5FDdevelop.h"),
    ("check_pragma_once", "native/base/a.hpp", "int a;\n", "#pragma once\n", "pragma"),
    ("check_invariants", "native/base/a.cpp", "  assert(a);\n", "  static_assert(a);\n", "PEN_INVARIANT"),
    ("check_length", "native/base/a.cpp", "\n" * 701, "\n" * 350, "split"),
    ("check_length", "native/base/a.cpp", "\n" * 351, "\n", "warning"),
    ("check_unfinished", "tools/a.py", "# TO" + "DO later\n", "# todos are fine as a word\n", "finish"),
    ("check_white_space", "tools/a.py", "\tpass\n", "    pass\n", "tab"),
    ("check_white_space", "tools/a.py", "pass  \n", "pass\n", "white space"),
    (
        "check_home_paths",
        "docs/a.md",
        "see /ho" + "me/user/penstock\n",
        "see /dev/shm and ~/x\n",
        "one machine",
    ),
    ("check_links", "docs/a.md", "[there](nowhere.md)\n", "[here](a.md)\n", "nowhere"),
    ("check_links", "docs/a.md", "# Title\n[x](#other)\n", "# Title one\n[x](#title-one)\n", "no heading"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[4]}")
def test_rule_finds_its_fault_only(tmp_path: Path, case: tuple[str, str, str, str, str]) -> None:
    rule, name, broken, clean, word = case
    found = findings(tmp_path, rule, {name: broken})
    assert len(found) == 1
    assert word in found[0]
    assert found[0].startswith(name)
    if clean:
        assert findings(tmp_path, rule, {name: clean}) == []


def test_folder_sorted_by_subject_holds_few_files(tmp_path: Path) -> None:
    files = {f"native/recorder/tree/{number}.cpp": "" for number in range(25)}
    assert findings(tmp_path, "check_crowded", files) == []
    found = findings(tmp_path, "check_crowded", {**files, "native/recorder/tree/one_more.cpp": ""})
    assert found == ["native/recorder/tree:1: error: 26 files exceed 25; sort them into folders by subject"]


def test_hdf5_may_be_included_in_its_folder(tmp_path: Path) -> None:
    assert findings(tmp_path, "check_hdf5", {"native/store/hdf5/a.cpp": "#include <hdf5.h>\n"}) == []
    assert findings(tmp_path, "check_mpi", {"native/job/a.cpp": "#include <mpi.h>\n"}) == []


def test_links_in_code_are_not_followed(tmp_path: Path) -> None:
    text = "```\n[a](b.md)\n```\n`[a](b.md)` and [web](https://example.org/)\n"
    assert findings(tmp_path, "check_links", {"docs/a.md": text}) == []


def rows(identifiers: list[str], cell: str = "") -> str:
    return "".join(f"| {identifier} | what | | {cell} | |\n" for identifier in identifiers)


def test_requirements_need_a_row_each(tmp_path: Path) -> None:
    complete = rows(tidy.REQUIREMENT_IDS)
    name = "docs/requirements.md"
    assert findings(tmp_path, "check_requirements", {name: complete}) == []
    found = findings(tmp_path, "check_requirements", {name: rows(tidy.REQUIREMENT_IDS[1:])})
    assert found == [f"{name}:1: error: W1 has no row"]
    found = findings(tmp_path, "check_requirements", {name: complete + rows(["W1", "Z9"])})
    assert len(found) == 2
    found = findings(tmp_path, "check_requirements", {name: rows(tidy.REQUIREMENT_IDS, "`tests/none.cpp`")})
    assert len(found) == len(tidy.REQUIREMENT_IDS)
    assert "does not exist" in found[0]
