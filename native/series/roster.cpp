#include "series/roster.hpp"

#include <algorithm>

namespace penstock::series {
namespace {

/// A sender of which nothing is known but where its messages came in.
bool is_anonymous(const Participant& who) {
  return who.way == Way::bound || (who.way == Way::tcp && who.source.empty());
}

/// A pulled endpoint deals its messages to whichever ranks pull from it, so its rank says nothing. Those that push into
/// a bound socket are not told apart.
bool is_same(const Participant& a, const Participant& b) {
  if (a.way != b.way) return is_anonymous(a) && is_anonymous(b) && a.rank == b.rank && a.element == b.element;
  if (a.way == Way::pulled) return a.source == b.source;
  if (a.way == Way::bound) return a.element == b.element;
  return a.rank == b.rank && a.source == b.source && (!a.source.empty() || a.element == b.element);
}

}  // namespace

Roster::Row* Roster::find(const Participant& who) {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) { return is_same(row.who, who); });
  return found == rows_.end() ? nullptr : &*found;
}

Roster::Row& Roster::row_of(const Participant& who) {
  if (auto* row = find(who)) return *row;
  return rows_.emplace_back(Row{.who = who});
}

bool Roster::begin(const Participant& who) {
  const bool new_element = who.element && !has_begun(*who.element);
  if (who.way == Way::tcp && !who.source.empty()) {
    const auto back = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) {
      return row.part == Part::lost && row.who.client == who.client && row.who.element == who.element;
    });
    if (back != rows_.end()) rows_.erase(back);
  }
  auto& row = row_of(who);
  const bool is_new = new_element || (who.way == Way::pulled && !row.begun);
  row.begun = true;
  if (who.element) row.who.element = who.element;
  return is_new;
}

bool Roster::has_begun(std::uint32_t element) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const auto& row) { return row.begun && row.who.element == element; });
}

bool Roster::end(const Participant& who, bool by_all) {
  auto& row = row_of(who);
  row.said_end = true;
  const bool says_something = !has_elements() || who.element || row.who.element;
  if (who.element && !row.who.element) row.who.element = who.element;
  if (by_all || who.way == Way::pulled || !who.source.empty()) row.part = Part::ended;
  return says_something;
}

void Roster::lose(const std::string& connection) {
  for (auto& row : rows_) {
    if (row.who.way != Way::tcp || row.who.source != connection) continue;
    row.here = false;
    if (row.part == Part::began) row.part = Part::lost;
  }
}

const Roster::Row* Roster::depart(const std::string& connection) {
  const Row* waited_for = nullptr;
  for (auto& row : rows_) {
    if (row.who.way != Way::tcp || row.who.source != connection) continue;
    if (row.part == Part::began) waited_for = &row;
    row.here = false;
    row.part = Part::ended;
  }
  return waited_for;
}

bool Roster::any_said_end() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return row.said_end; });
}

bool Roster::all_ended() const {
  for (std::uint32_t element = 0; element < elements_; ++element)
    if (part_of(element) != Part::ended) return false;
  return true;
}

Part Roster::part_of(std::uint32_t element) const {
  auto part = Part::expected;
  for (const auto& row : rows_) {
    if (has_elements() && row.who.element != element) continue;
    if (row.part == Part::began) return Part::began;
    if (part != Part::ended) part = row.part;
  }
  return part;
}

std::size_t Roster::pulled_ended() const {
  return static_cast<std::size_t>(std::count_if(rows_.begin(), rows_.end(), [](const auto& row) {
    return row.who.way == Way::pulled && row.part == Part::ended;
  }));
}

bool Roster::any_lost() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return row.part == Part::lost; });
}

bool Roster::has_ended(const std::string& connection) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
    return row.who.way == Way::tcp && row.who.source == connection && row.part == Part::ended;
  });
}

std::set<std::uint32_t> Roster::begun_elements() const {
  std::set<std::uint32_t> begun;
  for (const auto& row : rows_)
    if (row.begun && row.who.element) begun.insert(*row.who.element);
  return begun;
}

Roster::Row* Roster::rival_of(const Participant& who) {
  if (!has_elements() || !who.element) return nullptr;
  for (auto& row : rows_) {
    if (!row.begun || row.who.element != who.element) continue;
    const bool both_tcp = row.who.way == Way::tcp && who.way == Way::tcp;
    if (row.who.way == who.way && row.who.source == who.source) continue;
    if (both_tcp && (!row.here || row.who.source.empty() || who.source.empty())) continue;
    // A client that comes back before its loss was noticed.
    if (both_tcp && !who.client.empty() && row.who.client == who.client) continue;
    return &row;
  }
  return nullptr;
}

}  // namespace penstock::series
