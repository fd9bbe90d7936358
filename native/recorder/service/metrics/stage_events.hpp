/// The event `stages`: what the threads of each stage did, and how deep its queue was, twice a second.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "recorder/service/events.hpp"
#include "recorder/service/metrics/totals.hpp"

namespace penstock::recorder {

/// One thread calls it.
class StageEvents {
 public:
  /// `events` outlives it. `snapshot` is called at each tick.
  StageEvents(Events& events, unsigned rank, std::function<Snapshot()> snapshot)
      : events_(events), rank_(rank), snapshot_(std::move(snapshot)) {}

  /// Looks at the queues, and emits the event if the last one was half a second ago. For a reader that takes nothing at
  /// the moment it is left out: times are sums since the threads began.
  void tick(std::int64_t now_ns);

 private:
  /// What a queue held since the last event.
  struct Depth {
    double sum = 0;
    std::uint64_t peak = 0;
  };
  static constexpr std::size_t queues = 4;

  void look(const Snapshot& now);
  void emit(const Snapshot& now, std::int64_t now_ns);
  nlohmann::json threads(std::int64_t since_ns);

  Events& events_;
  const unsigned rank_;
  const std::function<Snapshot()> snapshot_;
  std::int64_t emitted_ns_ = 0;
  std::map<pid_t, std::int64_t> busy_ns_;  ///< of each thread, at the last event
  // since the last event
  std::array<Depth, queues> depths_{};
  std::uint64_t looks_ = 0;
};

}  // namespace penstock::recorder
