/// When a series is over: its end, the waiting behind it, and giving up. All calls are safe from several threads; times
/// are monotonic nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"
#include "series/ended_by.hpp"

namespace penstock::recorder {

using penstock::series::EndedBy;
using penstock::series::name;

class Ending {
 public:
  /// `spec` and `account` outlive it.
  Ending(const SeriesSpec& spec, const SeriesAccount& account, unsigned ranks)
      : spec_(spec), account_(account), ranks_(ranks) {}

  /// The end message came at `now_ns`. Late frames are waited for until `patience_ns` later, in a recorder of several
  /// ranks until `patience_ns` after the last frame. Each element's end restarts the waiting, until `all` have ended.
  void set(std::int64_t now_ns, std::int64_t patience_ns, bool all, EndedBy why);
  /// Ends a series that can no longer be recorded; what the storage did not take is not waited for.
  void give_up(std::int64_t now_ns);
  /// Senders were asked to send again what the storage did not take.
  void note_asked_again(std::int64_t now_ns) { asked_again_ns_ = now_ns; }
  std::int64_t asked_again_ns() const { return asked_again_ns_; }
  bool is_given_up() const { return given_up_; }

  /// Whether it is time to close: every announced frame is there and the end came, or the waiting is over.
  bool ready_to_close(std::int64_t now_ns) const;
  /// How long it waits at most if nothing comes: for frames behind the end, or for the end behind the last frame.
  /// Nothing if neither has come.
  std::optional<std::int64_t> ends_in_ns(std::int64_t now_ns) const;
  /// No frame has come for Config::end_after_s, and no end either.
  bool is_silent(std::int64_t now_ns) const;
  EndedBy ended_by() const;

  /// Every announced frame is there.
  bool is_complete() const;
  /// Frames that are not complete, of those announced or below the highest that came.
  std::uint64_t missing() const;
  /// All frames that the storage did not take have come again.
  bool has_what_was_lost() const;

 private:
  const SeriesSpec& spec_;
  const SeriesAccount& account_;
  const unsigned ranks_;
  std::atomic<std::int64_t> ended_ns_{0};  ///< when the end message came; 0: not yet
  std::atomic<std::int64_t> patience_ns_{0};
  std::atomic<bool> all_ended_{false};
  std::atomic<EndedBy> ended_by_{EndedBy::stop};
  std::atomic<bool> given_up_{false};
  std::atomic<std::int64_t> asked_again_ns_{0};
};

}  // namespace penstock::recorder
