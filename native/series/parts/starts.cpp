#include "series/parts/starts.hpp"

#include <algorithm>

#include "series/parts/calls.hpp"

namespace penstock::series {
namespace {

constexpr Time closing_patience = 600 * second;  ///< for a file to be closed, however slow the storage is
constexpr Time probe_patience = 2 * second;      ///< for a connection's system to acknowledge

bool takes_part_over_tcp(const Roster& roster) {
  const auto& rows = roster.rows();
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.begun && is_named(row.who); });
}

/// Whether it begins the series that was closed last once more.
Why why_late(const Past& past, const Started& event, Time now) {
  if (event.who.way == Way::pulled && event.before == 0 && past.whole && past.arm_date == event.what.arm_date)
    return Why::closed_whole;
  // Another series of the same name begins with elements that were in the one before.
  if (event.who.element && !past.elements.empty() && now < past.late_until &&
      !past.elements.contains(*event.who.element))
    return Why::element_late;
  return Why::none;
}

}  // namespace

Answer Starts::on(const Started& event) {
  const auto& rules = context_.rules;
  auto& entry = context_.names.get(event.name);
  // Each rank pulls frames of every element, and only one of them gets the start.
  const bool over_ranks = event.what.elements > 1 && event.who.way != Way::tcp && !rules.alone();
  if (over_ranks) return refuse(event, entry, Why::elements_over_ranks);
  if (event.before != 0 && !event.from_line)
    if (auto waits = begin_again(event, entry); waits.kind != Answer::Kind::none) return waits;
  const bool is_local = event.who.rank == rules.rank;
  const bool comes_behind = entry.has_line && !event.from_line;
  if (comes_behind && entry.state == State::refused)
    return context_.until(event.since, rules.opening_patience(), Why::being_closed);
  if (comes_behind && is_local) return lines_.keep(entry, true, event.bytes);
  if (!is_local && (entry.state == State::waiting || entry.state == State::opening))
    return Calls::wait_there(entry, event.who.rank);
  switch (entry.state) {
    case State::opening: return context_.until(event.since, rules.opening_patience(), Why::has_started);
    case State::open: return join(event, entry);
    case State::closing:
      // Who hears an answer can try again, and so can another rank.
      if (event.who.way == Way::tcp || !rules.alone()) return reject(Why::being_closed);
      if (!context_.may_wait) return reject(Why::stopping);
      return context_.until(event.since, closing_patience, Why::being_closed);
    default: return open(event, entry);
  }
}

Answer Starts::refuse(const Started& event, Entry& entry, Why why) {
  refusals_.refuse(event.name, entry);
  return reject(why);
}

/// Its source began a series of this name before, and has no more of that one. It waits until that one is closed.
Answer Starts::begin_again(const Started& event, Entry& entry) {
  if (!context_.rules.alone()) {
    // In a team frames of both come through other ranks as well, and do not show of which they are.
    if (entry.state == State::waiting) return reject(Why::name_taken);
    return {};
  }
  if (entry.generation != event.before || !is_known(entry)) return {};
  if (!context_.may_wait) return reject(Why::stopping);
  if (!is_open(entry) || entry.has_line) return {.kind = Answer::Kind::wait_until, .until = context_.now + second};
  const auto first = std::max(context_.since(event.since), entry.recording.opened_at);
  auto answer = context_.until(first, context_.rules.name_patience(), Why::name_taken);
  if (answer.kind == Answer::Kind::reject) refusals_.refuse(event.name, entry);
  return answer;
}

/// A start of a series that has no file.
Answer Starts::open(const Started& event, Entry& entry) {
  if (context_.stopping) {
    if (entry.state == State::unknown) context_.names.remember(event.name, entry);
    return reject(Why::stopping);
  }
  if (entry.past)
    if (const auto why = why_late(*entry.past, event, context_.now); why != Why::none) return reject(why);
  if (!context_.places.take(event.name)) return wait_for_file(event, entry);
  become_series_of(event, event.bytes, entry);
  opening_.begin(event.name, entry, false, false);
  return accept(entry);
}

