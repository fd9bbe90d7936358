#include "base/time/clock.hpp"

#include <fmt/chrono.h>

namespace penstock {

std::string iso_time(std::int64_t realtime_ns) {
  const auto seconds = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06d}Z", fmt::gmtime(seconds), (realtime_ns % 1'000'000'000) / 1000);
}

}  // namespace penstock
