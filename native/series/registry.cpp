#include "series/registry.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::series {
namespace {

constexpr std::size_t remembered_max = 1024;         ///< names that nothing goes on with
constexpr std::size_t early_series_max = 16;         ///< of which frames' numbers are remembered …
constexpr std::size_t early_frames_max = 65536;      ///< … and how many of each
constexpr std::size_t early_ends_max = 64;           ///< of one series
constexpr Time handing_patience = 600 * second;      ///< for ranks to hand over what they have
constexpr Time late_element_patience = 60 * second;  ///< a name is taken for the same series for so long
constexpr Time sought_again = second;                ///< a series that was looked for in vain is not waited for again
constexpr Time answer_patience = 60 * second;        ///< of another rank

}  // namespace

Registry::Registry(const Rules& rules)
    : rules_(rules),
      // The coordinator's files are the other ranks' as well.
      places_(rules.coordinates() ? rules.files_max : std::numeric_limits<std::size_t>::max(), rules.starts_max),
      starts_bytes_(rules.starts_bytes_max),
      frames_bytes_(rules.frames_bytes_max) {}

Actions Registry::step(Time now, const Event& event) {
  now_ = std::max(now_, now);
  commands_.clear();
  Actions actions;
  std::visit(
      [&](const auto& what) {
        if constexpr (std::is_void_v<decltype(on(what))>)
          on(what);
        else
          actions.answer = on(what);
      },
      event);
  let_in();
  actions.commands = std::move(commands_);
  return actions;
}

// Frames.

Answer Registry::on(const FrameSeen& event) {
  const auto found = entries_.find(event.name);
  auto* entry = found == entries_.end() ? nullptr : &found->second;
  const bool waits = entry != nullptr && entry->has_line && !event.from_line && entry->state != State::refused;
  if (waits && !(event.is_free && is_open(*entry))) return queue(*entry, false, event.bytes);
  if (entry != nullptr && is_open(*entry)) {
    if (event.generation != 0 && event.generation != entry->generation) return reject(Why::other_generation);
    return accept(*entry);
  }
  if (event.from_line) return reject(Why::not_started);
  if (entry == nullptr) entry = &entries_[event.name];
  auto answer = search(event.name, *entry, event.since);
  return answer.kind == Answer::Kind::reject ? early_frame(event, *entry) : answer;
}

/// Its start may be on its way through another socket or rank.
Answer Registry::search(const std::string& name, Entry& entry, Time first) {
  const auto sought_before = entry.sought_at;
  const bool sought_lately = sought_before >= 0 && now_ - sought_before < sought_again;
  // What waited in vain is still being refused.
  const bool is_refused = entry.has_line;
  if (!rules_.start_may_come_elsewhere() || sought_lately || is_refused || stopping_ || !waits_) {
    if (entry.state == State::unknown) remember(name, entry);
    return reject(Why::not_started);
  }
  const bool opens = entry.state == State::opening;
  const auto patience = opens ? answer_patience : (sought_before >= 0 ? 0 : rules_.start_patience());
  const auto answered_by = since(first) + answer_patience;
  if (!rules_.coordinates() && !opens && now_ < answered_by && entry.state != State::closing && places_.take(name)) {
    entry.has_starter = false;
    begin_opening(name, entry, false, true);
    return {.kind = Answer::Kind::wait_until, .until = answered_by};
  }
  auto answer = until(first, patience, Why::not_started);
  if (entry.state == State::unknown) remember(name, entry);
  if (answer.kind != Answer::Kind::wait_until) entry.sought_at = now_;
  return answer;
}

/// It is lost, and the file's accounting says so if the series begins yet.
Answer Registry::early_frame(const FrameSeen& event, Entry& entry) {
  if (entry.was_closed || entry.state == State::closing || entry.state == State::opening) {
    return reject(Why::not_started);
  }
  if (entry.early_frames.empty()) {
    if (early_series_ >= early_series_max)
      for (const auto& [name, memory] : memory_)
        if (const auto oldest = entries_.find(name); oldest != entries_.end() && !oldest->second.early_frames.empty()) {
          oldest->second.early_frames.clear();
          --early_series_;
          break;
        }
    ++early_series_;
    notify({.what = Notify::What::early, .name = event.name, .numbers = {event.number}});
  }
  if (entry.early_frames.size() < early_frames_max) entry.early_frames.push_back(event.number);
  if (entry.state == State::unknown) entry.state = State::early;
  remember(event.name, entry);
  return reject(Why::not_started);
}

