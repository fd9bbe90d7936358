/// What a detector's threads do while it sends: whether the sender itself is the limit, or what it sends to.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/time/thread_times.hpp"

namespace penstock::detector {

/// The sending thread calls it.
class SendingWork {
 public:
  void begin();
  /// Calls `wait` and returns its result: waits for the schedule, which is neither work nor a hindrance.
  template <typename Call>
  bool waits(Call wait) {
    const auto started = now();
    const bool result = wait();
    const auto done = now();
    paced_.wall_ns += done.wall_ns - started.wall_ns;
    paced_.processor_ns += done.processor_ns - started.processor_ns;
    return result;
  }
  void end();

  /// Seconds from begin() to end(): `seconds`; of the sending thread, `paced` (waiting for the schedule), `running`,
  /// `delayed` (waiting for a processor) and `blocked` (sending, while the receiver or the network takes nothing); and
  /// `busiest`, the largest share of that time in which one thread of this process was running or delayed.
  nlohmann::json description() const;

 private:
  struct Clocks {
    std::int64_t wall_ns = 0;
    std::int64_t processor_ns = 0;  ///< of the calling thread
  };
  static Clocks now();

  Clocks began_;
  Clocks paced_;
  std::int64_t seconds_ns_ = 0;
  pid_t sender_ = 0;
  std::vector<ThreadTimes> before_;
  std::int64_t running_ns_ = 0;
  std::int64_t delayed_ns_ = 0;
  std::int64_t busiest_ns_ = 0;
};

}  // namespace penstock::detector
