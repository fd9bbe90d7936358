#include "series/parts/opening.hpp"

#include <utility>

namespace penstock::series {
namespace {

constexpr Time behind_patience = 600 * second;  ///< for ranks to present what waited for the series

}  // namespace

void Opening::begin(const std::string& name, Entry& entry, bool from_line, bool sought) {
  entry.state = State::opening;
  entry.request.close = false;
  entry.request.call.reset();
  context_.commands.emplace_back(Open{.name = name,
                                      .generation = entry.generation,
                                      .join = !context_.rules.coordinates(),
                                      .sought = sought,
                                      .again = sought && !from_line && entry.sought_at,
                                      .from_line = from_line});
}

void Opening::let_in() {
  while (auto next = context_.places.next()) begin(*next, context_.names.get(*next), true, false);
}

void Opening::on(const Opened& event) {
  const auto& name = event.name;
  auto* entry = context_.names.find(name);
  if (entry == nullptr || entry->state != State::opening) return;
  if (!entry->starter) entry->what = event.what;
  entry->state = State::open;
  entry->recording = Recording{
      .roster = Roster(entry->what.elements), .facts = {.last_activity = context_.now}, .opened_at = context_.now};
  entry->ranks.joined.clear();
  entry->ranks.behind_until = context_.now + behind_patience;
  entry->past.reset();
  entry->sought_at.reset();
  if (entry->starter) (void)ends_.begin(*entry, *entry->starter);
  if (!entry->early.frames.empty())
    context_.notify({.what = Notify::What::dropped, .name = name, .numbers = entry->early.frames});
  context_.names.forget_early_frames(*entry);
  for (const auto& early : std::exchange(entry->early.ends, {})) ends_.apply(*entry, early);
  refusals_.take_back(*entry);
  call(Notify::What::opened, name, *entry);
  closing_.close_if_asked(name, *entry);
}

Answer Opening::on(const OpenFailed& event) {
  const auto& name = event.name;
  auto* entry = context_.names.find(name);
  if (entry == nullptr || entry->state != State::opening) return {};
  if (std::exchange(entry->request.close, false))
    context_.notify({.what = Notify::What::handed_over, .rank = 0, .name = name});
  context_.places.leave(name);
  entry->state = State::unknown;
  std::erase_if(entry->early.ends, [](const auto& end) { return end.by_start; });  // of what has just failed
  call(Notify::What::in_vain, name, *entry);
  entry->ranks.behind.clear();
  if (entry->starter || entry->has_line)
    refusals_.refuse(name, *entry);
  else
    entry->sought_at = context_.now;
  context_.names.remember(name, *entry);
  return reject(Why::not_started);
}

/// The coordinator's, to the ranks at which something waits for the series.
void Opening::call(Notify::What what, const std::string& name, const Entry& entry) {
  for (const auto rank : entry.ranks.behind)
    context_.notify({.what = what, .rank = rank, .name = name, .generation = entry.generation});
}

}  // namespace penstock::series