// Ends.

Answer Registry::on(const Ended& event) {
  const auto found = entries_.find(event.name);
  auto* entry = found == entries_.end() ? nullptr : &found->second;
  const bool is_local = event.who.rank == rules_.rank;
  const bool is_of_it = entry != nullptr && (event.generation == 0 || event.generation == entry->generation);
  if (entry != nullptr && is_of_it && entry->has_line && !event.from_line && is_local && entry->state != State::refused)
    return {.kind = Answer::Kind::wait, .generation = entry->generation, .state = entry->state};
  if (!rules_.coordinates()) return pass_end_on(event, entry);
  if (entry != nullptr && entry->state == State::opening && is_local)
    return until(event.since, rules_.opening_patience(), Why::not_started);
  if (entry != nullptr && is_open(*entry)) {
    if (is_of_it) apply_end(*entry, event);
    return accept(*entry);
  }
  const bool was_closed = entry != nullptr && (entry->was_closed || entry->state == State::closing);
  if (was_closed) return accept(*entry);
  if (rules_.alone()) return reject(Why::not_started);
  // Its start may still be on its way through another rank.
  if (!event.by_all) return {.kind = Answer::Kind::accept};
  if (entry == nullptr) entry = &entries_[event.name];
  if (entry->early_ends.size() < early_ends_max) entry->early_ends.push_back(event);
  if (entry->state == State::unknown) entry->state = State::early;
  remember(event.name, *entry);
  return accept(*entry);
}

/// The coordinator decides when a series is over; which of its TCP clients have ended, each rank knows of its own.
Answer Registry::pass_end_on(const Ended& event, Entry* entry) {
  bool by_all = event.by_all;
  if (entry != nullptr && is_open(*entry) && is_named(event.who)) {
    (void)entry->roster.end(event.who, true);
    by_all = entry->roster.part_of(event.who.element.value_or(0)) == Part::ended;
  }
  notify({.what = Notify::What::ended,
          .rank = 0,
          .name = event.name,
          .who = event.who,
          .by_all = by_all,
          .by_start = event.by_start});
  return {.kind = Answer::Kind::accept};
}

void Registry::apply_end(Entry& entry, const Ended& event) {
  if (entry.roster.end(event.who, event.by_all)) conclude(entry, event);
}

/// An end was entered into the roster: how long is the series still waited for?
void Registry::conclude(Entry& entry, const Ended& event) {
  const bool all = entry.roster.all_ended();
  set_ending(entry, patience(entry, event, all), all, event.by_start ? EndedBy::new_start : EndedBy::message);
}

Time Registry::patience(const Entry& entry, const Ended& event, bool all) const {
  if (!all) return rules_.timeouts.idle;
  return event.sole || !can_follow(entry, event) ? 0 : rules_.timeouts.end;
}

/// Of an end that all who take part have sent: whether frames, or a participant, may still come behind it.
bool Registry::can_follow(const Entry& entry, const Ended& event) const {
  const bool is_pulled = event.who.way == Way::pulled;
  const bool all_pulled_ended = entry.roster.pulled_ended() >= rules_.pulled;
  // Who begins another series of the same name has no more of this one, whatever was announced.
  if (event.anew && is_pulled) return !(rules_.alone() && rules_.all_pulled() && all_pulled_ended);
  // One sender may interleave two series.
  if (event.by_start) return true;
  const bool last = is_named(event.who) ? is_last(entry) : event.last;
  const bool ordered = is_pulled ? rules_.alone() : rules_.one_ordered_source();
  const bool open_ended = entry.what.frames == 0;
  if (open_ended && ordered && (!is_pulled || all_pulled_ended)) return false;
  // Each connection over which frames could come is ordered, and has brought its end.
  if (is_pulled) return !(rules_.alone() && rules_.all_pulled() && all_pulled_ended);
  return !(last && rules_.tcp_alone());
}

bool Registry::is_last(const Entry& entry) const {
  return guests_ == 0 && !entry.roster.any_lost() &&
         std::all_of(connections_.begin(), connections_.end(),
                     [&](const auto& connection) { return entry.roster.has_ended(connection); });
}

void Registry::set_ending(Entry& entry, Time patience, bool all, EndedBy why) {
  entry.ending.set(now_, patience, all, why, entry.roster.has_elements());
  entry.state = State::ending;
}

void Registry::on(const EndAll&) {
  if (!rules_.coordinates()) return;
  for (auto& [name, entry] : entries_)
    if (is_open(entry)) set_ending(entry, 0, true, EndedBy::command);
}

