/// A bounded queue between threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace penstock {

/// Multi-producer, multi-consumer, first in first out. `push` waits while full; `close` wakes
/// everyone: pushes are refused from then on, pops drain what is left and then return nothing.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// False if the queue was closed; then `item` was not taken.
  bool push(T&& item) {
    std::unique_lock lock(mutex_);
    space_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    lock.unlock();
    some_.notify_one();
    return true;
  }

  bool try_push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    some_.notify_one();
    return true;
  }

  /// Takes the item though the queue may be full: for those who bound themselves otherwise and must not wait.
  bool push_now(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    some_.notify_one();
    return true;
  }

  /// Nothing once closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }

  /// Nothing after `wait`, or once closed and empty; `ended()` distinguishes them.
  template <typename Rep, typename Period>
  std::optional<T> pop_for(std::chrono::duration<Rep, Period> wait) {
    std::unique_lock lock(mutex_);
    some_.wait_for(lock, wait, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    some_.notify_all();
    space_.notify_all();
  }

  /// No more is taken; what was may still be there.
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  /// Closed and empty: nothing will ever come. A pop_for() that has waited in vain does not imply that, although the
  /// queue is closed by now: the last items may have come between the two.
  bool ended() const {
    std::lock_guard lock(mutex_);
    return closed_ && items_.empty();
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    space_.notify_one();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable some_;
  std::condition_variable space_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace penstock
