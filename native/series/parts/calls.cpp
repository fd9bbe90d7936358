#include "series/parts/calls.hpp"

#include <utility>

namespace penstock::series {

Answer Calls::wait_there(Entry& entry, unsigned rank) {
  entry.ranks.behind.insert(rank);
  return answer_of(Answer::Kind::wait_there, entry);
}

/// The coordinator may have called already.
Answer Calls::on(const Waits& event) {
  const auto& name = event.name;
  auto* entry = context_.names.find(name);
  if (entry == nullptr || entry->state != State::opening) return {};
  if (std::exchange(entry->starter, {}) && !lines_.starts().hold(entry->start_bytes)) {
    context_.places.leave(name);
    entry->state = State::unknown;
    refusals_.refuse(name, *entry);
    if (const auto call = std::exchange(entry->request.call, {})) catch_up(name, call->generation);
    return reject(Why::line_full);
  }
  entry->state = State::waiting;
  entry->has_line = true;
  entry->held = context_.rules.holds_back && context_.rules.bound == 0;
  const auto answer = answer_of(Answer::Kind::wait, *entry);
  if (context_.stopping)
    wait_in_vain(name, *entry);
  else if (const auto call = std::exchange(entry->request.call, {}))
    on(*call);
  return answer;
}

void Calls::on(const Called& event) {
  const auto& name = event.name;
  auto* entry = context_.names.find(name);
  const auto state = entry == nullptr ? State::unknown : entry->state;
  if (state == State::opening) {
    entry->request.call = event;
  } else if (state != State::waiting) {
    catch_up(name, event.generation);
  } else if (event.in_vain) {
    wait_in_vain(name, *entry);
  } else {
    entry->request.called_for = event.generation;
    opening_.begin(name, *entry, true, true);
  }
}

/// A notice of an earlier series of that name is late.
void Calls::on(const CaughtUp& event) {
  auto* entry = context_.names.find(event.name);
  if (entry == nullptr || entry->generation != event.generation) return;
  entry->ranks.behind.erase(event.rank);
  closing_.close_if_asked(event.name, *entry);
}

void Calls::on(const LineEmpty& event) {
  auto* entry = context_.names.find(event.name);
  if (entry == nullptr) return;
  entry->has_line = false;
  if (!context_.rules.coordinates()) catch_up(event.name, std::exchange(entry->request.called_for, 0));
  closing_.close_if_asked(event.name, *entry);
}

void Calls::on(const Stop&) {
  if (context_.rules.coordinates()) return;
  for (auto& [name, entry] : context_.names.all())
    if (entry.state == State::waiting) wait_in_vain(name, entry);
}

/// Another rank keeps a place for each name that it waits for.
void Calls::wait_in_vain(const std::string& name, Entry& entry) {
  context_.places.leave(name);
  entry.state = State::unknown;
  refusals_.refuse(name, entry);
  context_.notify({.what = Notify::What::in_vain, .rank = context_.rules.rank, .name = name});
}

void Calls::catch_up(const std::string& name, std::uint64_t generation) {
  context_.notify({.what = Notify::What::caught_up, .rank = 0, .name = name, .generation = generation});
}

}  // namespace penstock::series
