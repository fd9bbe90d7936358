#include "series/names.hpp"

#include <algorithm>

namespace penstock::series {
namespace {

constexpr std::size_t remembered_max = 1024;
constexpr std::size_t early_series_max = 16;
constexpr std::size_t early_frames_max = 65536;  ///< of one series

}  // namespace

Entry* Names::find(const std::string& name) {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const Entry* Names::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

void Names::remember(const std::string& name, Entry& entry) {
  entry.memory = ++memories_;
  memory_.emplace_back(name, entry.memory);
  if (memory_.size() <= remembered_max) return;
  const auto [oldest, memory] = std::move(memory_.front());
  memory_.pop_front();
  const auto found = entries_.find(oldest);
  if (found == entries_.end() || found->second.memory != memory || is_known(found->second)) return;
  if (found->second.state == State::closing) return;
  forget_early_frames(found->second);
  entries_.erase(found);
}

bool Names::add_early_frame(Entry& entry, std::uint64_t number) {
  const bool is_first = entry.early.frames.empty();
  if (is_first && early_series_ >= early_series_max) {
    const auto oldest = std::find_if(memory_.begin(), memory_.end(), [&](const auto& memory) {
      const auto* remembered = find(memory.first);
      return remembered != nullptr && !remembered->early.frames.empty();
    });
    if (oldest != memory_.end()) forget_early_frames(entries_.at(oldest->first));
  }
  if (is_first) ++early_series_;
  if (entry.early.frames.size() < early_frames_max) entry.early.frames.push_back(number);
  return is_first;
}

void Names::forget_early_frames(Entry& entry) {
  if (entry.early.frames.empty()) return;
  entry.early.frames.clear();
  --early_series_;
}

std::string Names::audit() const {
  std::size_t early = 0;
  for (const auto& [name, entry] : entries_) {
    early += entry.early.frames.empty() ? 0 : 1;
    if (entry.state == State::waiting && !entry.has_line) return name + ": waits without its start";
    if (entry.state == State::unknown && entry.memory == 0) return name + ": is kept for nothing";
  }
  return early == early_series_ && early <= early_series_max + 1 ? "" : "early frames are miscounted";
}

}  // namespace penstock::series
