/// Frames between a source and the index: how many there are, and waiting until there are none.
///
/// A *task* is a frame inside admit(), in the recorder's queue or inside encode(). An *unsettled* frame was admitted
/// and is neither in the index nor given up. All calls are safe from several threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace penstock::recorder {

class InFlight {
 public:
  /// Counts one more task; false, and nothing is counted, once close() was called.
  bool begin_task();
  /// Counts one more task, also while the series closes: a block of frames that were admitted before.
  void add_task();
  void end_task();

  /// The frame counts as unsettled from now on.
  void admitted();
  void settled(std::uint64_t frames);

  /// Whether there are tasks, or unsettled frames besides `waiting` that wait for others of their chunk.
  bool busy(std::uint64_t waiting) const;
  std::uint64_t unsettled() const;

  /// Refuses further tasks and waits until none is left; calls `meanwhile` each `interval`, without a lock.
  template <typename Meanwhile>
  void close(std::chrono::milliseconds interval, Meanwhile meanwhile) {
    std::unique_lock lock(mutex_);
    closing_ = true;
    while (!idle_.wait_for(lock, interval, [&] { return tasks_ == 0; })) {
      lock.unlock();
      meanwhile();
      lock.lock();
    }
  }
  void wait_until_settled();

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  // guarded by mutex_
  bool closing_ = false;
  std::uint64_t tasks_ = 0;
  std::uint64_t unsettled_ = 0;
};

}  // namespace penstock::recorder
