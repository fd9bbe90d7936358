#include "stream/tcp/places.hpp"

#include <algorithm>
#include <limits>

#include "base/time/clock.hpp"

namespace penstock::stream {

void TcpPlace::begin_message() { silent_since_ns_ = std::numeric_limits<std::int64_t>::max(); }

void TcpPlace::end_message() { silent_since_ns_ = monotonic_ns(); }

void TcpPlace::give_up(std::string_view why) {
  why_ = why;
  given_up_ = true;
  // Not the other way: the reason has to get through.
  socket_->shut_down_reading();
}

Result<void> TcpPlaces::take(TcpPlace& place, std::string_view client) {
  place.end_message();  // hello
  if (try_to_take(place)) return {};
  if (!client.empty()) table_.end_lost(client);
  if (try_to_take(place)) return {};
  return make_error(Errc::no_place, "{} connections are open, which is the limit", places_max_);
}

bool TcpPlaces::try_to_take(TcpPlace& place) {
  MutexLock lock(mutex_);
  if (auto* silent = taken_.size() < places_max_ ? nullptr : find_silent(); silent != nullptr) {
    silent->give_up(
        fmt::format("{} connections are open, which is the limit: another client needs a place, and this one has sent "
                    "nothing for the longest time and has no open series",
                    places_max_));
    std::erase(taken_, silent);
  }
  if (taken_.size() >= places_max_) return false;
  taken_.push_back(&place);
  return true;
}

void TcpPlaces::leave(const TcpPlace& place) {
  MutexLock lock(mutex_);
  std::erase(taken_, &place);
}

/// The client that has been silent for longest of those without an open series; null if none has for long enough.
TcpPlace* TcpPlaces::find_silent() const {
  const auto latest_ns = monotonic_ns() - silence_min_.count();
  TcpPlace* longest = nullptr;
  for (auto* place : taken_) {
    const auto since_ns = place->silent_since_ns();
    const bool is_longest = longest == nullptr || since_ns < longest->silent_since_ns();
    if (since_ns <= latest_ns && is_longest && !table_.has_open_series(place->replies())) longest = place;
  }
  return longest;
}

}  // namespace penstock::stream
