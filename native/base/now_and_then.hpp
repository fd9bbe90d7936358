/// Bounds messages of one kind: the first ones are told, and then one each ten seconds.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"

namespace penstock {

/// Calls are safe from several threads.
class NowAndThen {
 public:
  /// What to write behind a message that is told: nothing, or how many like it were not told since the last one.
  std::optional<std::string> tell() {
    std::lock_guard lock(mutex_);
    const auto now = monotonic_ns();
    if (told_ >= at_once && now < next_ns_) {
      ++silent_;
      return std::nullopt;
    }
    ++told_;
    next_ns_ = now + interval_ns;
    const auto silent = std::exchange(silent_, 0);
    return silent == 0 ? std::string() : " (and " + std::to_string(silent) + " more like it)";
  }

 private:
  static constexpr unsigned at_once = 3;
  static constexpr std::int64_t interval_ns = 10'000'000'000;
  std::mutex mutex_;
  unsigned told_ = 0;
  std::uint64_t silent_ = 0;
  std::int64_t next_ns_ = 0;
};

}  // namespace penstock