// Connections.

void Registry::on(const SenderLost& event) {
  connections_.erase(event.connection);
  for (auto& [name, entry] : entries_)
    if (is_open(entry)) entry.roster.lose(event.connection);
}

void Registry::on(const Departed& event) {
  connections_.erase(event.connection);
  for (auto& [name, entry] : entries_) {
    if (!is_open(entry)) continue;
    const bool any_ended = entry.roster.any_said_end();
    if (!entry.roster.depart(event.connection)) continue;
    // Its client ends nothing that others have not ended, unless it brought an element of its own.
    if (!entry.roster.has_elements() && !(any_ended && entry.roster.all_ended())) continue;
    conclude(entry, {.name = name, .who = {.way = Way::tcp, .rank = rules_.rank, .source = event.connection}});
  }
}

void Registry::on(const Answered& event) {
  for (auto& [name, entry] : entries_)
    if (entry.probed == event.connection) entry.rival_answers = true;
}

// Files.

/// Facts are fresh here, and nowhere else: a series is closed by nothing but a measurement, a command or the stop.
void Registry::on(const Measured& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || !is_open(found->second)) return;
  auto& [name, entry] = *found;
  entry.facts = event.facts;
  if (!is_abandoned(entry)) entry.abandoned_at = 0;
  if (is_abandoned(entry) && entry.abandoned_at == 0) entry.abandoned_at = now_;
  evaluate(name, entry);
}

void Registry::evaluate(const std::string& name, Entry& entry) {
  if (!rules_.coordinates() || is_waited_for(entry)) return;
  if (entry.ending.is_silent(now_, entry.facts, rules_.timeouts)) set_ending(entry, 0, true, EndedBy::silence);
  if (entry.abandoned_at != 0 && now_ - entry.abandoned_at >= rules_.timeouts.idle)
    set_ending(entry, 0, true, EndedBy::silence);
  if (entry.facts.hopeless) set_ending(entry, 0, true, EndedBy::failure);
  if (entry.ending.is_over(now_, entry.facts, rules_.timeouts, entry.roster.has_elements(), !rules_.alone()))
    begin_closing(name, entry);
}

void Registry::begin_closing(const std::string& name, Entry& entry) {
  entry.state = State::closing;
  entry.close_asked = false;
  entry.was_closed = true;
  entry.was_whole = entry.what.frames > 0 && entry.facts.whole;
  entry.whole_arm_date = entry.what.arm_date;
  entry.closed_elements = entry.roster.has_elements() ? entry.roster.begun_elements() : std::set<std::uint32_t>();
  entry.late_until = now_ + late_element_patience;
  entry.awaited = entry.joined;
  entry.handover_until = now_ + handing_patience;
  for (const auto rank : entry.awaited) notify({.what = Notify::What::hand_over, .rank = rank, .name = name});
  if (entry.awaited.empty()) command_close(name, entry);
}

void Registry::command_close(const std::string& name, Entry& entry) {
  entry.close_commanded = true;
  commands_.emplace_back(Close{.name = name,
                               .generation = entry.generation,
                               .ended_by = entry.ending.ended_by(entry.facts),
                               .missing = entry.awaited});
}

void Registry::on(const HandedOver& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || found->second.state != State::closing) return;
  auto& [name, entry] = *found;
  entry.awaited.erase(event.rank);
  if (entry.awaited.empty() && !entry.close_commanded) command_close(name, entry);
}

void Registry::on(const Closed& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || found->second.state != State::closing) return;
  auto& [name, entry] = *found;
  places_.leave(name);
  for (const auto rank : std::exchange(entry.joined, {}))
    notify({.what = Notify::What::closed, .rank = rank, .name = name, .generation = entry.generation});
  entry.state = State::closed;
  entry.roster = Roster();
  remember(name, entry);
}

void Registry::on(const CloseAsked& event) {
  const auto found = entries_.find(event.name);
  const auto state = found == entries_.end() ? State::unknown : found->second.state;
  if (state == State::opening || (found != entries_.end() && is_open(found->second) && found->second.has_line))
    found->second.close_asked = true;
  else if (found != entries_.end() && is_open(found->second))
    begin_closing(found->first, found->second);
  else if (state != State::closing)
    notify({.what = Notify::What::handed_over, .rank = 0, .name = event.name});
}

