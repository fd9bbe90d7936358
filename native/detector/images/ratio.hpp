/// Finds the background under which frames compress by a given ratio.
#pragma once

#include "base/result.hpp"
#include "detector/simulation_spec.hpp"

namespace penstock::detector {

struct RatioFit {
  double background_mean = 0;
  double ratio = 0;  ///< that image 0 then has, raw bytes over bitshuffle-LZ4 bytes
};

/// Within 2 % of `ratio`; `invalid_argument`, with the range that can be had, where no background
/// gives that. Makes and compresses an image about ten times.
Result<RatioFit> background_for_ratio(const SimulationSpec& spec, double ratio);

}  // namespace penstock::detector
