#include "series/parts/ends.hpp"

namespace penstock::series {
namespace {

constexpr std::size_t early_ends_max = 64;  ///< of one series

}  // namespace

bool Ends::begin(Entry& entry, const Participant& who) {
  auto& roster = entry.recording.roster;
  const bool all_had_ended = roster.all_ended();
  const bool is_new = roster.begin(who);
  if (is_named(who) && !connections_.is_there(who.source)) roster.lose(who.source);
  if (who.rank != context_.rules.rank) entry.ranks.joined.insert(who.rank);
  if (who.way != Way::tcp && !is_new) return false;
  const bool is_late = entry.recording.ending.is_set() && all_had_ended && !roster.all_ended();
  if (is_late && context_.rules.coordinates())
    context_.set_ending(entry, context_.rules.timeouts.idle, false, EndedBy::message);
  return true;
}

void Ends::apply(Entry& entry, const Ended& event) {
  if (entry.recording.roster.end(event.who, event.by_all)) conclude(entry, event);
}

void Ends::end_others_of(const Participant& who, const std::string& name) {
  if (who.way != Way::pulled || !context_.rules.coordinates()) return;
  for (auto& [other, entry] : context_.names.all()) {
    if (other == name) continue;
    const bool will_open = entry.state == State::opening || entry.state == State::waiting;
    if (will_open && entry.starter && entry.starter->way == Way::pulled && entry.starter->source == who.source &&
        entry.early.ends.empty())
      entry.early.ends.push_back({.name = other, .who = *entry.starter, .by_start = true});
    if (!is_open(entry)) continue;
    const auto* row = entry.recording.roster.find(who);
    if (row == nullptr || !row->begun || row->part == Part::ended) continue;
    apply(entry, {.name = other, .who = row->who, .by_start = true});
  }
}

Answer Ends::on(const Ended& event) {
  const auto& rules = context_.rules;
  auto* entry = context_.names.find(event.name);
  const bool is_local = event.who.rank == rules.rank;
  const bool is_of_it = entry != nullptr && (event.generation == 0 || event.generation == entry->generation);
  if (entry != nullptr && is_of_it && entry->has_line && !event.from_line && is_local && entry->state != State::refused)
    return answer_of(Answer::Kind::wait, *entry);
  if (!rules.coordinates()) return pass_on(event, entry);
  if (entry != nullptr && entry->state == State::opening && is_local)
    return context_.until(event.since, rules.opening_patience(), Why::not_started);
  if (entry != nullptr && is_open(*entry)) {
    if (is_of_it) apply(*entry, event);
    return accept(*entry);
  }
  if (entry != nullptr && entry->past) return accept(*entry);
  if (rules.alone()) return reject(Why::not_started);
  // Its start may still be on its way through another rank.
  if (!event.by_all) return {.kind = Answer::Kind::accept};
  if (entry == nullptr) entry = &context_.names.get(event.name);
  if (entry->early.ends.size() < early_ends_max) entry->early.ends.push_back(event);
  if (entry->state == State::unknown) entry->state = State::early;
  context_.names.remember(event.name, *entry);
  return accept(*entry);
}

/// The coordinator decides when a series is over; each rank knows which of its own TCP clients have ended.
Answer Ends::pass_on(const Ended& event, Entry* entry) {
  bool by_all = event.by_all;
  if (entry != nullptr && is_open(*entry) && is_named(event.who)) {
    (void)entry->recording.roster.end(event.who, true);
    by_all = entry->recording.roster.part_of(event.who.element.value_or(0)) == Part::ended;
  }
  context_.notify({.what = Notify::What::ended,
                   .rank = 0,
                   .name = event.name,
                   .who = event.who,
                   .by_all = by_all,
                   .by_start = event.by_start});
  return {.kind = Answer::Kind::accept};
}

void Ends::on(const SenderLost& event) {
  for (auto& [name, entry] : context_.names.all())
    if (is_open(entry)) entry.recording.roster.lose(event.connection);
}

void Ends::on(const Departed& event) {
  for (auto& [name, entry] : context_.names.all()) {
    if (!is_open(entry)) continue;
    auto& roster = entry.recording.roster;
    const bool any_ended = roster.any_said_end();
    const auto* row = roster.depart(event.connection);
    if (row == nullptr) continue;
    // Its client ends nothing that others have not ended, unless it brought an element of its own.
    if (!roster.has_elements() && !(any_ended && roster.all_ended())) continue;
    const Ended end{.name = name, .who = row->who};
    if (context_.rules.coordinates())
      conclude(entry, end);
    else
      (void)pass_on(end, &entry);
  }
}

void Ends::on(const EndAll&) {
  if (!context_.rules.coordinates()) return;
  for (auto& [name, entry] : context_.names.all())
    if (is_open(entry)) context_.set_ending(entry, 0, true, EndedBy::command);
}

/// An end was entered into the roster: how long is the series still waited for?
void Ends::conclude(Entry& entry, const Ended& event) {
  const bool all = entry.recording.roster.all_ended();
  context_.set_ending(entry, patience(entry, event, all), all, event.by_start ? EndedBy::new_start : EndedBy::message);
}

Time Ends::patience(const Entry& entry, const Ended& event, bool all) const {
  const auto& timeouts = context_.rules.timeouts;
  if (!all) return timeouts.idle;
  return event.sole || !can_follow(entry, event) ? 0 : timeouts.end;
}

/// Whether frames, or a participant, may still follow an end that all participants have sent.
bool Ends::can_follow(const Entry& entry, const Ended& event) const {
  const auto& rules = context_.rules;
  const auto& roster = entry.recording.roster;
  const bool is_pulled = event.who.way == Way::pulled;
  const bool all_pulled_ended = roster.pulled_ended() >= rules.pulled;
  // Each connection over which frames could come is ordered, and has brought its end.
  const bool all_sources_ended = rules.alone() && rules.all_pulled() && all_pulled_ended;
  // A source that starts another series of the same name sends no more of this one, even if more was announced.
  if (event.anew && is_pulled) return !all_sources_ended;
  // One sender may interleave two series.
  if (event.by_start) return true;
  const bool last = is_named(event.who) ? connections_.have_all_ended(roster) : event.last;
  const bool ordered = is_pulled ? rules.alone() : rules.one_ordered_source();
  const bool open_ended = entry.what.frames == 0;
  if (open_ended && ordered && (!is_pulled || all_pulled_ended)) return false;
  if (is_pulled) return !all_sources_ended;
  return !(last && rules.tcp_alone());
}

}  // namespace penstock::series
