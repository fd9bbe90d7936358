#include "load/crew.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::load {

Result<void> Crew::start(const char* name, Role role, std::function<void()> work) {
  const auto number = threads_.size();
  {
    MutexLock lock(roll_->mutex);
    roll_->ended.push_back(false);
  }
  try {
    threads_.emplace_back([name, role, number, roll = roll_, work = std::move(work)]() mutable {
      begin_thread(name, role);
      work();
      work = nullptr;  // what it uses may go before anybody hears of the end
      MutexLock lock(roll->mutex);
      roll->ended[number] = true;
      roll->one_ended.notify_all();
    });
  } catch (const std::system_error& problem) {
    MutexLock lock(roll_->mutex);
    roll_->ended.pop_back();
    return make_error(Errc::out_of_memory,
                      "start thread {} ({}): {}; a limit on threads or memory (ulimit -u, ulimit -s, pids.max)",
                      number + 1, name, problem.code().message());
  }
  return {};
}

bool Crew::all_ended() const {
  return std::all_of(roll_->ended.begin(), roll_->ended.end(), [](bool ended) { return ended; });
}

bool Crew::wait_until(std::int64_t deadline_ns) {
  MutexLock lock(roll_->mutex);
  while (!all_ended()) {
    const auto left_ns = deadline_ns - monotonic_ns();
    if (left_ns <= 0) return false;
    roll_->one_ended.wait_for(lock, std::chrono::nanoseconds(left_ns));
  }
  return true;
}

unsigned Crew::dismiss() {
  unsigned behind = 0;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    MutexLock lock(roll_->mutex);
    const bool ended = roll_->ended[i];
    lock.unlock();
    if (ended) {
      threads_[i].join();
    } else {
      threads_[i].detach();
      ++behind;
    }
  }
  threads_.clear();
  return behind;
}

Result<void> ask_storage(const std::string& what, double patience_s, const std::atomic<bool>& stop,
                         std::function<Result<void>()> ask) {
  const auto answer = std::make_shared<Result<void>>();
  const auto deadline_ns = monotonic_ns() + static_cast<std::int64_t>(patience_s * 1e9);
  Crew crew;
  PEN_TRY(crew.start("pen-load-ask", Role::other, [answer, ask = std::move(ask)] { *answer = ask(); }));
  while (!crew.wait_until(std::min(deadline_ns, monotonic_ns() + tick_ns))) {
    if (stop) return make_error(Errc::cancelled, "{}: stopped before the storage answered", what);
    if (monotonic_ns() >= deadline_ns)
      return make_error(Errc::timed_out, "{}: the storage did not answer within {} s", what, patience_s);
  }
  return *answer;
}

}  // namespace penstock::load
