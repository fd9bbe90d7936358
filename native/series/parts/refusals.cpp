#include "series/parts/refusals.hpp"

#include <utility>

namespace penstock::series {

void Refusals::refuse(const std::string& name, Entry& entry) {
  if (!std::exchange(entry.refusal_counted, true)) {
    if (context_.rules.coordinates()) ++series_;
    context_.notify({.what = Notify::What::refused, .rank = 0, .name = name});
  }
  if (entry.state == State::unknown || entry.state == State::early || entry.state == State::closed) {
    entry.state = State::refused;
    context_.names.remember(name, entry);
  }
}

void Refusals::take_back(Entry& entry) {
  if (std::exchange(entry.refusal_counted, false) && context_.rules.coordinates()) --series_;
  elements_ += std::exchange(entry.early.refused, {}).size();
}

void Refusals::on(const StartRefused& event) {
  auto& entry = context_.names.get(event.name);
  if (!is_known(entry) && entry.state != State::closing && entry.state != State::closed) refuse(event.name, entry);
}

Answer Refusals::on(const ElementRefused& event) {
  auto& entry = context_.names.get(event.name);
  if (is_known(entry)) {
    ++elements_;
    return accept(entry);
  }
  entry.early.refused.insert(event.source);
  on(StartRefused{event.name});
  return reject(Why::not_started);
}

}  // namespace penstock::series
