"""tools/tidy.py: each rule finds its fault, and leaves a clean tree alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))  # for its own imports
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


def large_class(functions: int, members: int) -> str:
    lines = [*(f"  void f{n}();" for n in range(functions)), *(f"  int m{n} = 0;" for n in range(members))]
    return "\n".join(["#pragma once", "struct A {", *lines, "};", ""])


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
    ("check_classes", "native/base/a.hpp", large_class(41, 1), large_class(40, 15), "41 functions"),
    ("check_classes", "native/base/a.cpp", large_class(1, 16), large_class(0, 16), "16 data members"),
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


def test_folder_holds_few_sources(tmp_path: Path) -> None:
    files = {f"native/recorder/tree/{number}.cpp": "" for number in range(25)}
    files |= {f"tests/corpus/stream/{number}.py": "" for number in range(30)}
    assert findings(tmp_path, "check_folders", files) == []
    found = findings(tmp_path, "check_folders", {**files, "native/recorder/tree/one_more.cpp": ""})
    assert found == ["native/recorder/tree:1: error: 26 files exceed 25; sort them into folders by subject"]


def test_ceilings_are_to_fall_with_what_they_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tidy.LARGE_CLASSES, "crowd/a/A", (50, 15))
    (found,) = findings(tmp_path, "check_classes", {"native/crowd/a.hpp": large_class(45, 0)})
    assert "warning: crowd/a/A has 45 functions: lower its row" in found


def test_functions_and_data_members_of_a_class_are_counted() -> None:
    text = """
class A final : public B<int> {
 public:
  explicit A(int x) : a_(x), b_{2} {
    if (x) { y(); }
  }
  ~A() override;  // no { brace
  void f() const { g("}"); }
  template <typename T>
  std::map<int, std::function<void(int)>> g(T x) const;
  bool operator==(const A&) const = default;
  enum class E { a, b };
  struct Inner {
    int x = 0, y = 0;
    int z() const { return x; }
  };
  static constexpr int c = 4;

 private:
  friend class Z;
  struct Impl;
  const int a_;
  std::function<void(int, int)> b_;
  std::vector<int> v_{1, 2};
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
};
int after;
"""
    counted = {each.name: (each.functions, each.members) for each in tidy.classes_of(text)}
    assert counted["A"] == (5, 4)
    assert counted["Inner"] == (1, 2)


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
