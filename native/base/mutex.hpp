/// Mutexes that the compiler checks: clang's thread-safety analysis (`-Wthread-safety`, an error in the presets of
/// clang) rejects a use of a PEN_GUARDED_BY member without its mutex.
///
/// They behave as std::mutex, std::unique_lock and std::condition_variable. A predicate of CondVar is a function of its
/// own for the analysis: `[&]() PEN_REQUIRES(mutex_) { return closed_; }`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define PEN_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define PEN_THREAD_SAFETY(attribute)
#endif

/// A member that is read and written only while the mutex is held.
#define PEN_GUARDED_BY(mutex) PEN_THREAD_SAFETY(guarded_by(mutex))
/// A function that is called with the mutex held.
#define PEN_REQUIRES(...) PEN_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// A function that is called without the mutex, which it takes.
#define PEN_EXCLUDES(...) PEN_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define PEN_ACQUIRE(...) PEN_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define PEN_RELEASE(...) PEN_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// For what the analysis cannot follow; a comment says why it is right.
#define PEN_NOT_ANALYSED PEN_THREAD_SAFETY(no_thread_safety_analysis)

namespace penstock {

class PEN_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() PEN_ACQUIRE() { mutex_.lock(); }
  void unlock() PEN_RELEASE() { mutex_.unlock(); }
  bool try_lock() PEN_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex in its scope, and may give it up in between.
class PEN_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PEN_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() PEN_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() PEN_ACQUIRE() { lock_.lock(); }
  void unlock() PEN_RELEASE() { lock_.unlock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

/// Waits return with the lock held.
class CondVar {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  template <typename Predicate>
  void wait(MutexLock& lock, Predicate predicate) {
    condition_.wait(lock.lock_, std::move(predicate));
  }
  template <typename Rep, typename Period>
  std::cv_status wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> time) {
    return condition_.wait_for(lock.lock_, time);
  }
  /// False if the predicate is still false after `time`.
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(MutexLock& lock, std::chrono::duration<Rep, Period> time, Predicate predicate) {
    return condition_.wait_for(lock.lock_, time, std::move(predicate));
  }
  template <typename Clock, typename Duration>
  std::cv_status wait_until(MutexLock& lock, std::chrono::time_point<Clock, Duration> time) {
    return condition_.wait_until(lock.lock_, time);
  }
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(MutexLock& lock, std::chrono::time_point<Clock, Duration> time, Predicate predicate) {
    return condition_.wait_until(lock.lock_, time, std::move(predicate));
  }

 private:
  std::condition_variable condition_;
};

}  // namespace penstock
