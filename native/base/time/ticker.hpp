/// A thread that does the same again and again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/threads.hpp"

namespace penstock {

class Ticker {
 public:
  Ticker() = default;
  ~Ticker() { stop(); }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  /// Once. `work` is called after each pause of `interval`, until stop(). `name` is the thread's.
  void start(const char* name, std::chrono::nanoseconds interval, std::function<void()> work) {
    thread_ = std::thread([this, name, interval, work = std::move(work)] {
      begin_thread(name, Role::other);
      while (goes_on_after(interval)) work();
    });
  }

  /// `work` is called no more; one call may not have returned yet.
  void cancel() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
  }

  /// Waits until `work` has returned, if it is being called.
  void stop() {
    cancel();
    if (thread_.joinable()) thread_.join();
  }

 private:
  bool goes_on_after(std::chrono::nanoseconds interval) {
    std::unique_lock lock(mutex_);
    return !stopped_.wait_for(lock, interval, [this] { return stopping_; });
  }

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace penstock
