/// Threads that may hang in the storage for as long as it likes: whoever waits for them need not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/threads.hpp"

namespace penstock::load {

/// A thread that waits for a crew looks this often: it reports progress, and ends the run if it is asked to.
constexpr std::int64_t tick_ns = 200'000'000;

/// One thread owns it. What `work` uses has to live as long as the work: a thread that hangs when the crew goes stays
/// behind.
class Crew {
 public:
  /// `name` has at most 15 characters. An error where the system gives no further thread.
  Result<void> start(const char* name, Role role, std::function<void()> work);
  /// Waits at most until `deadline_ns`, monotonic; whether all have ended.
  bool wait_until(std::int64_t deadline_ns);
  /// Detaches those that have not ended, and returns their number.
  unsigned dismiss();
  ~Crew() { dismiss(); }
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

 private:
  struct Roll {
    Mutex mutex;
    CondVar one_ended;
    std::vector<bool> ended PEN_GUARDED_BY(mutex);
  };
  bool all_ended() const PEN_REQUIRES(roll_->mutex);

  std::shared_ptr<Roll> roll_ = std::make_shared<Roll>();
  std::vector<std::thread> threads_;
};

/// Whoever ends a run gets what was measured this soon, whatever still hangs in the storage then.
constexpr std::int64_t patience_after_stop_ns = 3'000'000'000;

/// Asks storage, which may hang, in a thread of its own. An error where it takes longer than `patience_s`, or `stop` is
/// set meanwhile: then the thread stays behind, and what `ask` uses has to live as long as that. `what` says what is
/// asked for, for the error.
Result<void> ask_storage(const std::string& what, double patience_s, const std::atomic<bool>& stop,
                         std::function<Result<void>()> ask);

}  // namespace penstock::load
