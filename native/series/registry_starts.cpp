/// How a series begins: starts that open it, take part in it, wait for it, or are refused.
#include <algorithm>
#include <utility>

#include "series/registry.hpp"

namespace penstock::series {
namespace {

constexpr Time closing_patience = 600 * second;  ///< for a file to be closed, however slow the storage is
constexpr Time probe_patience = 2 * second;      ///< for a connection's system to acknowledge
constexpr Time behind_patience = 600 * second;   ///< for ranks to present what waited for the series

}  // namespace

Answer Registry::on(const Started& event) {
  const auto found = entries_.find(event.name);
  auto* entry = found == entries_.end() ? nullptr : &found->second;
  // Each rank pulls frames of every element, and only one of them gets the start.
  const bool over_ranks = event.what.elements > 1 && event.who.way != Way::tcp && !rules_.alone();
  if (entry == nullptr) entry = &entries_[event.name];
  if (over_ranks) {
    refuse(event.name, *entry);
    return reject(Why::elements_over_ranks);
  }
  if (event.before != 0 && !event.from_line)
    if (auto waits = begin_again(event, *entry); waits.kind != Answer::Kind::none) return waits;
  const bool is_local = event.who.rank == rules_.rank;
  if (entry->has_line && !event.from_line && entry->state == State::refused)
    return until(event.since, rules_.opening_patience(), Why::being_closed);
  if (entry->has_line && !event.from_line && is_local) return queue(*entry, true, event.bytes);
  if (!is_local && (entry->state == State::waiting || entry->state == State::opening))
    return wait_there(*entry, event.who.rank);
  switch (entry->state) {
    case State::opening: return until(event.since, rules_.opening_patience(), Why::has_started);
    case State::open:
    case State::ending: return join(event, *entry);
    case State::closing:
      // Who hears an answer can try again, and so can another rank.
      if (event.who.way == Way::tcp || !rules_.alone()) return reject(Why::being_closed);
      if (stopping_ || !waits_) return reject(Why::stopping);
      return until(event.since, closing_patience, Why::being_closed);
    default: return open(event, *entry);
  }
}

/// Its source began a series of this name before, and has no more of that one. It waits until that one is closed.
Answer Registry::begin_again(const Started& event, Entry& entry) {
  if (!rules_.alone()) {
    // In a team frames of both come through other ranks as well, and do not show of which they are.
    if (entry.state == State::waiting) return reject(Why::name_taken);
    return {};
  }
  if (entry.generation != event.before) return {};
  const bool waits = entry.state == State::waiting || entry.state == State::opening || entry.has_line;
  if (!waits && !is_open(entry)) return {};
  if (stopping_ || !waits_) return reject(Why::stopping);
  if (waits) return {.kind = Answer::Kind::wait_until, .until = now_ + second};
  auto answer = until(std::max(since(event.since), entry.opened_at), rules_.name_patience(), Why::name_taken);
  if (answer.kind == Answer::Kind::reject) refuse(event.name, entry);
  return answer;
}

/// A start of a series that is open.
Answer Registry::join(const Started& event, Entry& entry) {
  const auto& who = event.who;
  if (entry.what.elements > 0 && !(entry.what == event.what)) return reject(Why::mismatch);
  const bool new_element = who.element && !entry.roster.has_begun(*who.element);
  if (is_named(who)) {
    // A client that comes back says so; one that brings another element is new.
    if (!event.resume && !new_element && takes_part_over_tcp(entry)) return reject(Why::has_started);
    if (const auto* row = entry.roster.find(who); row != nullptr && row->begun && row->who.element != who.element)
      return reject(Why::connection_taken);
  }
  if (auto taken = claim(event, entry); taken.kind != Answer::Kind::none) return taken;
  end_others_of(who, event.name);
  const bool all_had_ended = entry.roster.all_ended();
  const bool is_new = entry.roster.begin(who);
  if (is_named(who) && !connections_.contains(who.source)) entry.roster.lose(who.source);
  if (who.rank != rules_.rank) entry.joined.insert(who.rank);
  if (who.way != Way::tcp && !is_new) return reject(Why::has_started);
  // Others have ended, and this one was late: now it is waited for.
  if (entry.ending.is_set() && all_had_ended && !entry.roster.all_ended() && rules_.coordinates())
    set_ending(entry, rules_.timeouts.idle, false, EndedBy::message);
  if (!rules_.coordinates()) notify({.what = Notify::What::began, .rank = 0, .name = event.name, .who = who});
  return accept(entry);
}

bool Registry::takes_part_over_tcp(const Entry& entry) const {
  const auto& rows = entry.roster.rows();
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.begun && is_named(row.who); });
}

