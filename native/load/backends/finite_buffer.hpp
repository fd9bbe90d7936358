/// The finite queue between a detector, which does not wait, and its storage: when it is full, frames are lost.
///
/// It holds what is known of frames and no pixels: these are made where they are written, so that a buffer may be as
/// large as a detector's without its memory. Invariant: frames that wait ≤ held ≤ capacity.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.hpp"

namespace penstock::load {

/// Times are nanoseconds since the run's start.
struct DueFrame {
  std::uint64_t number = 0;
  std::int64_t due_ns = 0;
  std::int64_t offered_ns = 0;  ///< when the generator got to it
};

/// Safe from several threads.
class FiniteBuffer {
 public:
  explicit FiniteBuffer(std::uint64_t capacity) : capacity_(capacity) {}

  struct Levels {
    std::uint64_t held = 0;
    std::uint64_t held_max = 0;
    /// The longest time in which frames were held and none was done, and when it ended.
    std::int64_t stall_ns = 0;
    std::int64_t stall_end_ns = 0;
  };

  /// How many frames are held with this one; 0, and it is not accepted, if the queue is full.
  std::uint64_t admit(const DueFrame& frame) {
    MutexLock lock(mutex_);
    if (levels_.held >= capacity_) return 0;
    // Whoever offers may lose its processor on the way here, and all frames before this one may be done by now.
    if (levels_.held++ == 0) waiting_since_ns_ = std::max(waiting_since_ns_, frame.offered_ns);
    levels_.held_max = std::max(levels_.held_max, levels_.held);
    const auto held = levels_.held;
    frames_.push_back(frame);
    lock.unlock();
    some_.notify_one();
    return held;
  }

  bool wait_for_room(std::chrono::nanoseconds wait) {
    MutexLock lock(mutex_);
    return room_.wait_for(lock, wait, [this]() PEN_REQUIRES(mutex_) { return levels_.held < capacity_; });
  }

  /// The frame that waited longest; nothing once closed and empty. It is held until release().
  std::optional<DueFrame> take() {
    MutexLock lock(mutex_);
    some_.wait(lock, [this]() PEN_REQUIRES(mutex_) { return closed_ || !frames_.empty(); });
    if (frames_.empty()) return std::nullopt;
    const auto frame = frames_.front();
    frames_.pop_front();
    return frame;
  }

  /// A frame that was taken is done with.
  void release(std::int64_t now_ns) {
    {
      MutexLock lock(mutex_);
      note_stall(now_ns);
      --levels_.held;
      // A thread may lose its processor on the way here: then another's later moment is known already.
      waiting_since_ns_ = std::max(waiting_since_ns_, now_ns);
    }
    room_.notify_one();
  }

  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    some_.notify_all();
  }

  /// With a stall that lasts until now.
  Levels levels(std::int64_t now_ns) {
    MutexLock lock(mutex_);
    if (levels_.held > 0) note_stall(now_ns);
    return levels_;
  }

 private:
  void note_stall(std::int64_t now_ns) PEN_REQUIRES(mutex_) {
    if (now_ns - waiting_since_ns_ <= levels_.stall_ns) return;
    levels_.stall_ns = now_ns - waiting_since_ns_;
    levels_.stall_end_ns = now_ns;
  }

  const std::uint64_t capacity_;
  Mutex mutex_;
  CondVar some_;
  CondVar room_;
  std::deque<DueFrame> frames_ PEN_GUARDED_BY(mutex_);
  Levels levels_ PEN_GUARDED_BY(mutex_);
  std::int64_t waiting_since_ns_ PEN_GUARDED_BY(mutex_) = 0;
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock::load