/// It waits in the order in which it came, and is a series of its own from now on. If the line is full, its source
/// waits as long as the line will move by itself.
Answer Starts::wait_for_file(const Started& event, Entry& entry) {
  auto& room = lines_.starts();
  // Frames matter more than masks.
  const bool is_bare = !room.has_room(event.bytes) && event.bare_bytes > 0;
  const auto bytes = is_bare ? event.bare_bytes : event.bytes;
  const bool fits = room.has_room(bytes) && context_.places.has_room_to_wait();
  if (!fits && context_.may_wait && event.who.rank == context_.rules.rank && is_place_near()) {
    auto answer = context_.until(event.since, context_.rules.name_patience(), Why::line_full);
    if (answer.kind == Answer::Kind::wait_until) {
      if (entry.memory == 0) context_.names.remember(event.name, entry);
      answer.until = std::min(answer.until, context_.now + second);
      return answer;
    }
  }
  if (!fits || !context_.may_wait || !context_.places.wait(event.name)) return refuse(event, entry, Why::line_full);
  (void)room.hold(bytes);
  if (event.who.rank != context_.rules.rank) entry.ranks.behind.insert(event.who.rank);
  entry.state = State::waiting;
  entry.has_line = true;
  become_series_of(event, bytes, entry);
  auto answer = answer_of(Answer::Kind::wait, entry);
  answer.is_bare = is_bare;
  return answer;
}

/// A file is being closed, or its series has ended and is only waited for.
bool Starts::is_place_near() const {
  const auto is_near = [&](const Entry& entry) {
    const auto& [roster, ending, facts, opened_at, abandoned_at] = entry.recording;
    const bool ends = is_open(entry) && ending.left(context_.now, facts, context_.rules.timeouts).has_value();
    return ends || entry.state == State::closing;
  };
  const auto& all = context_.names.all();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return is_near(each.second); });
}

/// Another series has the name from now on. One that its source began before may be what has the last file.
void Starts::become_series_of(const Started& event, std::uint64_t bytes, Entry& entry) {
  entry.generation = context_.names.next_generation();
  entry.what = event.what;
  entry.starter = event.who;
  entry.start_bytes = bytes;
  entry.held = context_.rules.holds_back && event.who.way != Way::bound;
  ends_.end_others_of(event.who, event.name);
}

/// A start of a series that is open.
Answer Starts::join(const Started& event, Entry& entry) {
  const auto& who = event.who;
  auto& roster = entry.recording.roster;
  if (entry.what.elements > 0 && !(entry.what == event.what)) return reject(Why::mismatch);
  const bool new_element = who.element && !roster.has_begun(*who.element);
  if (is_named(who)) {
    // A client that comes back says so; one that brings another element is new.
    if (!event.resume && !new_element && takes_part_over_tcp(roster)) return reject(Why::has_started);
    if (const auto* row = roster.find(who); row != nullptr && row->begun && row->who.element != who.element)
      return reject(Why::connection_taken);
  }
  if (auto taken = claim(event, entry); taken.kind != Answer::Kind::none) return taken;
  ends_.end_others_of(who, event.name);
  if (!ends_.begin(entry, who)) return reject(Why::has_started);
  return accept(entry);
}

/// An element has one sender: of two that say that they are the same one, one is another element, or the first is gone.
Answer Starts::claim(const Started& event, Entry& entry) {
  auto& probe = entry.probe;
  while (const auto* rival = entry.recording.roster.rival_of(event.who)) {
    if (!is_named(rival->who) || !is_named(event.who)) return reject(Why::element_taken);
    const auto connection = rival->who.source;
    if (!probe || probe->connection != connection) {
      probe = Probe{.connection = connection, .until = context_.now + probe_patience};
      context_.notify({.what = Notify::What::probe, .name = event.name, .connection = connection});
    } else if (probe->answers) {
      probe.reset();
      return reject(Why::element_taken);
    } else if (context_.now >= probe->until) {
      probe.reset();
      entry.recording.roster.lose(connection);
      context_.notify({.what = Notify::What::cut, .name = event.name, .connection = connection});
      continue;
    }
    return {.kind = Answer::Kind::wait_until, .until = probe->until};
  }
  return {};
}

void Starts::on(const Answered& event) {
  for (auto& [name, entry] : context_.names.all())
    if (entry.probe && entry.probe->connection == event.connection) entry.probe->answers = true;
}

}  // namespace penstock::series
