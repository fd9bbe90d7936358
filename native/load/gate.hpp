/// Where threads that do one part of a work after the other wait for each other, and for who leads them.
///
/// Between wait_until() and open() all threads stand still: what they have found is the lead's to look at, and what it
/// writes is theirs when they go on.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.hpp"
#include "base/time/clock.hpp"

namespace penstock::load {

/// Safe from several threads; the lead is one, and none of those that come.
class Gate {
 public:
  /// Of the lead, before anyone continues: number of threads to wait for.
  void expect(std::size_t threads) {
    MutexLock lock(mutex_);
    expected_ = threads;
  }
  /// Of a thread that has done its part, or has not begun: waits for the next one. False where there is none.
  bool come() {
    MutexLock lock(mutex_);
    const auto part = part_;
    if (++here_ == expected_) all_came_.notify_one();
    next_.wait(lock, [&]() PEN_REQUIRES(mutex_) { return ended_ || part_ != part; });
    return !ended_;
  }
  /// Of the lead: whether all are here, at the latest at `deadline_ns`, monotonic.
  bool wait_until(std::int64_t deadline_ns) {
    MutexLock lock(mutex_);
    const auto left = std::chrono::nanoseconds(deadline_ns - monotonic_ns());
    return all_came_.wait_for(lock, left, [this]() PEN_REQUIRES(mutex_) { return here_ == expected_; });
  }
  /// Of the lead, when all are here.
  void open() {
    MutexLock lock(mutex_);
    here_ = 0;
    ++part_;
    next_.notify_all();
  }
  /// Of the lead: whoever is here goes, and whoever comes later.
  void end() {
    MutexLock lock(mutex_);
    ended_ = true;
    next_.notify_all();
  }

 private:
  Mutex mutex_;
  CondVar all_came_, next_;
  std::size_t expected_ PEN_GUARDED_BY(mutex_) = 0;
  std::size_t here_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t part_ PEN_GUARDED_BY(mutex_) = 0;
  bool ended_ PEN_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock::load