/// An element has one sender: of two that say that they are the same one, one is another element, or the first is gone.
Answer Registry::claim(const Started& event, Entry& entry) {
  while (const auto* rival = entry.roster.rival_of(event.who)) {
    if (!is_named(rival->who) || !is_named(event.who)) return reject(Why::element_taken);
    const auto connection = rival->who.source;
    if (entry.probed != connection) {
      entry.probed = connection;
      entry.claim_until = now_ + probe_patience;
      entry.rival_answers = false;
      notify({.what = Notify::What::probe, .name = event.name, .connection = connection});
    } else if (entry.rival_answers) {
      entry.probed.clear();
      return reject(Why::element_taken);
    } else if (now_ >= entry.claim_until) {
      entry.probed.clear();
      entry.roster.lose(connection);
      notify({.what = Notify::What::cut, .name = event.name, .connection = connection});
      continue;
    }
    return {.kind = Answer::Kind::wait_until, .until = entry.claim_until};
  }
  return {};
}

/// A start of a series that has no file.
Answer Registry::open(const Started& event, Entry& entry) {
  const auto& who = event.who;
  const auto forget = [&] {
    if (entry.state == State::unknown) remember(event.name, entry);
  };
  if (stopping_) {
    forget();
    return reject(Why::stopping);
  }
  // Its table of series remembers it: the client hears how it ended.
  if (entry.state == State::closed && event.resume && is_named(who) && entry.what == event.what) return accept(entry);
  if (who.way == Way::pulled && event.before == 0 && entry.was_whole && entry.whole_arm_date == event.what.arm_date)
    return reject(Why::closed_whole);
  // Another series of the same name begins with elements that were in the one before.
  if (who.element && !entry.closed_elements.empty() && now_ < entry.late_until &&
      !entry.closed_elements.contains(*who.element))
    return reject(Why::element_late);
  if (!places_.take(event.name)) return wait_for_file(event, entry);
  entry.generation = ++generations_;
  entry.what = event.what;
  entry.starter = who;
  entry.has_starter = true;
  entry.start_bytes = event.bytes;
  entry.held = rules_.holds_back && who.way != Way::bound;
  end_others_of(who, event.name);
  begin_opening(event.name, entry, false, false);
  return accept(entry);
}

/// It waits in the order in which it came, and is a series of its own from now on.
Answer Registry::wait_for_file(const Started& event, Entry& entry) {
  // Frames matter more than masks.
  const bool is_bare = !starts_bytes_.has_room(event.bytes) && event.bare_bytes > 0;
  const auto bytes = is_bare ? event.bare_bytes : event.bytes;
  if (stopping_ || !waits_ || !starts_bytes_.has_room(bytes) || !places_.wait(event.name)) {
    refuse(event.name, entry);
    return reject(Why::line_full);
  }
  (void)starts_bytes_.hold(bytes);
  if (event.who.rank != rules_.rank) entry.behind.insert(event.who.rank);
  entry.state = State::waiting;
  entry.generation = ++generations_;
  entry.what = event.what;
  entry.starter = event.who;
  entry.has_starter = true;
  entry.start_bytes = bytes;
  entry.has_line = true;
  entry.held = rules_.holds_back && event.who.way != Way::bound;
  // The series before from there may be what has the file.
  end_others_of(event.who, event.name);
  return {.kind = Answer::Kind::wait, .generation = entry.generation, .is_bare = is_bare, .state = entry.state};
}

/// Behind the series' start. A source of which no other's messages depend is held back when there is no more room.
Answer Registry::queue(Entry& entry, bool is_start, std::uint64_t bytes) {
  auto& room = is_start ? starts_bytes_ : frames_bytes_;
  if (room.hold(bytes)) return {.kind = Answer::Kind::wait, .generation = entry.generation, .state = entry.state};
  if (!is_start && entry.held && waits_ && !stopping_)
    return {.kind = Answer::Kind::wait_until, .until = now_ + second};
  return reject(Why::no_room);
}

void Registry::begin_opening(const std::string& name, Entry& entry, bool from_line, bool sought) {
  entry.state = State::opening;
  entry.close_asked = false;
  entry.call.reset();
  commands_.emplace_back(Open{.name = name,
                              .generation = entry.generation,
                              .join = !rules_.coordinates(),
                              .sought = sought,
                              .again = sought && !from_line && entry.sought_at >= 0,
                              .from_line = from_line});
}

