/// Watches calls that may hang: those of the storage and of HDF5.
///
/// Each thread notes the calls that it is in, in a slot of its own: a few atomics, no lock, no allocation. A
/// thread of the watch checks the slots and reports a call that takes longer than the limit while it still
/// stalls; the thread that made the call reports again when it returns. How long calls took is counted as well.
///
/// All calls are safe from several threads. A watch outlives the calls that it watches.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.hpp"
#include "base/time/time_histogram.hpp"

namespace penstock {

enum class Call : std::uint8_t {
  open,
  read,
  write,
  writeback,
  sync,
  truncate,
  reserve,
  discard,
  lock,
  stat,
  close,
  // of HDF5; each may contain calls of the storage
  hdf5_create,
  hdf5_open,
  hdf5_start,
  hdf5_write_chunks,
  hdf5_write_rows,
  hdf5_flush,
  hdf5_close,
};
constexpr std::size_t calls = 18;
constexpr std::size_t first_hdf5_call = static_cast<std::size_t>(Call::hdf5_create);

std::string_view name(Call call);

/// A call that takes, or took, longer than the limit.
struct Stall {
  Call call{};
  std::string file;
  std::uint64_t offset = 0;  ///< of reads, writes, reserves; `bytes` as well
  std::uint64_t bytes = 0;
  double seconds = 0.0;  ///< so far, or altogether
  bool over = false;     ///< it has returned
  pid_t thread = 0;
};

class CallWatch;

/// What a file's user needs to have its calls watched; `watch` is null where nobody does.
struct Watching {
  CallWatch* watch = nullptr;
  std::uint64_t file = 0;
};

class CallWatch {
 public:
  using Tell = std::function<void(const Stall&)>;

  /// `tell` is called from the watch's thread and from those that made the calls, one at a time. With `limit` 0
  /// calls are timed, and nothing is reported.
  CallWatch(std::chrono::nanoseconds limit, Tell tell);
  ~CallWatch();

  /// A file whose calls are watched from now on, until it is forgotten.
  Watching remember(std::string file);
  void forget(Watching file);
  /// The file has another name from now on.
  void rename(Watching file, std::string name);

  std::chrono::nanoseconds limit() const { return std::chrono::nanoseconds(limit_ns_); }
  /// Calls that have taken longer than the limit, each once; those that still hang are among them.
  std::uint64_t stalls(Call call) const { return stalls_[index(call)].load(std::memory_order_relaxed); }
  /// Calls that have been in flight for longer than the limit now.
  std::array<std::uint64_t, calls> hanging() const;
  TimeHistogram::Values times(Call call) const { return times_[index(call)].values(); }

 private:
  friend class WatchedCall;
  struct InFlight;
  struct Slot;
  struct Slots;

  static std::size_t index(Call call) { return static_cast<std::size_t>(call); }
  static Slots& slots();
  static Slot* own_slot();

  void run();
  void look();
  void look_at(InFlight& entry, pid_t thread, std::int64_t now_ns);
  void ended(InFlight* entry, std::uint64_t serial, Call call, std::uint64_t file, std::uint64_t offset,
             std::uint64_t bytes, std::int64_t started_ns);
  void tell(Call call, std::uint64_t file, std::uint64_t offset, std::uint64_t bytes, std::int64_t ns, bool over,
            pid_t thread) PEN_REQUIRES(telling_);
  bool may_tell(std::int64_t now_ns) PEN_REQUIRES(telling_);

  const std::int64_t limit_ns_;
  const Tell tell_;
  std::array<TimeHistogram, calls> times_;
  std::array<std::atomic<std::uint64_t>, calls> stalls_{};

  Mutex telling_;
  std::int64_t window_ns_ PEN_GUARDED_BY(telling_) = 0;
  unsigned told_in_window_ PEN_GUARDED_BY(telling_) = 0;

  Mutex files_mutex_;
  std::map<std::uint64_t, std::string> files_ PEN_GUARDED_BY(files_mutex_);
  std::uint64_t next_file_ PEN_GUARDED_BY(files_mutex_) = 1;

  Mutex mutex_;
  CondVar stop_;
  bool stopping_ PEN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// A call in the scope of this object, on one thread.
class WatchedCall {
 public:
  explicit WatchedCall(Watching watching, Call call, std::uint64_t offset = 0, std::uint64_t bytes = 0);
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  const Watching watching_;
  const Call call_;
  const std::uint64_t offset_;
  const std::uint64_t bytes_;
  std::int64_t started_ns_ = 0;
  CallWatch::InFlight* entry_ = nullptr;
  std::uint64_t serial_ = 0;
};

}  // namespace penstock
