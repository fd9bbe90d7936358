/// The time in which at least one of several threads was at something.
#pragma once

#include <cstdint>

#include "base/mutex.hpp"
#include "base/time/clock.hpp"

namespace penstock {

/// All calls are safe from several threads.
class AnyTime {
 public:
  /// A thread is at it in the scope of this object.
  class Within {
   public:
    explicit Within(AnyTime& time) : time_(time) { time_.change(1); }
    ~Within() { time_.change(-1); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    AnyTime& time_;
  };

  /// So far, with what goes on now.
  std::int64_t total_ns() const {
    MutexLock lock(mutex_);
    return threads_ > 0 ? total_ns_ + monotonic_ns() - since_ns_ : total_ns_;
  }

 private:
  void change(int by) {
    MutexLock lock(mutex_);
    const auto now_ns = monotonic_ns();
    if (threads_ > 0) total_ns_ += now_ns - since_ns_;
    since_ns_ = now_ns;
    threads_ += by;
  }

  mutable Mutex mutex_;
  int threads_ PEN_GUARDED_BY(mutex_) = 0;
  std::int64_t since_ns_ PEN_GUARDED_BY(mutex_) = 0;
  std::int64_t total_ns_ PEN_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