Answer Registry::on(const Sought& event) {
  const bool is_local = event.rank == rules_.rank;
  const auto found = entries_.find(event.name);
  if (found == entries_.end() && !is_local)
    return event.again ? reject(Why::not_started) : until(event.since, rules_.start_patience(), Why::not_started);
  auto& entry = found == entries_.end() ? entries_[event.name] : found->second;
  if (is_open(entry) && !is_local) entry.joined.insert(event.rank);
  if (is_open(entry)) return accept(entry);
  if (is_local) return entry.has_line ? accept(entry) : search(event.name, entry, event.since);
  if (entry.state == State::opening || entry.state == State::waiting) return wait_there(entry, event.rank);
  return event.again ? reject(Why::not_started) : until(event.since, rules_.start_patience(), Why::not_started);
}

Answer Registry::wait_there(Entry& entry, unsigned rank) {
  entry.behind.insert(rank);
  return {.kind = Answer::Kind::wait_there, .generation = entry.generation, .state = entry.state};
}

/// Of another rank: what waits there is presented when the coordinator calls. It may have called already.
Answer Registry::on(const Waits& event) {
  const auto found = entries_.find(event.name);
  if (found == entries_.end() || found->second.state != State::opening) return {};
  auto& [name, entry] = *found;
  if (std::exchange(entry.has_starter, false) && !starts_bytes_.hold(entry.start_bytes)) {
    places_.leave(event.name);
    entry.state = State::unknown;
    refuse(name, entry);
    if (const auto call = std::exchange(entry.call, {})) catch_up(name, call->generation);
    return reject(Why::line_full);
  }
  entry.state = State::waiting;
  entry.has_line = true;
  entry.held = rules_.holds_back && rules_.bound == 0;
  const Answer answer{.kind = Answer::Kind::wait, .generation = entry.generation, .state = entry.state};
  if (stopping_)
    wait_in_vain(name, entry);
  else if (const auto call = std::exchange(entry.call, {}))
    on(*call);
  return answer;
}

void Registry::on(const Called& event) {
  const auto found = entries_.find(event.name);
  const auto state = found == entries_.end() ? State::unknown : found->second.state;
  if (state == State::opening) {
    found->second.call = event;
  } else if (state != State::waiting) {
    catch_up(event.name, event.generation);
  } else if (event.in_vain) {
    wait_in_vain(found->first, found->second);
  } else {
    found->second.called_for = event.generation;
    begin_opening(found->first, found->second, true, true);
  }
}

void Registry::notify(Notify what) { commands_.emplace_back(std::move(what)); }

void Registry::catch_up(const std::string& name, std::uint64_t generation) {
  notify({.what = Notify::What::caught_up, .rank = 0, .name = name, .generation = generation});
}

/// The coordinator's, to the ranks at which something waits for the series.
void Registry::call(Notify::What what, const std::string& name, const Entry& entry) {
  for (const auto rank : entry.behind)
    notify({.what = what, .rank = rank, .name = name, .generation = entry.generation});
}

/// Another rank's, which keeps a place for each name that it waits for.
void Registry::wait_in_vain(const std::string& series, Entry& entry) {
  places_.leave(series);
  entry.state = State::unknown;
  refuse(series, entry);
  notify({.what = Notify::What::in_vain, .rank = rules_.rank, .name = series});
}

void Registry::on(const CaughtUp& event) {
  const auto found = entries_.find(event.name);
  // One of a series of that name before this one comes late.
  if (found == entries_.end() || found->second.generation != event.generation) return;
  found->second.behind.erase(event.rank);
  close_at_stop(found->first, found->second);
}

/// What has to be in the file first holds it open for a while, also then.
void Registry::close_at_stop(const std::string& name, Entry& entry) {
  if (is_open(entry) && (stopping_ || entry.close_asked) && !is_waited_for(entry)) begin_closing(name, entry);
}

// Time, and the end of it.

void Registry::on(const StopWaiting&) { waits_ = false; }

void Registry::on(const Stop&) {
  stopping_ = true;
  waits_ = false;
  for (auto& [name, entry] : entries_)
    if (!rules_.coordinates() && entry.state == State::waiting)
      wait_in_vain(name, entry);
    else
      close_at_stop(name, entry);
}

void Registry::on(const Tick&) {
  for (auto& [name, entry] : entries_) {
    close_at_stop(name, entry);
    if (entry.state == State::closing && !entry.close_commanded && now_ >= entry.handover_until)
      command_close(name, entry);
  }
  if (places_.anyone_waits()) make_room();
}

