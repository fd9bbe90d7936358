"""Writes a copy of native/series into which defects can be switched on; run by the build.

Each row: the file, a piece of it that occurs once, and what stands there while the row's defect is on.
A piece that ends with a semicolon is a statement, another one an expression. A row whose piece is gone, or
occurs twice, fails the build: the rule that it breaks has moved, and the row has to follow.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROWS: list[tuple[str, str, str]] = [
    # Who takes part, and whether everything is in.
    ("roster.cpp", "if (row.part == Part::began) return Part::began;", ""),
    ("roster.cpp", "if (has_elements() && row.who.element != element) continue;", ""),
    ("roster.cpp", "if (row.part == Part::began) row.part = Part::lost;", "row.part = Part::ended;"),
    ("roster.cpp", "row.who.way == Way::pulled && row.part == Part::ended", "row.part == Part::ended"),
    # When a series is over.
    ("ending.cpp", "facts.whole && since_last >= timeouts.end && !facts.busy", "false"),
    ("ending.cpp", "std::max(at_, facts.last_activity)", "at_"),
    ("registry.cpp", "if (!all) return rules_.timeouts.idle;", "if (!all) return 0;"),
    ("registry.cpp", "event.sole || !can_follow(entry, event)", "true"),
    ("registry.cpp", "guests_ == 0 && !entry.roster.any_lost()", "true"),
    ("registry_starts.cpp", "entry.ending.is_set() && all_had_ended", "false"),
    ("registry.cpp", "now_ - entry.abandoned_at >= rules_.timeouts.idle", "false"),
    # Which series a message is of.
    ("registry.cpp", "event.generation != 0 && event.generation != entry->generation", "false"),
    ("registry_starts.cpp", "end_others_of(event.who, event.name);", ""),
    ("registry_starts.cpp", "entry.roster.rival_of(event.who)", "nullptr"),
    ("registry_starts.cpp", "now_ >= entry.claim_until", "true"),
    ("registry_starts.cpp", "entry.was_whole && entry.whole_arm_date == event.what.arm_date", "false"),
    ("registry_starts.cpp", "forget_early(entry);", ""),
    (
        "registry.cpp",
        "entry.was_closed || entry.state == State::closing || entry.state == State::opening",
        "false",
    ),
    # Files, and who waits for one.
    ("registry.cpp", "places_.leave(name);", ""),
    ("registry.cpp", "!rules_.coordinates() || is_waited_for(entry)", "!rules_.coordinates()"),
    ("registry.cpp", "entry.behind.insert(rank);", ""),
    ("registry_starts.cpp", "entry.behind.insert(event.who.rank);", ""),
    ("registry.cpp", "found->second.generation != event.generation", "false"),
    ("registry_starts.cpp", "room.hold(bytes)", "(room.hold(bytes), true)"),
    ("registry.cpp", "set_ending(*longest, 0, true, EndedBy::room);", ""),
    ("registry.cpp", "now_ >= deadline || stopping_", "false"),
    # Ranks, and the stop.
    ("registry.cpp", "if (entry.awaited.empty()) command_close(name, entry);", "command_close(name, entry);"),
    ("registry.cpp", "now_ >= entry.handover_until", "false"),
    ("registry.cpp", "stopping_ || entry.close_asked", "false"),
]


def with_defect(text: str, number: int, piece: str, instead: str) -> str:
    if text.count(piece) != 1:
        raise SystemExit(f"make_defects: {piece!r} occurs {text.count(piece)} times, and not once")
    if piece.endswith(";"):
        return text.replace(piece, f"if (defect == {number}) {{ {instead} }} else {{ {piece} }}")
    return text.replace(piece, f"(defect == {number} ? ({instead}) : ({piece}))")


def main(source: Path, into: Path) -> None:
    texts = {path.name: path.read_text() for path in source.glob("*.cpp")}
    for number, (name, piece, instead) in enumerate(ROWS, 1):
        texts[name] = with_defect(texts[name], number, piece, instead)
    into.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (into / name).write_text("namespace penstock::series { extern unsigned defect; }\n" + text)
    rows = "".join(f'    R"({name}: {piece})",\n' for name, piece, _ in ROWS)
    (into / "defects.cpp").write_text(
        '#include "defects.hpp"\n\nnamespace penstock::series {\n\nunsigned defect = 0;\n'
        f"const std::vector<std::string> defects = {{\n{rows}}};\n\n}}  // namespace penstock::series\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
