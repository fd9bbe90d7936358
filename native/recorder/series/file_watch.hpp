/// Whether a series can still be recorded: is its file still there, does the storage take frames, and who has to send
/// some again. All calls are safe from several threads; times are monotonic nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "recorder/series/opening/shared_store.hpp"
#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"

namespace penstock::recorder {

class FileWatch {
 public:
  /// All of them outlive it.
  FileWatch(const SeriesSpec& spec, SeriesAccount& account, const SharedStore& store)
      : spec_(spec), account_(account), store_(store) {}

  /// Whether the file is still found under a name; if not, nothing that is written into it is of use, and the series is
  /// hopeless. Looks at most five times a second.
  bool is_there(std::int64_t now_ns);
  /// What is_there() found last: the file, or one with its frames, is gone from its path.
  bool is_removed() const { return removed_; }
  /// That is the file itself.
  bool is_file_removed() const { return file_removed_; }
  /// The storage took nothing since a failure.
  bool is_failing() const { return is_failing_; }

  /// The storage took frames, or did not.
  void note_placed();
  void note_lost(std::int64_t now_ns, Errc why);

  /// The series can no longer be recorded.
  bool is_hopeless() const { return hopeless_; }
  /// When sessions were last asked to send frames again; 0: never.
  std::int64_t asked_again_ns() const { return asked_again_ns_; }

  /// Asks sessions whose frames the storage did not take to send them again, a while after that.
  void ask_again(std::int64_t now_ns);
  /// Finds a series hopeless whose file was removed or replaced, or whose storage has failed again and again, other
  /// than for lack of room, for Config::idle_timeout_s.
  void give_up_if_hopeless(std::int64_t now_ns);

 private:
  /// The first failure and the last one.
  struct Failing {
    std::int64_t first_ns;
    std::int64_t last_ns;
  };
  bool look(std::int64_t now_ns, std::int64_t interval_ns);

  const SeriesSpec& spec_;
  SeriesAccount& account_;
  const SharedStore& store_;
  std::atomic<bool> hopeless_{false};
  std::atomic<std::int64_t> asked_again_ns_{0};
  std::atomic<std::int64_t> ask_again_interval_ns_{0};
  std::atomic<bool> is_failing_{false};
  std::atomic<std::int64_t> looked_ns_{0};
  std::atomic<bool> removed_{false};  ///< or replaced: nothing is acknowledged any more
  std::atomic<bool> file_removed_{false};
  std::atomic<bool> moved_{false};  ///< the file has another name, and the log has it
  std::mutex mutex_;
  // guarded by mutex_
  std::optional<Failing> failing_;  ///< since frames were placed, or found no room
};

}  // namespace penstock::recorder
