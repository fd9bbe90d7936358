#include "series/parts/closing.hpp"

#include <algorithm>
#include <utility>

namespace penstock::series {
namespace {

constexpr Time handing_patience = 600 * second;      ///< for ranks to hand over what they have
constexpr Time late_element_patience = 60 * second;  ///< a name is taken for the same series for so long

}  // namespace

void Closing::close_if_asked(const std::string& name, Entry& entry) {
  if (is_open(entry) && (context_.stopping || entry.request.close) && !is_waited_for(entry)) begin(name, entry);
}

/// Facts are fresh here, and nowhere else: a series is closed by nothing but a measurement, a command or the stop.
void Closing::on(const Measured& event) {
  auto* entry = context_.names.find(event.name);
  if (entry == nullptr || !is_open(*entry)) return;
  auto& recording = entry->recording;
  recording.facts = event.facts;
  // Before its first frame; what other ranks' senders do is not known here.
  const bool is_abandoned = event.facts.abandoned && entry->ranks.joined.empty() && !recording.ending.is_set();
  if (!is_abandoned) recording.abandoned_at.reset();
  if (is_abandoned && !recording.abandoned_at) recording.abandoned_at = context_.now;
  evaluate(event.name, *entry);
}

void Closing::evaluate(const std::string& name, Entry& entry) {
  const auto& rules = context_.rules;
  if (!rules.coordinates() || is_waited_for(entry)) return;
  const auto& [roster, ending, facts, opened_at, abandoned_at] = entry.recording;
  const auto now = context_.now;
  if (ending.is_silent(now, facts, rules.timeouts)) context_.set_ending(entry, 0, true, EndedBy::silence);
  if (abandoned_at && now - *abandoned_at >= rules.timeouts.idle) context_.set_ending(entry, 0, true, EndedBy::silence);
  if (facts.hopeless) context_.set_ending(entry, 0, true, EndedBy::failure);
  if (ending.is_over(now, facts, rules.timeouts, roster.has_elements(), !rules.alone())) begin(name, entry);
}

void Closing::begin(const std::string& name, Entry& entry) {
  const auto& roster = entry.recording.roster;
  auto& ranks = entry.ranks;
  entry.state = State::closing;
  entry.request.close = false;
  entry.past = Past{.whole = entry.what.frames > 0 && entry.recording.facts.whole,
                    .arm_date = entry.what.arm_date,
                    .elements = roster.has_elements() ? roster.begun_elements() : std::set<std::uint32_t>(),
                    .late_until = context_.now + late_element_patience};
  ranks.awaited = ranks.joined;
  ranks.handover_until = context_.now + handing_patience;
  for (const auto rank : ranks.awaited) context_.notify({.what = Notify::What::hand_over, .rank = rank, .name = name});
  if (ranks.awaited.empty()) command(name, entry);
}

void Closing::command(const std::string& name, Entry& entry) {
  entry.ranks.handover_until.reset();
  context_.commands.emplace_back(Close{.name = name,
                                       .generation = entry.generation,
                                       .ended_by = entry.recording.ending.ended_by(entry.recording.facts),
                                       .missing = entry.ranks.awaited});
}

void Closing::on(const CloseAsked& event) {
  auto* entry = context_.names.find(event.name);
  const auto state = entry == nullptr ? State::unknown : entry->state;
  if (state == State::opening || state == State::open) {
    entry->request.close = true;
    close_if_asked(event.name, *entry);
  } else if (state != State::closing) {
    context_.notify({.what = Notify::What::handed_over, .rank = 0, .name = event.name});
  }
}

void Closing::on(const HandedOver& event) {
  auto* entry = context_.names.find(event.name);
  if (entry == nullptr || entry->state != State::closing) return;
  auto& ranks = entry->ranks;
  ranks.awaited.erase(event.rank);
  if (ranks.awaited.empty() && ranks.handover_until) command(event.name, *entry);
}

void Closing::on(const Closed& event) {
  auto* entry = context_.names.find(event.name);
  if (entry == nullptr || entry->state != State::closing) return;
  context_.places.leave(event.name);
  for (const auto rank : std::exchange(entry->ranks.joined, {}))
    context_.notify({.what = Notify::What::closed, .rank = rank, .name = event.name, .generation = entry->generation});
  entry->state = State::closed;
  entry->recording.roster = Roster();
  context_.names.remember(event.name, *entry);
}

void Closing::on(const Stop&) {
  for (auto& [name, entry] : context_.names.all()) close_if_asked(name, entry);
}

void Closing::on(const Tick&) {
  for (auto& [name, entry] : context_.names.all()) {
    close_if_asked(name, entry);
    const auto until = entry.ranks.handover_until;
    if (until && context_.now >= *until) command(name, entry);
  }
  if (context_.places.anyone_waits()) make_room();
}

/// A sender that died leaves its series open. While a start waits, the series that has been without a frame for longest
/// is completed with what is there.
void Closing::make_room() {
  const auto& timeouts = context_.rules.timeouts;
  Entry* longest = nullptr;
  for (auto& [name, entry] : context_.names.all()) {
    const auto& recording = entry.recording;
    if (!is_open(entry) || recording.ending.left(context_.now, recording.facts, timeouts) == 0)
      continue;  // it is about to be closed
    if (longest == nullptr || recording.facts.last_activity < longest->recording.facts.last_activity) longest = &entry;
  }
  if (longest != nullptr && context_.now - longest->recording.facts.last_activity >= timeouts.idle)
    context_.set_ending(*longest, 0, true, EndedBy::room);
}

std::optional<Time> Closing::wake_at() const {
  const auto& timeouts = context_.rules.timeouts;
  std::optional<Time> wake;
  const auto at = [&](std::optional<Time> time) {
    if (time) wake = wake ? std::min(*wake, *time) : *time;
  };
  for (const auto& [name, entry] : context_.names.all()) {
    at(entry.ranks.handover_until);
    if (!is_open(entry) || !context_.rules.coordinates()) continue;
    const auto& [roster, ending, facts, opened_at, abandoned_at] = entry.recording;
    if (const auto left = ending.left(context_.now, facts, timeouts)) at(context_.now + *left);
    if (timeouts.after > 0 && facts.any_frame && !ending.is_set()) at(facts.last_activity + timeouts.after);
    if (abandoned_at) at(*abandoned_at + timeouts.idle);
    if (context_.places.anyone_waits()) at(facts.last_activity + timeouts.idle);
    if (!entry.ranks.behind.empty()) at(entry.ranks.behind_until);
  }
  return wake;
}

}  // namespace penstock::series
