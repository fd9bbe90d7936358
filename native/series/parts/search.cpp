#include "series/parts/search.hpp"

#include "series/parts/calls.hpp"

namespace penstock::series {
namespace {

constexpr Time sought_again = second;          ///< a series that was looked for in vain is not waited for again
constexpr Time answer_patience = 60 * second;  ///< of another rank

}  // namespace

Answer Search::on(const FrameSeen& event) {
  auto* entry = context_.names.find(event.name);
  const bool waits = entry != nullptr && entry->has_line && !event.from_line && entry->state != State::refused;
  if (waits && !(event.is_free && is_open(*entry))) return lines_.keep(*entry, false, event.bytes);
  if (entry != nullptr && is_open(*entry)) {
    if (event.generation != 0 && event.generation != entry->generation) return reject(Why::other_generation);
    return accept(*entry);
  }
  if (event.from_line) return reject(Why::not_started);
  if (entry == nullptr) entry = &context_.names.get(event.name);
  auto answer = search(event.name, *entry, event.since);
  if (answer.kind == Answer::Kind::reject) keep_early(event, *entry);
  return answer;
}

/// It is lost, and the file's accounting says so if the series begins yet.
void Search::keep_early(const FrameSeen& event, Entry& entry) {
  if (entry.past || entry.state == State::opening) return;
  if (context_.names.add_early_frame(entry, event.number))
    context_.notify({.what = Notify::What::early, .name = event.name, .numbers = {event.number}});
  if (entry.state == State::unknown) entry.state = State::early;
  context_.names.remember(event.name, entry);
}

Answer Search::on(const Sought& event) {
  if (event.rank != context_.rules.rank) return search_for(event, context_.names.find(event.name));
  auto& entry = context_.names.get(event.name);
  return is_open(entry) || entry.has_line ? accept(entry) : search(event.name, entry, event.since);
}

/// For another rank.
Answer Search::search_for(const Sought& event, Entry* entry) {
  const auto state = entry == nullptr ? State::unknown : entry->state;
  if (state == State::open) {
    entry->ranks.joined.insert(event.rank);
    return accept(*entry);
  }
  if (state == State::opening || state == State::waiting) return Calls::wait_there(*entry, event.rank);
  if (event.again) return reject(Why::not_started);
  return context_.until(event.since, context_.rules.start_patience(), Why::not_started);
}

Answer Search::search(const std::string& name, Entry& entry, Time first) {
  const auto& rules = context_.rules;
  const auto now = context_.now;
  const bool sought_before = entry.sought_at.has_value();
  const bool sought_lately = sought_before && now - *entry.sought_at < sought_again;
  // What waited in vain is still being refused.
  const bool is_refused = entry.has_line;
  if (entry.state == State::unknown) context_.names.remember(name, entry);
  if (!rules.start_may_come_elsewhere() || sought_lately || is_refused || !context_.may_wait)
    return reject(Why::not_started);
  const bool opens = entry.state == State::opening;
  const auto answered_by = context_.since(first) + answer_patience;
  if (!rules.coordinates() && !opens && now < answered_by && entry.state != State::closing &&
      context_.places.take(name)) {
    entry.starter.reset();
    opening_.begin(name, entry, false, true);
    return {.kind = Answer::Kind::wait_until, .until = answered_by};
  }
  const auto patience = opens ? answer_patience : (sought_before ? 0 : rules.start_patience());
  auto answer = context_.until(first, patience, Why::not_started);
  if (answer.kind != Answer::Kind::wait_until) entry.sought_at = now;
  return answer;
}

}  // namespace penstock::series
