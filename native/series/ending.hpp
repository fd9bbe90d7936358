/// When a series is over. The only place that decides it. Pure: no thread, lock, clock, file or socket.
///
/// A series is over when an end was set and its patience has passed without a frame, or when every announced frame is
/// there and no other end is expected. Without an end it is over `end_timeout` after the last frame if every announced
/// frame is there.
#pragma once

#include <cstdint>
#include <optional>

#include "series/ended_by.hpp"

namespace penstock::series {

/// Nanoseconds of a monotonic clock, or a duration in nanoseconds.
using Time = std::int64_t;
constexpr Time second = 1'000'000'000;

/// What the recorder measures of an open file; the registry does not count frames itself.
struct Facts {
  Time last_activity = 0;  ///< when the series began or its last frame came
  Time asked_again = 0;    ///< when senders were last asked to send again what the storage did not take; 0: never
  bool any_frame = false;  ///< one came, in whatever form
  bool whole = false;      ///< every announced frame is there
  bool busy = false;       ///< frames are on their way to the storage or the index, and wait for no others
  bool losers = false;     ///< a sender is about to be asked to send frames again
  bool lost = false;       ///< frames that the storage did not take have not come again yet
  bool abandoned = false;  ///< no frame came, and each sender's connection is gone; false if one cannot be known to be
  bool hopeless = false;   ///< the file was removed or replaced, or the storage failed for too long
};

struct Timeouts {
  Time end = 0;    ///< behind an end, for late frames; and for the end behind the last announced frame
  Time idle = 0;   ///< for participants that have not ended
  Time after = 0;  ///< without a frame and without an end; 0: never
};

class Ending {
 public:
  /// The last of an elements' ends counts; of other series the first one keeps its time. `all`: no other end is
  /// expected.
  void set(Time now, Time patience, bool all, EndedBy why, bool has_elements);
  bool is_set() const { return set_; }
  bool have_all_ended() const { return set_ && all_; }
  /// `ranked`: another rank may have frames under way.
  bool is_over(Time now, const Facts& facts, const Timeouts& timeouts, bool has_elements, bool ranked) const;
  /// How long the series waits at most if nothing comes; nothing if neither its end nor all of its frames have come.
  std::optional<Time> left(Time now, const Facts& facts, const Timeouts& timeouts) const;
  bool is_silent(Time now, const Facts& facts, const Timeouts& timeouts) const;
  EndedBy ended_by(const Facts& facts) const;

 private:
  Time at_ = 0;
  Time patience_ = 0;
  bool set_ = false;
  bool all_ = false;
  EndedBy why_ = EndedBy::message;
};

}  // namespace penstock::series
