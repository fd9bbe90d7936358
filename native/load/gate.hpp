/// Where threads that do one part of a work after the other wait for each other, and for who leads them.
///
/// Between wait_until() and open() all threads stand still: what they have found is the lead's to look at, and what it
/// writes is theirs when they go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.hpp"

namespace penstock::load {

/// Safe from several threads; the lead is one, and none of those that come.
class Gate {
 public:
  /// Of the lead, before anyone continues: number of threads to wait for.
  void expect(std::size_t threads) {
    std::lock_guard lock(mutex_);
    expected_ = threads;
  }
  /// Of a thread that has done its part, or has not begun: waits for the next one. False where there is none.
  bool come() {
    std::unique_lock lock(mutex_);
    const auto part = part_;
    if (++here_ == expected_) all_came_.notify_one();
    next_.wait(lock, [&] { return ended_ || part_ != part; });
    return !ended_;
  }
  /// Of the lead: whether all are here, at the latest at `deadline_ns`, monotonic.
  bool wait_until(std::int64_t deadline_ns) {
    std::unique_lock lock(mutex_);
    const auto left = std::chrono::nanoseconds(deadline_ns - monotonic_ns());
    return all_came_.wait_for(lock, left, [this] { return here_ == expected_; });
  }
  /// Of the lead, when all are here.
  void open() {
    std::lock_guard lock(mutex_);
    here_ = 0;
    ++part_;
    next_.notify_all();
  }
  /// Of the lead: whoever is here goes, and whoever comes later.
  void end() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    next_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_came_, next_;
  // guarded by mutex_
  std::size_t expected_ = 0;
  std::size_t here_ = 0;
  std::uint64_t part_ = 0;
  bool ended_ = false;
};

}  // namespace penstock::load
