/// Threads that do one thing each and end: making files, closing them. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::recorder {

class Errands {
 public:
  ~Errands() { join(); }
  void start(const char* thread_name, std::function<void()> errand);
  /// Joins threads that have ended.
  void reap() { join(false); }
  /// Waits for all, also for those that are started meanwhile.
  void join() { join(true); }

 private:
  struct One {
    std::atomic<bool> done{false};
    std::thread thread;
  };
  void join(bool all);

  std::mutex mutex_;
  std::vector<std::unique_ptr<One>> running_;  // guarded by mutex_
};

}  // namespace penstock::recorder