/// A sender that died leaves its series open. While a start waits, the series that has been without a frame for longest
/// is completed with what is there.
void Registry::make_room() {
  Entry* longest = nullptr;
  for (auto& [name, entry] : entries_) {
    if (!is_open(entry) || entry.ending.left(now_, entry.facts, rules_.timeouts) == 0)
      continue;  // it is about to be closed
    if (longest == nullptr || entry.facts.last_activity < longest->facts.last_activity) longest = &entry;
  }
  if (longest != nullptr && now_ - longest->facts.last_activity >= rules_.timeouts.idle)
    set_ending(*longest, 0, true, EndedBy::room);
}

std::optional<Time> Registry::wake_at() const {
  std::optional<Time> wake;
  const auto at = [&](Time time) { wake = wake ? std::min(*wake, time) : time; };
  for (const auto& [name, entry] : entries_) {
    if (is_open(entry) && rules_.coordinates()) {
      if (const auto left = entry.ending.left(now_, entry.facts, rules_.timeouts)) at(now_ + *left);
      if (rules_.timeouts.after > 0 && entry.facts.any_frame && !entry.ending.is_set())
        at(entry.facts.last_activity + rules_.timeouts.after);
      if (entry.abandoned_at != 0) at(entry.abandoned_at + rules_.timeouts.idle);
      if (places_.anyone_waits()) at(entry.facts.last_activity + rules_.timeouts.idle);
      if (!entry.behind.empty()) at(entry.behind_until);
    } else if (entry.state == State::closing && !entry.close_commanded) {
      at(entry.handover_until);
    }
  }
  return wake;
}

// What is remembered.

Answer Registry::until(Time first, Time patience, Why why) const {
  const auto deadline = since(first) + patience;
  if (now_ >= deadline || stopping_) return reject(stopping_ ? Why::stopping : why);
  return {.kind = Answer::Kind::wait_until, .until = deadline};
}

void Registry::forget_early(Entry& entry) {
  if (entry.early_frames.empty()) return;
  entry.early_frames.clear();
  --early_series_;
}

/// Nothing goes on with the name; the last of such names are remembered.
void Registry::remember(const std::string& name, Entry& entry) {
  entry.memory = ++memories_;
  memory_.emplace_back(name, entry.memory);
  if (memory_.size() <= remembered_max) return;
  const auto [oldest, memory] = std::move(memory_.front());
  memory_.pop_front();
  const auto found = entries_.find(oldest);
  if (found == entries_.end() || found->second.memory != memory || found->second.has_line) return;
  const auto state = found->second.state;
  if (state != State::unknown && state != State::early && state != State::closed && state != State::refused) return;
  forget_early(found->second);
  entries_.erase(found);
}

std::optional<Time> Registry::ends_in(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !is_open(found->second)) return std::nullopt;
  return found->second.ending.left(now_, found->second.facts, rules_.timeouts);
}

State Registry::state(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? State::unknown : found->second.state;
}

std::uint64_t Registry::generation(const std::string& name) const {
  const auto found = entries_.find(name);
  if (!rules_.alone() || found == entries_.end()) return 0;
  const auto state = found->second.state;
  return state == State::waiting || is_open(found->second) || found->second.has_line ? found->second.generation : 0;
}

bool Registry::idle() const { return places_.taken() == 0 && places_.waiting() == 0; }

const Roster* Registry::roster(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second.roster;
}

std::string Registry::audit() const {
  std::size_t have_file = 0, wait = 0, early = 0;
  for (const auto& [name, entry] : entries_) {
    const bool has = is_open(entry) || entry.state == State::opening || entry.state == State::closing ||
                     (entry.state == State::waiting && !rules_.coordinates());
    if (has != places_.has(name)) return name + ": its state and its place disagree";
    have_file += has ? 1 : 0;
    wait += entry.state == State::waiting ? 1 : 0;
    early += entry.early_frames.empty() ? 0 : 1;
    if ((entry.state == State::ending) != (is_open(entry) && entry.ending.is_set()))
      return name + ": its end and its state disagree";
    if (entry.state == State::waiting && !entry.has_line) return name + ": waits without its start";
    if (entry.state == State::unknown && entry.memory == 0) return name + ": is kept for nothing";
  }
  if (have_file != places_.taken()) return "files and places disagree";
  if (rules_.coordinates() && (have_file > rules_.files_max || wait != places_.waiting() || wait > rules_.starts_max))
    return "starts that wait and the line disagree";
  if (early != early_series_ || early > early_series_max + 1) return "early frames are miscounted";
  return {};
}

}  // namespace penstock::series
