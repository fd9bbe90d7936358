#include "recorder/service/slots.hpp"

#include <utility>
#include <variant>

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
  if (const auto* end = std::get_if<SeriesEnd>(&kept.event); end != nullptr && !slot.line.empty()) {
    const auto* last = std::get_if<SeriesEnd>(&slot.line.back().event);
    if (last != nullptr && *last == *end) return;
  }
  slot.line.push_back(std::move(kept));
}

std::optional<Kept> Slots::next(const std::string& name) {
  auto& line = slots_.at(name).line;
  if (line.empty()) return std::nullopt;
  auto next = std::move(line.front());
  line.pop_front();
  return next;
}

void Slots::drop_if_empty(const std::string& name) {
  const auto found = slots_.find(name);
  if (found != slots_.end() && !found->second.file && !found->second.has_line) slots_.erase(found);
}

}  // namespace penstock::recorder
