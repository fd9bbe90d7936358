/// What the recorder reports of messages and series that it refuses, into the log and to whoever listens, and how many
/// there were. A flood fills neither. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log_rate_limiter.hpp"
#include "base/result.hpp"
#include "recorder/service/events.hpp"

namespace penstock::recorder {

class Report {
 public:
  /// `events` outlives it.
  explicit Report(Events& events) : events_(events) {}

  /// A message that is refused.
  void reject(std::string_view source, const Error& why);
  /// A connection that is turned away.
  void turn_away(std::string_view source, const Error& why);
  /// What is amiss, and nothing is refused for.
  void note(std::string_view source, const Error& what) { tell("note", source, what); }
  /// A series, or one of its elements, that has no file; once for each.
  void refused(const std::string& series_unique_id, const Error& why);

  std::uint64_t rejected() const { return rejected_; }
  std::uint64_t rejected_messages() const { return rejected_messages_; }
  std::uint64_t refusals() const { return refusals_; }

 private:
  /// Counts the lines that were logged in one second.
  class Window {
   public:
    bool admits(unsigned most);

   private:
    std::mutex mutex_;
    // guarded by mutex_
    std::int64_t begun_ns_ = 0;
    unsigned told_ = 0;
  };

  void tell(std::string_view event, std::string_view source, const Error& what);

  Events& events_;
  std::atomic<std::uint64_t> rejected_{0};  ///< messages and connections
  std::atomic<std::uint64_t> rejected_messages_{0};
  std::atomic<std::uint64_t> refusals_{0};

  static constexpr std::int64_t log_interval_ns_max = 600'000'000'000;
  LogRateLimiter limiter_{{.burst = 5, .interval_ns_max = log_interval_ns_max}};
  /// Frames without a start come for as long as the detector runs: one line for each series is enough.
  LogRateLimiter missing_starts_limiter_{{.burst = 1, .interval_ns_max = log_interval_ns_max}};
  Window messages_;
  Window refused_series_;
};

}  // namespace penstock::recorder
