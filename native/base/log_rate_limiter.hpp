/// Limits how often messages of one kind are logged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/time/clock.hpp"

namespace penstock {

struct LogLimits {
  unsigned burst = 3;                             ///< messages of a kind that are logged at once
  std::int64_t interval_ns = 10'000'000'000;      ///< until the next one after these
  std::int64_t interval_ns_max = 10'000'000'000;  ///< the interval doubles with each further message, up to this
};

/// Calls are safe from several threads. At most 256 kinds are remembered; then all are forgotten.
class LogRateLimiter {
 public:
  explicit LogRateLimiter(LogLimits limits = {}) : limits_(limits) {}

  /// Returns nullopt if the message is suppressed; otherwise the number of its kind suppressed since the last one that
  /// was logged.
  std::optional<std::uint64_t> admit(std::string_view kind = {}, std::int64_t now_ns = monotonic_ns());

 private:
  struct Kind {
    unsigned logged = 0;
    std::uint64_t suppressed = 0;
    std::int64_t next_ns = 0;  ///< the next message is logged from here on, after the burst
    std::int64_t interval_ns = 0;
  };

  const LogLimits limits_;
  Mutex mutex_;
  std::map<std::string, Kind, std::less<>> kinds_ PEN_GUARDED_BY(mutex_);
};

/// Returns the kind of a message: messages are of one kind if they differ only in numbers outside quotes.
std::string message_kind(Errc code, std::string_view message);

/// Returns what follows a message that is logged: nothing, or " (and 7 more like it)".
std::string and_suppressed(std::uint64_t suppressed);

}  // namespace penstock
