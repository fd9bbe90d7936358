#include "recorder/service/slots.hpp"

#include <utility>

namespace penstock::recorder {

Slot* Slots::find(const std::string& name) {
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : &found->second;
}

std::shared_ptr<SeriesFile> Slots::file(const std::string& name) const {
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second.file;
}

void Slots::keep(const std::string& name, Kept kept) {
  auto& slot = slots_[name];
  slot.has_line = true;
  slot.line.push(std::move(kept));
}

std::optional<Kept> Slots::next(const std::string& name) { return slots_.at(name).line.next(); }

void Slots::drop_if_empty(const std::string& name) {
  const auto found = slots_.find(name);
  if (found != slots_.end() && !found->second.file && !found->second.has_line) slots_.erase(found);
}

}  // namespace penstock::recorder
