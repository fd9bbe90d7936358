/// Looks after a sending thread from outside: progress every half second, and an end to calls that wait too long.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "stream/sender.hpp"

namespace penstock::detector {

/// Runs from construction to destruction; `sender` and `stop` outlive it.
class Watcher {
 public:
  Watcher(stream::FrameSender& sender, const std::atomic<bool>& stop, std::function<void()> progress);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Cancels the sender unless clear_deadline() comes within `seconds`.
  void set_deadline(double seconds);
  void clear_deadline() { deadline_ns_ = 0; }
  /// Whether a deadline was what cancelled the sender.
  bool expired() const { return expired_; }
  /// No more progress events; waits for one that is on its way.
  void quiet();

 private:
  void run();

  stream::FrameSender& sender_;
  const std::atomic<bool>& stop_;
  const std::function<void()> progress_;
  std::atomic<std::int64_t> deadline_ns_{0};  // monotonic; 0 is none
  std::atomic<bool> expired_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;  // guarded by mutex_
  bool quiet_ = false;   // guarded by mutex_
  std::thread thread_;
};

}  // namespace penstock::detector