/// A detector that was started anew does not end what it had begun, and never will: a series that it begins now is the
/// end of the one before, whatever becomes of the new one.
void Registry::end_others_of(const Participant& who, const std::string& name) {
  if (who.way != Way::pulled || !rules_.coordinates()) return;
  for (auto& [other, entry] : entries_) {
    if (other == name) continue;
    const bool will_open = entry.state == State::opening || entry.state == State::waiting;
    if (will_open && entry.has_starter && entry.starter.way == Way::pulled && entry.starter.source == who.source &&
        entry.early_ends.empty())
      entry.early_ends.push_back({.name = other, .who = entry.starter, .by_start = true});
    if (!is_open(entry)) continue;
    const auto* row = entry.roster.find(who);
    if (row == nullptr || !row->begun || row->part == Part::ended) continue;
    apply_end(entry, {.name = other, .who = row->who, .by_start = true});
  }
}

void Registry::on(const Opened& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || found->second.state != State::opening) return;
  auto& [name, entry] = *found;
  if (!entry.has_starter) entry.what = event.what;
  entry.state = State::open;
  entry.opened_at = now_;
  entry.roster = Roster(entry.what.elements);
  entry.ending = {};
  entry.facts = {};
  entry.facts.last_activity = now_;
  entry.abandoned_at = 0;
  entry.joined.clear();
  entry.awaited.clear();
  entry.close_commanded = false;
  entry.was_closed = entry.was_whole = false;
  entry.closed_elements.clear();
  entry.sought_at = -1;
  if (std::exchange(entry.refusal_counted, false) && rules_.coordinates()) --refused_;
  if (entry.has_starter) {
    entry.roster.begin(entry.starter);
    if (is_named(entry.starter) && !connections_.contains(entry.starter.source))
      entry.roster.lose(entry.starter.source);
    if (entry.starter.rank != rules_.rank) entry.joined.insert(entry.starter.rank);
  }
  if (!entry.early_frames.empty()) notify({.what = Notify::What::dropped, .name = name, .numbers = entry.early_frames});
  forget_early(entry);
  for (const auto& early : std::exchange(entry.early_ends, {})) apply_end(entry, early);
  refused_elements_ += std::exchange(entry.early_refused, {}).size();
  entry.behind_until = now_ + behind_patience;
  call(Notify::What::opened, name, entry);
  close_at_stop(name, entry);
}

Answer Registry::on(const OpenFailed& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || found->second.state != State::opening) return {};
  auto& [name, entry] = *found;
  if (std::exchange(entry.close_asked, false)) notify({.what = Notify::What::handed_over, .rank = 0, .name = name});
  places_.leave(name);
  entry.state = State::unknown;
  std::erase_if(entry.early_ends, [](const auto& end) { return end.by_start; });  // of what has just failed
  call(Notify::What::in_vain, name, entry);
  entry.behind.clear();
  if (entry.has_starter || entry.has_line)
    refuse(name, entry);
  else
    entry.sought_at = now_;
  remember(name, entry);
  return reject(Why::not_started);
}

void Registry::on(const StartRefused& event) {
  auto& entry = entries_[event.name];
  if (!is_known(entry) && entry.state != State::closing && entry.state != State::closed) refuse(event.name, entry);
}

/// Counted as a refused series: a part of what the detector sent is in no file.
Answer Registry::on(const ElementRefused& event) {
  auto& entry = entries_[event.name];
  if (is_known(entry)) {
    ++refused_elements_;
    return accept(entry);
  }
  entry.early_refused.insert(event.source);
  on(StartRefused{event.name});
  if (entry.memory == 0) remember(event.name, entry);
  return reject(Why::not_started);
}

/// Whoever waits for the series waits in vain, though another start may bring it yet. It counts once.
void Registry::refuse(const std::string& name, Entry& entry) {
  if (!std::exchange(entry.refusal_counted, true)) {
    if (rules_.coordinates()) ++refused_;
    notify({.what = Notify::What::refused, .rank = 0, .name = name});
  }
  if (entry.state == State::unknown || entry.state == State::early || entry.state == State::closed) {
    entry.state = State::refused;
    remember(name, entry);
  }
}

void Registry::on(const LineEmpty& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end()) return;
  auto& [name, entry] = *found;
  entry.has_line = false;
  if (!rules_.coordinates()) catch_up(name, std::exchange(entry.called_for, 0));
  close_at_stop(name, entry);
}

void Registry::on(const Taken& event) { (event.start ? starts_bytes_ : frames_bytes_).release(event.bytes); }

/// Gives a free file to the starts that wait for one.
void Registry::let_in() {
  while (auto next = places_.next()) begin_opening(*next, entries_.at(*next), true, false);
}

}  // namespace penstock::series
