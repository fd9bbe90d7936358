#include "base/time/pacing.hpp"

#include <algorithm>
#include <ctime>

#include "base/time/clock.hpp"

namespace penstock {
namespace {

class MonotonicPaceClock : public PaceClock {
 public:
  std::int64_t now_ns() override { return monotonic_ns(); }
  void sleep_until_ns(std::int64_t time_ns) override {
    const timespec until{time_ns / 1'000'000'000, time_ns % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
};

}  // namespace

PaceClock& monotonic_pace_clock() {
  static MonotonicPaceClock clock;
  return clock;
}

std::int64_t Pacer::due_ns(std::uint64_t frame) const {
  if (rate_hz_ <= 0) return start_ns_;
  return start_ns_ + static_cast<std::int64_t>(static_cast<long double>(frame) * 1e9L / rate_hz_);
}

void Pacer::book(std::uint64_t frame) {
  ++stats_.frames;
  if (rate_hz_ <= 0) return;
  const auto late_ns = clock_->now_ns() - due_ns(frame);
  if (late_ns > late_after_ns) ++stats_.late;
  stats_.late_max_ns = std::max(stats_.late_max_ns, late_ns);
}

}  // namespace penstock
