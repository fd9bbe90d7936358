/// Two clocks, nanoseconds in 64 bits: one for intervals, one for time stamps in files.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace penstock {

/// Monotonic; for intervals and schedules. Unrelated to the date.
inline std::int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// Since 1970-01-01 UTC; for time stamps in files. May step.
inline std::int64_t realtime_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// A realtime stamp as ISO 8601 in UTC with microseconds: "2026-11-21T09:02:25.000001Z".
std::string iso_time(std::int64_t realtime_ns);

}  // namespace penstock
