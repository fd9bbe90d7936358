#include "load/time_series.hpp"

#include <algorithm>

namespace penstock::load {

Interval& TimeSeries::go_to(std::int64_t since_start_ns) {
  const auto number = std::max<std::int64_t>(since_start_ns, 0) / interval_ns_;
  begin_ns_ = number * interval_ns_;
  index_ = std::min(static_cast<std::uint64_t>(number), most_ - 1);
  if (index_ >= intervals_.size()) intervals_.resize(index_ + 1);
  return intervals_[index_];
}

void TimeSeries::add(const TimeSeries& other) {
  if (other.intervals_.size() > intervals_.size()) intervals_.resize(other.intervals_.size());
  for (std::size_t i = 0; i < other.intervals_.size(); ++i) {
    auto& to = intervals_[i];
    const auto& from = other.intervals_[i];
    to.due += from.due;
    to.dropped += from.dropped;
    to.done += from.done;
    to.late += from.late;
    to.bytes += from.bytes;
    to.held_max = std::max(to.held_max, from.held_max);
    to.time_max_ns = std::max(to.time_max_ns, from.time_max_ns);
  }
}

Json TimeSeries::to_json() const {
  const auto column = [this](auto member) {
    auto values = Json::array();
    for (const auto& interval : intervals_) values.push_back(interval.*member);
    return values;
  };
  return {{"interval_s", static_cast<double>(interval_ns_) * 1e-9},
          {"due", column(&Interval::due)},
          {"dropped", column(&Interval::dropped)},
          {"done", column(&Interval::done)},
          {"late", column(&Interval::late)},
          {"bytes", column(&Interval::bytes)},
          {"held_max", column(&Interval::held_max)},
          {"time_max_ns", column(&Interval::time_max_ns)}};
}

}  // namespace penstock::load
