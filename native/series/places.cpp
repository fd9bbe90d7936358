#include "series/places.hpp"

namespace penstock::series {

bool Places::take(const std::string& series) {
  if (taken_.contains(series)) return true;
  if (!line_.empty() || taken_.size() >= places_) return false;
  taken_.insert(series);
  return true;
}

bool Places::wait(const std::string& series) {
  if (!has_room_to_wait()) return false;
  line_.push_back(series);
  return true;
}

std::optional<std::string> Places::next() {
  if (line_.empty() || taken_.size() >= places_) return std::nullopt;
  auto series = std::move(line_.front());
  line_.pop_front();
  taken_.insert(series);
  return series;
}

bool WaitingBytes::hold(std::uint64_t bytes) {
  if (!has_room(bytes)) return false;
  held_ += bytes;
  return true;
}

}  // namespace penstock::series
