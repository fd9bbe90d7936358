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
    ("parts/ends.cpp", "if (!all) return timeouts.idle;", "if (!all) return 0;"),
    ("parts/ends.cpp", "event.sole || !can_follow(entry, event)", "true"),
    ("parts/connections.cpp", "guests_ > 0 || roster.any_lost()", "false"),
    ("parts/ends.cpp", "entry.recording.ending.is_set() && all_had_ended", "false"),
    ("parts/closing.cpp", "now - *abandoned_at >= rules.timeouts.idle", "false"),
    # Which series a message is of.
    ("parts/search.cpp", "event.generation != 0 && event.generation != entry->generation", "false"),
    ("parts/starts.cpp", "ends_.end_others_of(event.who, event.name);", ""),
    ("parts/starts.cpp", "entry.recording.roster.rival_of(event.who)", "nullptr"),
    ("parts/starts.cpp", "context_.now >= probe->until", "true"),
    ("parts/starts.cpp", "past.whole && past.arm_date == event.what.arm_date", "false"),
    ("parts/opening.cpp", "context_.names.forget_early_frames(*entry);", ""),
    ("parts/search.cpp", "entry.past || entry.state == State::opening", "false"),
    # Files, and who waits for one.
    ("parts/closing.cpp", "context_.places.leave(event.name);", ""),
    ("parts/closing.cpp", "!rules.coordinates() || is_waited_for(entry)", "!rules.coordinates()"),
    ("parts/calls.cpp", "entry.ranks.behind.insert(rank);", ""),
    ("parts/starts.cpp", "entry.ranks.behind.insert(event.who.rank);", ""),
    ("parts/calls.cpp", "entry->generation != event.generation", "false"),
    ("parts/lines.cpp", "room.hold(bytes)", "(room.hold(bytes), true)"),
    ("parts/closing.cpp", "context_.set_ending(*longest, 0, true, EndedBy::room);", ""),
    ("parts/context.cpp", "now >= deadline || stopping", "false"),
    # Ranks, and the stop.
    ("parts/closing.cpp", "if (ranks.awaited.empty()) command(name, entry);", "command(name, entry);"),
    ("parts/closing.cpp", "context_.now >= *until", "false"),
    ("parts/closing.cpp", "context_.stopping || entry.request.close", "false"),
]


def with_defect(text: str, number: int, piece: str, instead: str) -> str:
    if text.count(piece) != 1:
        raise SystemExit(f"make_defects: {piece!r} occurs {text.count(piece)} times, and not once")
    if piece.endswith(";"):
        return text.replace(piece, f"if (defect == {number}) {{ {instead} }} else {{ {piece} }}")
    return text.replace(piece, f"(defect == {number} ? ({instead}) : ({piece}))")


def main(source: Path, into: Path) -> None:
    texts = {path.relative_to(source).as_posix(): path.read_text() for path in source.rglob("*.cpp")}
    for number, (name, piece, instead) in enumerate(ROWS, 1):
        texts[name] = with_defect(texts[name], number, piece, instead)
    for name, text in texts.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text("namespace penstock::series { extern unsigned defect; }\n" + text)
    rows = "".join(f'    R"({name}: {piece})",\n' for name, piece, _ in ROWS)
    (into / "defects.cpp").write_text(
        '#include "defects.hpp"\n\nnamespace penstock::series {\n\nunsigned defect = 0;\n'
        f"const std::vector<std::string> defects = {{\n{rows}}};\n\n}}  // namespace penstock::series\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
