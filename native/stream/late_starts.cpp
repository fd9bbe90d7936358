#include "stream/late_starts.hpp"

#include <algorithm>

namespace penstock::stream {
namespace {

/// Of one series; of more the file says that they are missing.
constexpr std::size_t lost_max = 4096;

std::uint64_t table_bytes(const Series& start) {
  std::uint64_t bytes = start.user_data_cbor.size();
  for (const auto* arrays : {&start.pixel_mask, &start.flatfield})
    for (const auto& array : *arrays) bytes += array.data.size();
  if (start.countrate_correction_table) bytes += start.countrate_correction_table->data.size();
  for (const auto& [name, item] : start.unknown) bytes += name.size() + item.size();
  return bytes;
}

}  // namespace

std::deque<LateStarts::Late>::iterator LateStarts::find(const std::string& series_unique_id) {
  return std::find_if(late_.begin(), late_.end(),
                      [&](const Late& late) { return late.start.unique_id == series_unique_id; });
}

void LateStarts::keep(Series start) {
  (void)take(start.unique_id);
  std::uint64_t held = 0;
  for (const auto& late : late_) held += table_bytes(late.start);
  if (const auto bytes = table_bytes(start); bytes > bytes_max_ - std::min(bytes_max_, held)) {
    start.pixel_mask.clear();
    start.flatfield.clear();
    start.countrate_correction_table.reset();
    start.unknown.clear();
    start.remarks.push_back(make_error(Errc::too_large,
                                       "masks and tables of {} bytes are left out: start messages that wait for their "
                                       "first image are limited to {} together; increase tables_bytes",
                                       bytes, bytes_max_));
  }
  late_.push_back({std::move(start)});
}

std::optional<Series> LateStarts::let_go_for(const std::string& series_unique_id) {
  if (late_.size() < starts_max_ || find(series_unique_id) != late_.end()) return std::nullopt;
  return let_go();
}

std::optional<Series> LateStarts::let_go() {
  if (late_.empty()) return std::nullopt;
  auto gone = std::move(late_.front().start);
  late_.pop_front();
  return gone;
}

std::optional<LateStarts::Late> LateStarts::take(const std::string& series_unique_id) {
  const auto found = find(series_unique_id);
  if (found == late_.end()) return std::nullopt;
  auto late = std::move(*found);
  late_.erase(found);
  return late;
}

bool LateStarts::note_lost(const std::string& series_unique_id, FrameNumber number, Fate fate) {
  const auto found = find(series_unique_id);
  if (found == late_.end()) return false;
  if (found->lost.size() < lost_max) found->lost.emplace_back(number, fate);
  return true;
}

}  // namespace penstock::stream
