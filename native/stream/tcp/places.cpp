#include "stream/tcp/places.hpp"

#include <algorithm>
#include <limits>

#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

/// A client that comes back tries several times meanwhile.
constexpr std::chrono::nanoseconds lost_silence_min = std::chrono::milliseconds(500);

}  // namespace

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
  MutexLock lock(mutex_);
  if (taken_.size() >= places_max_) make_room(client);
  if (taken_.size() >= places_max_)
    return make_error(Errc::no_place, "{} connections are open, which is the limit", places_max_);
  taken_.push_back({&place, std::string(client)});
  return {};
}

void TcpPlaces::leave(const TcpPlace& place) {
  MutexLock lock(mutex_);
  std::erase_if(taken_, [&](const Taken& taken) { return taken.place == &place; });
}

/// Takes a place from a silent connection, or else from one that `client` has lost without our knowing.
void TcpPlaces::make_room(std::string_view client) {
  const auto* silent = find_silent();
  const auto* found = silent != nullptr ? silent : find_lost(client);
  if (found == nullptr) return;
  const auto why = silent == nullptr ? "its client has connected again"
                                     : "another client needs a place, and this one has sent nothing for the longest "
                                       "time and has no open series";
  found->place->give_up(fmt::format("{} connections are open, which is the limit: {}", places_max_, why));
  taken_.erase(taken_.begin() + (found - taken_.data()));
}

/// The client that has been silent for longest of those without an open series; null if none has for long enough.
const TcpPlaces::Taken* TcpPlaces::find_silent() const {
  return silent_for_longest(silence_min_,
                            [&](const Taken& taken) { return !table_.has_open_series(taken.place->replies()); });
}

/// A connection of the client's own, with or without an open series. A client may have several that it uses: these are
/// seldom silent, and not one of them is lost.
const TcpPlaces::Taken* TcpPlaces::find_lost(std::string_view client) const {
  return silent_for_longest(std::min(silence_min_, lost_silence_min),
                            [&](const Taken& taken) { return !client.empty() && taken.client == client; });
}

template <typename Which>
const TcpPlaces::Taken* TcpPlaces::silent_for_longest(std::chrono::nanoseconds silence_min, Which which) const {
  const auto latest_ns = monotonic_ns() - silence_min.count();
  const Taken* longest = nullptr;
  for (const auto& taken : taken_) {
    const auto since_ns = taken.place->silent_since_ns();
    const bool is_longest = longest == nullptr || since_ns < longest->place->silent_since_ns();
    if (since_ns <= latest_ns && is_longest && which(taken)) longest = &taken;
  }
  return longest;
}

}  // namespace penstock::stream
