#include "base/files/call_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/threads.hpp"
#include "base/time/clock.hpp"

namespace penstock {
namespace {

/// Threads that are in watched calls at once; calls of more are timed, but not seen while they hang.
constexpr std::size_t slots_max = 1024;
/// A call of HDF5 contains one of the storage.
constexpr unsigned depth_max = 3;
/// Of calls that were not seen hanging, so that a storage that is always slow does not fill the log.
constexpr unsigned told_a_second = 10;

constexpr std::array<std::string_view, calls> names = {"open",
                                                       "read",
                                                       "write",
                                                       "writeback",
                                                       "sync",
                                                       "truncate",
                                                       "reserve",
                                                       "discard",
                                                       "lock",
                                                       "stat",
                                                       "close",
                                                       "hdf5_create",
                                                       "hdf5_open",
                                                       "hdf5_start",
                                                       "hdf5_write_chunks",
                                                       "hdf5_write_rows",
                                                       "hdf5_flush",
                                                       "hdf5_close"};

}  // namespace

std::string_view name(Call call) { return names[static_cast<std::size_t>(call)]; }

/// A call, while `serial` is odd. Its thread writes all but the last two; whoever reads looks at `serial` before
/// and after. Every store releases: who sees a value of the next call sees that this one has ended.
struct CallWatch::InFlight {
  std::atomic<std::uint64_t> serial{0};
  std::atomic<const CallWatch*> watch{nullptr};
  std::atomic<Call> call{};
  std::atomic<std::uint64_t> file{0};
  std::atomic<std::uint64_t> offset{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::int64_t> started_ns{0};
  // under the watch's telling_
  std::uint64_t told_serial = 0;
  std::int64_t told_next_ns = 0;
};

struct alignas(64) CallWatch::Slot {
  std::atomic<bool> taken{false};
  std::atomic<pid_t> thread{0};
  unsigned depth = 0;  ///< its thread's own
  std::array<InFlight, depth_max> calls;
};

/// Of the whole process, as threads are.
struct CallWatch::Slots {
  std::array<Slot, slots_max> all;
  std::atomic<std::size_t> used{0};  ///< one past the highest that was ever taken

  Slot* take() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool free = false;
      if (!all[i].taken.compare_exchange_strong(free, true)) continue;
      all[i].thread = ::gettid();
      auto seen = used.load();
      while (seen <= i && !used.compare_exchange_weak(seen, i + 1)) {
      }
      return &all[i];
    }
    return nullptr;
  }
};

CallWatch::Slots& CallWatch::slots() {
  static auto* const all = new Slots;  // for threads that end after main
  return *all;
}

CallWatch::Slot* CallWatch::own_slot() {
  struct Own {
    Slot* const slot = slots().take();
    ~Own() {
      if (slot != nullptr) slot->taken = false;
    }
  };
  thread_local const Own own;
  return own.slot;
}

CallWatch::CallWatch(std::chrono::nanoseconds limit, Tell tell) : limit_ns_(limit.count()), tell_(std::move(tell)) {
  if (limit_ns_ > 0)
    thread_ = std::thread([this] {
      begin_thread("pen-watch", Role::other);
      run();
    });
}

CallWatch::~CallWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Watching CallWatch::remember(std::string file) {
  MutexLock lock(files_mutex_);
  files_.emplace(next_file_, std::move(file));
  return {this, next_file_++};
}

void CallWatch::forget(Watching file) {
  MutexLock lock(files_mutex_);
  files_.erase(file.file);
}

void CallWatch::rename(Watching file, std::string name) {
  MutexLock lock(files_mutex_);
  files_[file.file] = std::move(name);
}

