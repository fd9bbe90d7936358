#include "series/registry.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace penstock::series {
namespace {

template <typename Part, typename Event>
concept Takes = requires(Part& part, const Event& event) {
  part.on(event);
};

template <typename Part, typename Event>
void offer(Part& part, const Event& event, Answer& answer) {
  if constexpr (!Takes<Part, Event>)
    return;
  else if constexpr (std::is_void_v<decltype(part.on(event))>)
    part.on(event);
  else
    answer = part.on(event);
}

}  // namespace

Actions Registry::step(Time now, const Event& event) {
  context_.now = std::max(context_.now, now);
  context_.commands.clear();
  Actions actions;
  const auto present = [&](auto&... parts) {
    std::visit(
        [&]<typename What>(const What& what) {
          static_assert((Takes<decltype(parts), What> || ...), "no part takes the event");
          (offer(parts, what, actions.answer), ...);
        },
        event);
  };
  present(context_, connections_, lines_, refusals_, ends_, closing_, opening_, calls_, search_, starts_);
  opening_.let_in();
  actions.commands = std::move(context_.commands);
  return actions;
}

std::optional<Time> Registry::ends_in(const std::string& name) const {
  const auto* entry = context_.names.find(name);
  if (entry == nullptr || !is_open(*entry)) return std::nullopt;
  return entry->recording.ending.left(context_.now, entry->recording.facts, context_.rules.timeouts);
}

bool Registry::have_all_ended(const std::string& name) const {
  const auto* entry = context_.names.find(name);
  return entry != nullptr && is_open(*entry) && entry->recording.ending.have_all_ended();
}

State Registry::state(const std::string& name) const {
  const auto* entry = context_.names.find(name);
  return entry == nullptr ? State::unknown : state_of(*entry);
}

std::uint64_t Registry::generation(const std::string& name) const {
  const auto* entry = context_.names.find(name);
  if (!context_.rules.alone() || entry == nullptr) return 0;
  const bool has_begun = is_open(*entry) || entry->has_line || entry->state == State::waiting;
  return has_begun ? entry->generation : 0;
}

bool Registry::idle() const { return context_.places.taken() == 0 && context_.places.waiting() == 0; }

const Roster* Registry::roster(const std::string& name) const {
  const auto* entry = context_.names.find(name);
  return entry == nullptr ? nullptr : &entry->recording.roster;
}

std::string Registry::audit() const {
  const auto& rules = context_.rules;
  const auto& places = context_.places;
  std::size_t have_file = 0, wait = 0;
  for (const auto& [name, entry] : context_.names.all()) {
    const bool waits = entry.state == State::waiting;
    const bool has = is_open(entry) || entry.state == State::opening || entry.state == State::closing ||
                     (waits && !rules.coordinates());
    if (has != places.has(name)) return name + ": its state and its place disagree";
    have_file += has ? 1 : 0;
    wait += waits ? 1 : 0;
  }
  if (have_file != places.taken()) return "files and places disagree";
  if (rules.coordinates() && (have_file > rules.files_max || wait != places.waiting() || wait > rules.starts_max))
    return "starts that wait and the line disagree";
  return context_.names.audit();
}

}  // namespace penstock::series
