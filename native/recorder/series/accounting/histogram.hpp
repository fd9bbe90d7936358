/// Latencies of a series: quantiles to within 3 %.
#pragma once

#include "base/time/histogram.hpp"

namespace penstock::recorder {

using Histogram = LogHistogram<5>;

}  // namespace penstock::recorder
