#include "base/time/thread_times.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include "base/mutex.hpp"
#include "base/time/clock.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

fs::path task_folder(pid_t id) { return fs::path("/proc/self/task") / std::to_string(id); }

/// Leaves the times as they are where the kernel does not tell.
void read_kernel(ThreadTimes& times) {
  std::ifstream file(task_folder(times.id) / "schedstat");
  std::int64_t running = 0, delayed = 0;
  if (!(file >> running >> delayed)) return;
  times.running_ns = running;
  times.delayed_ns = delayed;
}

std::string kernel_name(pid_t id) {
  std::ifstream file(task_folder(id) / "comm");
  std::string text;
  std::getline(file, text);
  return text;
}

void add(ThreadTimes& sum, const ThreadTimes& part) {
  sum.alive_ns += part.alive_ns;
  for (std::size_t i = 0; i < waits; ++i) sum.waited_ns[i] += part.waited_ns[i];
  sum.running_ns += part.running_ns;
  sum.delayed_ns += part.delayed_ns;
}

class Account {
 public:
  explicit Account(const char* thread_name) : id_(::gettid()), name_(thread_name), began_ns_(monotonic_ns()) {}

  bool begin(Wait wait) {
    MutexLock lock(mutex_);
    if (wait_) return false;
    wait_ = wait;
    since_ns_ = monotonic_ns();
    return true;
  }

  void end() {
    MutexLock lock(mutex_);
    waited_ns_[static_cast<std::size_t>(*wait_)] += monotonic_ns() - since_ns_;
    wait_.reset();
  }

  /// With the wait that goes on now. Without what the kernel knows.
  ThreadTimes times() const {
    MutexLock lock(mutex_);
    const auto now_ns = monotonic_ns();
    ThreadTimes times{
        .id = id_, .name = name_, .has_account = true, .alive_ns = now_ns - began_ns_, .waited_ns = waited_ns_};
    if (wait_) times.waited_ns[static_cast<std::size_t>(*wait_)] += now_ns - since_ns_;
    return times;
  }

  pid_t id() const { return id_; }

 private:
  const pid_t id_;
  const std::string name_;
  const std::int64_t began_ns_;
  mutable Mutex mutex_;
  std::optional<Wait> wait_ PEN_GUARDED_BY(mutex_);
  std::int64_t since_ns_ PEN_GUARDED_BY(mutex_) = 0;
  std::array<std::int64_t, waits> waited_ns_ PEN_GUARDED_BY(mutex_){};
};

class Accounts {
 public:
  void add(std::shared_ptr<const Account> account) {
    MutexLock lock(mutex_);
    open_.push_back(std::move(account));
  }

  /// On its own thread, of which the kernel still knows.
  void close(const std::shared_ptr<Account>& account) {
    auto last = account->times();
    read_kernel(last);
    MutexLock lock(mutex_);
    std::erase(open_, account);
    auto& sum = ended_[last.name];
    penstock::add(sum, last);
  }

  std::vector<ThreadTimes> open() const {
    MutexLock lock(mutex_);
    std::vector<ThreadTimes> all;
    for (const auto& account : open_) all.push_back(account->times());
    return all;
  }

  /// No thread is counted twice or left out while it ends.
  std::map<std::string, ThreadTimes> by_name() const {
    MutexLock lock(mutex_);
    auto sums = ended_;
    for (const auto& account : open_) {
      auto times = account->times();
      read_kernel(times);
      penstock::add(sums[times.name], times);
    }
    return sums;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const Account>> open_ PEN_GUARDED_BY(mutex_);
  std::map<std::string, ThreadTimes> ended_ PEN_GUARDED_BY(mutex_);
};

/// Outlives every thread: some end after main() has returned.
Accounts& accounts() {
  static auto* const all = new Accounts;
  return *all;
}

/// The calling thread's.
struct Own {
  std::shared_ptr<Account> account;

  ~Own() { close(); }
  void close() {
    if (account) accounts().close(account);
    account.reset();
  }
};

thread_local Own own;

}  // namespace

std::string_view name(Wait wait) {
  static constexpr std::array<std::string_view, waits> names{"work", "room", "memory", "turn"};
  return names[static_cast<std::size_t>(wait)];
}

Waiting::Waiting(Wait wait) : noted_(own.account && own.account->begin(wait)) {}

Waiting::~Waiting() {
  if (noted_) own.account->end();
}

void begin_account(const char* thread_name) {
  own.close();
  own.account = std::make_shared<Account>(thread_name);
  accounts().add(own.account);
}

std::vector<ThreadTimes> thread_times() {
  auto all = accounts().open();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/self/task", ignored)) {
    const auto id = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (std::ranges::any_of(all, [&](const ThreadTimes& known) { return known.id == id; })) continue;
    all.push_back({.id = id, .name = kernel_name(id)});
  }
  for (auto& times : all) read_kernel(times);
  return all;
}

std::vector<ThreadTimes> times_by_name() {
  std::vector<ThreadTimes> all;
  for (auto& [name, sum] : accounts().by_name()) {
    sum.name = name;
    sum.has_account = true;
    all.push_back(std::move(sum));
  }
  return all;
}

}  // namespace penstock
