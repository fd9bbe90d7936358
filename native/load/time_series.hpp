/// What happened in equal intervals of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fields.hpp"

namespace penstock::load {

struct Interval {
  std::uint64_t due = 0;
  std::uint64_t dropped = 0;
  std::uint64_t done = 0;
  std::uint64_t late = 0;
  std::uint64_t bytes = 0;       ///< that were done
  std::uint64_t held_max = 0;    ///< frames in the buffer
  std::int64_t time_max_ns = 0;  ///< of what was done, from when it was due
};

/// One thread uses it at a time.
class TimeSeries {
 public:
  /// At most `intervals` of them; the last one takes what happens after its end too.
  TimeSeries(std::int64_t interval_ns, std::uint64_t intervals) : interval_ns_(interval_ns), most_(intervals) {}

  /// The one that holds a time since the start.
  Interval& at(std::int64_t since_start_ns) {
    // Most often the same as before: looking costs less than a division.
    const bool same = since_start_ns >= begin_ns_ && since_start_ns - begin_ns_ < interval_ns_;
    return same && index_ < intervals_.size() ? intervals_[index_] : go_to(since_start_ns);
  }
  void add(const TimeSeries& other);
  /// A column each.
  Json to_json() const;

 private:
  Interval& go_to(std::int64_t since_start_ns);

  std::int64_t interval_ns_;
  std::uint64_t most_;
  std::vector<Interval> intervals_;
  // Of the time that was asked for last: when its interval begins, and where that is counted.
  std::int64_t begin_ns_ = 0;
  std::size_t index_ = 0;
};

}  // namespace penstock::load
