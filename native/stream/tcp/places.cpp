#include "stream/tcp/places.hpp"

#include <algorithm>
#include <limits>

#include "base/time/clock.hpp"

namespace penstock::stream {

void TcpPlace::begin_message() { silent_since_ns_ = std::numeric_limits<std::int64_t>::max(); }

void TcpPlace::end_message() { silent_since_ns_ = monotonic_ns(); }

void TcpPlace::give_up() {
  given_up_ = true;
  // Not the other way: the reason has to get through.
  socket_->shut_down_reading();
}

Result<void> TcpPlaces::take(TcpPlace& place) {
  place.end_message();  // hello
  MutexLock lock(mutex_);
  if (taken_.size() >= places_max_) {
    auto* silent = find_silent();
    if (silent == nullptr) return make_error(Errc::refused, "{} connections are open, which is the limit", places_max_);
    silent->give_up();
    std::erase(taken_, silent);
  }
  taken_.push_back(&place);
  return {};
}

void TcpPlaces::leave(const TcpPlace& place) {
  MutexLock lock(mutex_);
  std::erase(taken_, &place);
}

/// The client that has been silent for longest of those without an open series; null if none has for long enough.
TcpPlace* TcpPlaces::find_silent() const {
  const auto latest_ns = monotonic_ns() - silence_min_.count();
  auto order = taken_;
  std::erase_if(order, [&](const TcpPlace* place) { return place->silent_since_ns() > latest_ns; });
  std::sort(order.begin(), order.end(), [](const TcpPlace* one, const TcpPlace* other) {
    return one->silent_since_ns() < other->silent_since_ns();
  });
  const auto found = std::find_if(order.begin(), order.end(),
                                  [&](const TcpPlace* place) { return !table_.has_open_series(place->replies()); });
  return found == order.end() ? nullptr : *found;
}

}  // namespace penstock::stream
