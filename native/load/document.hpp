/// Parts of the document that workloads share.
#pragma once

#include <sys/time.h>

#include "base/fields.hpp"
#include "base/time/histogram.hpp"

namespace penstock::load {

/// Quantiles are known to within 0.4 % of themselves.
using Times = LogHistogram<8>;

/// {count, max_ns, buckets: [[lowest_ns, highest_ns, count], …]}, both ends in the bucket.
Json to_json(const Times& times);

inline double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }
inline double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace penstock::load