void CallWatch::run() {
  const auto step =
      std::clamp<std::chrono::nanoseconds>(limit() / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(250));
  MutexLock lock(mutex_);
  while (!stop_.wait_for(lock, step, [&]() PEN_REQUIRES(mutex_) { return stopping_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void CallWatch::look() {
  auto& all = slots();
  const auto used = all.used.load();
  const auto now = monotonic_ns();
  for (std::size_t i = 0; i < used; ++i)
    for (auto& entry : all.all[i].calls) look_at(entry, all.all[i].thread, now);
}

void CallWatch::look_at(InFlight& entry, pid_t thread, std::int64_t now_ns) {
  const auto serial = entry.serial.load();
  if (serial % 2 == 0 || entry.watch.load() != this) return;
  const auto call = entry.call.load();
  const auto file = entry.file.load();
  const auto offset = entry.offset.load();
  const auto bytes = entry.bytes.load();
  const auto taken_ns = now_ns - entry.started_ns.load();
  if (entry.serial.load() != serial || taken_ns < limit_ns_) return;
  MutexLock lock(telling_);
  if (entry.serial.load() != serial) return;
  const bool first = entry.told_serial != serial;
  if (!first && now_ns < entry.told_next_ns) return;
  if (first) stalls_[index(call)].fetch_add(1);
  entry.told_serial = serial;
  entry.told_next_ns = now_ns + taken_ns;  // after twice the time, and so on
  tell(call, file, offset, bytes, taken_ns, false, thread);
}

void CallWatch::ended(InFlight* entry, std::uint64_t serial, Call call, std::uint64_t file, std::uint64_t offset,
                      std::uint64_t bytes, std::int64_t started_ns) {
  const auto now = monotonic_ns();
  const auto taken_ns = now - started_ns;
  times_[index(call)].add(taken_ns);
  if (limit_ns_ <= 0 || taken_ns < limit_ns_) return;
  MutexLock lock(telling_);
  const bool seen = entry != nullptr && entry->told_serial == serial;
  if (!seen) stalls_[index(call)].fetch_add(1);
  if (seen || may_tell(now)) tell(call, file, offset, bytes, taken_ns, true, ::gettid());
}

bool CallWatch::may_tell(std::int64_t now_ns) {
  if (now_ns - window_ns_ > 1'000'000'000) {
    window_ns_ = now_ns;
    told_in_window_ = 0;
  }
  return ++told_in_window_ <= told_a_second;
}

void CallWatch::tell(Call call, std::uint64_t file, std::uint64_t offset, std::uint64_t bytes, std::int64_t ns,
                     bool over, pid_t thread) {
  Stall stall{call, {}, offset, bytes, static_cast<double>(ns) * 1e-9, over, thread};
  {
    MutexLock lock(files_mutex_);
    if (const auto found = files_.find(file); found != files_.end()) stall.file = found->second;
  }
  if (tell_) tell_(stall);
}

std::array<std::uint64_t, calls> CallWatch::hanging() const {
  std::array<std::uint64_t, calls> found{};
  if (limit_ns_ <= 0) return found;
  auto& all = slots();
  const auto used = all.used.load();
  const auto now = monotonic_ns();
  for (std::size_t i = 0; i < used; ++i)
    for (const auto& entry : all.all[i].calls) {
      const auto serial = entry.serial.load();
      if (serial % 2 == 0 || entry.watch.load() != this) continue;
      const auto call = entry.call.load();
      const auto taken_ns = now - entry.started_ns.load();
      if (entry.serial.load() == serial && taken_ns >= limit_ns_) ++found[index(call)];
    }
  return found;
}

WatchedCall::WatchedCall(Watching watching, Call call, std::uint64_t offset, std::uint64_t bytes)
    : watching_(watching), call_(call), offset_(offset), bytes_(bytes) {
  if (watching_.watch == nullptr) return;
  started_ns_ = monotonic_ns();
  auto* slot = CallWatch::own_slot();
  if (slot == nullptr) return;
  if (slot->depth++ >= depth_max) return;
  entry_ = &slot->calls[slot->depth - 1];
  constexpr auto release = std::memory_order_release;
  entry_->watch.store(watching.watch, release);
  entry_->call.store(call, release);
  entry_->file.store(watching.file, release);
  entry_->offset.store(offset, release);
  entry_->bytes.store(bytes, release);
  entry_->started_ns.store(started_ns_, release);
  serial_ = entry_->serial.load(std::memory_order_relaxed) + 1;
  entry_->serial.store(serial_, release);
}

WatchedCall::~WatchedCall() {
  if (watching_.watch == nullptr) return;
  if (auto* slot = CallWatch::own_slot()) --slot->depth;
  if (entry_ != nullptr) entry_->serial.store(serial_ + 1, std::memory_order_release);
  watching_.watch->ended(entry_, serial_, call_, watching_.file, offset_, bytes_, started_ns_);
}

}  // namespace penstock
