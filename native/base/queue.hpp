/// A bounded queue between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.hpp"
#include "base/time/thread_times.hpp"

namespace penstock {

/// Multi-producer, multi-consumer, first in first out. `push` waits while full; `close` wakes
/// everyone: pushes are refused from then on, pops drain what is left and then return nothing.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// False if the queue was closed; then `item` was not taken.
  bool push(T&& item) {
    MutexLock lock(mutex_);
    const auto may_go_on = [&]() PEN_REQUIRES(mutex_) { return closed_ || items_.size() < capacity_; };
    if (!may_go_on()) {
      const Waiting waiting(Wait::room);
      space_.wait(lock, may_go_on);
    }
    if (closed_) return false;
    items_.push_back(std::move(item));
    lock.unlock();
    some_.notify_one();
    return true;
  }

  bool try_push(T&& item) {
    {
      MutexLock lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    some_.notify_one();
    return true;
  }

  /// Takes the item though the queue may be full: for those who bound themselves otherwise and must not wait.
  bool push_now(T&& item) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    some_.notify_one();
    return true;
  }

  /// Nothing once closed and empty.
  std::optional<T> pop() {
    MutexLock lock(mutex_);
    const auto may_go_on = [&]() PEN_REQUIRES(mutex_) { return closed_ || !items_.empty(); };
    if (!may_go_on()) {
      const Waiting waiting(Wait::work);
      some_.wait(lock, may_go_on);
    }
    auto item = take();
    lock.unlock();
    if (item) space_.notify_one();
    return item;
  }

  /// Nothing after `wait`, or once closed and empty; `ended()` distinguishes them.
  template <typename Rep, typename Period>
  std::optional<T> pop_for(std::chrono::duration<Rep, Period> wait) {
    MutexLock lock(mutex_);
    const auto may_go_on = [&]() PEN_REQUIRES(mutex_) { return closed_ || !items_.empty(); };
    if (!may_go_on()) {
      const Waiting waiting(Wait::work);
      some_.wait_for(lock, wait, may_go_on);
    }
    auto item = take();
    lock.unlock();
    if (item) space_.notify_one();
    return item;
  }

  /// Waits until `count` items are there, the queue is closed, or `wait` is over; not at all once hurry() was called.
  /// Only for a queue with a single consumer, which takes nothing in this time.
  template <typename Rep, typename Period>
  void await_items(std::size_t count, std::chrono::duration<Rep, Period> wait) {
    MutexLock lock(mutex_);
    const auto may_go_on = [&]() PEN_REQUIRES(mutex_) { return closed_ || hurries_ || items_.size() >= count; };
    if (may_go_on()) return;
    const Waiting waiting(Wait::work);
    some_.wait_for(lock, wait, may_go_on);
  }

  /// Ends await_items(), now and from now on.
  void hurry() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(hurries_, true)) return;
    }
    some_.notify_all();
  }

  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    some_.notify_all();
    space_.notify_all();
  }

  /// No more is taken; what was may still be there.
  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

  /// Closed and empty: nothing will ever come. A pop_for() that has waited in vain does not imply that, although the
  /// queue is closed by now: the last items may have come between the two.
  bool ended() const {
    MutexLock lock(mutex_);
    return closed_ && items_.empty();
  }

  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take() PEN_REQUIRES(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar some_;
  CondVar space_;
  std::deque<T> items_ PEN_GUARDED_BY(mutex_);
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
  bool hurries_ PEN_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
