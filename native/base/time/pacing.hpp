/// Frames become due on an absolute schedule, whatever became of those before them.
///
/// A detector does not wait: frame n is due at start + n / rate. A sender that was held up catches
/// up without a pause, and every frame that was handed over late is counted with its scheduling delay.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock {

/// Where pacing takes its time from; monotonic nanoseconds.
class PaceClock {
 public:
  virtual ~PaceClock() = default;
  virtual std::int64_t now_ns() = 0;
  /// May return early, as a signal makes it do.
  virtual void sleep_until_ns(std::int64_t time_ns) = 0;
};

/// CLOCK_MONOTONIC; lives as long as the program.
PaceClock& monotonic_pace_clock();

struct PaceStats {
  std::uint64_t frames = 0;
  std::uint64_t late = 0;        ///< handed over more than Pacer::late_after_ns after they were due
  std::int64_t late_max_ns = 0;  ///< of all frames, counted as late or not
};

/// One thread uses it.
class Pacer {
 public:
  static constexpr std::int64_t late_after_ns = 1'000'000;
  /// The last stretch before a frame is due is waited for without sleep: waking up takes tens of microseconds.
  static constexpr std::int64_t spin_ns = 50'000;
  /// However far off a frame is, `stopped` is asked this often.
  static constexpr std::int64_t sleep_max_ns = 100'000'000;

  /// A rate of 0 makes every frame due at the start, and none late.
  Pacer(double rate_hz, PaceClock& clock) : rate_hz_(rate_hz), clock_(&clock) {}

  /// Frame 0 is due now.
  void start() { start_at(clock_->now_ns()); }
  /// Frame 0 is due then.
  void start_at(std::int64_t start_ns) { start_ns_ = start_ns; }
  std::int64_t start_ns() const { return start_ns_; }
  std::int64_t due_ns(std::uint64_t frame) const;

  /// Waits until the frame is due and records its scheduling delay. `stopped()` is asked after each sleep;
  /// returns false, and books nothing, once it says so.
  template <typename Stopped>
  bool wait_for(std::uint64_t frame, Stopped stopped) {
    for (;;) {
      if (stopped()) return false;
      const auto now_ns = clock_->now_ns();
      const auto wake_ns = due_ns(frame) - spin_ns;
      if (now_ns >= due_ns(frame)) break;
      if (now_ns < wake_ns) clock_->sleep_until_ns(std::min(wake_ns, now_ns + sleep_max_ns));
    }
    book(frame);
    return true;
  }

  const PaceStats& stats() const { return stats_; }

 private:
  void book(std::uint64_t frame);

  double rate_hz_;
  PaceClock* clock_;
  std::int64_t start_ns_ = 0;
  PaceStats stats_;
};

}  // namespace penstock
