#include "recorder/series/ending.hpp"

#include <algorithm>

namespace penstock::recorder {
namespace {

/// For a client that was asked to connect again and to send what the storage did not take.
constexpr std::int64_t again_patience_ns = 5'000'000'000;

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

void Ending::set(std::int64_t now_ns, std::int64_t patience_ns, bool all, EndedBy why) {
  patience_ns_ = patience_ns;
  all_ended_ = all;
  ended_by_ = why;
  std::int64_t none = 0;
  if (spec_.has_elements())
    ended_ns_ = now_ns;
  else
    ended_ns_.compare_exchange_strong(none, now_ns);
}

void Ending::give_up(std::int64_t now_ns) {
  given_up_ = true;
  set(now_ns, 0, true, EndedBy::failure);
}

bool Ending::is_complete() const {
  const auto announced = spec_.series().frames;
  return announced > 0 && account_.ledger.counts().received == announced;
}

std::uint64_t Ending::missing() const {
  const auto counts = account_.ledger.counts();
  const auto frames = std::max(spec_.series().frames, counts.end);
  return frames - std::min(frames, counts.received);
}

/// Frames that another rank lost may have come again to a third: then only the complete series shows it.
bool Ending::has_what_was_lost() const { return missing() == 0 || (ranks_ == 1 && account_.ledger.still_lost() == 0); }

bool Ending::ready_to_close(std::int64_t now_ns) const {
  const auto last_activity_ns = account_.counters.last_activity_ns.load();
  const auto since_last_ns = now_ns - last_activity_ns;
  const auto end_patience_ns = nanoseconds(spec_.config().end_timeout_s);
  const auto ended_ns = ended_ns_.load();
  const auto busy = [&] { return account_.in_flight.busy(); };
  if (given_up_) return true;
  // The end message of a complete series is waited for up to end_timeout_s.
  if (ended_ns == 0) return is_complete() && since_last_ns >= end_patience_ns && !busy();
  // What the storage did not take may come again, for up to idle_timeout_s.
  const bool may_wait = now_ns - ended_ns < nanoseconds(spec_.config().idle_timeout_s);
  if (may_wait && account_.ledger.has_losers()) return false;
  if (may_wait && asked_again_ns_ != 0 && now_ns - asked_again_ns_ < again_patience_ns) return false;
  const bool ends_may_follow = spec_.has_elements() && !all_ended_ && since_last_ns < end_patience_ns;
  if (is_complete() && !ends_may_follow) return !may_wait || account_.failures.first().empty() || !busy();
  const auto since = std::max(ended_ns, last_activity_ns);
  return now_ns - since >= patience_ns_ && !(ranks_ > 1 && busy());
}

std::optional<std::int64_t> Ending::ends_in_ns(std::int64_t now_ns) const {
  const auto ended_ns = ended_ns_.load();
  if (ended_ns == 0 && !is_complete()) return std::nullopt;
  const auto patience_ns = ended_ns == 0 ? nanoseconds(spec_.config().end_timeout_s) : patience_ns_.load();
  const auto since = std::max(ended_ns, account_.counters.last_activity_ns.load());
  return std::max<std::int64_t>(0, patience_ns - (now_ns - since));
}

bool Ending::is_silent(std::int64_t now_ns) const {
  const auto end_after_s = spec_.config().end_after_s;
  return end_after_s > 0 && ended_ns_ == 0 && account_.ledger.end() > 0 && !account_.in_flight.busy() &&
         now_ns - account_.counters.last_activity_ns >= nanoseconds(end_after_s);
}

EndedBy Ending::ended_by() const {
  if (ended_ns_ != 0) return ended_by_;
  return is_complete() ? EndedBy::count : EndedBy::stop;
}

}  // namespace penstock::recorder
