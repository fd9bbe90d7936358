/// Tells how far a check is, about twice a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/mutex.hpp"
#include "base/time/clock.hpp"

namespace penstock::check {

/// All calls are safe from several threads; `tell` is called by one at a time.
class Progress {
 public:
  using Tell = std::function<void(std::uint64_t done, std::uint64_t total, const std::string& what)>;
  explicit Progress(Tell tell) : tell_(std::move(tell)) {}

  void start(std::string what, std::uint64_t total) {
    MutexLock lock(mutex_);
    what_ = std::move(what);
    total_ = total;
    done_ = 0;
    tell_(0, total_, what_);
    told_ns_ = monotonic_ns();
  }

  struct State {
    std::string what;
    std::uint64_t done = 0;
    std::uint64_t total = 0;  ///< 0: not known
  };
  /// How far it is.
  State state() {
    MutexLock lock(mutex_);
    return {what_, std::min(done_.load(), total_), total_};
  }

  void advance(std::uint64_t by) {
    const auto done = done_.fetch_add(by) + by;
    if (monotonic_ns() - told_ns_.load() < interval_ns) return;
    if (!mutex_.try_lock()) return;
    told_ns_ = monotonic_ns();
    tell_(std::min(done, total_), total_, what_);
    mutex_.unlock();
  }

 private:
  static constexpr std::int64_t interval_ns = 500'000'000;

  const Tell tell_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> told_ns_{0};
  Mutex mutex_;
  std::string what_ PEN_GUARDED_BY(mutex_);
  std::uint64_t total_ PEN_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::check
