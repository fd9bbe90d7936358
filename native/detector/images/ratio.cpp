#include "detector/images/ratio.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/codec.hpp"
#include "detector/simulation.hpp"

namespace penstock::detector {
namespace {

constexpr double mean_least = 1e-4;
constexpr double mean_most = 1e5;
constexpr double good_enough = 0.02;
constexpr int steps_max = 40;

/// Measures one image after another; keeps its memory.
class RatioProbe {
 public:
  explicit RatioProbe(const SimulationSpec& spec) : spec_(spec), raw_(spec.frame_bytes()) {
    encoded_.resize(encoded_bound(codec_, raw_.size(), size_of(spec.type)));
  }

  Result<double> ratio_at(double background_mean) {
    spec_.background_mean = background_mean;
    Simulation(spec_).make_image(0, raw_);
    PEN_ASSIGN(const auto bytes, encode(codec_, raw_, size_of(spec_.type), encoded_, scratch_));
    return static_cast<double>(raw_.size()) / static_cast<double>(bytes);
  }

 private:
  const CodecSpec codec_{Encoding::bitshuffle_lz4, 0, 0};
  SimulationSpec spec_;
  CodecScratch scratch_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> encoded_;
};

}  // namespace

Result<RatioFit> background_for_ratio(const SimulationSpec& spec, double ratio) {
  RatioProbe probe(spec);
  // Counts that are capped compress better again; stay below that.
  double low = mean_least;
  double high = std::clamp(static_cast<double>(spec.saturation_value) / 8, 2 * low, mean_most);
  PEN_ASSIGN(const auto ratio_most, probe.ratio_at(low));
  PEN_ASSIGN(const auto ratio_least, probe.ratio_at(high));
  if (!(ratio >= ratio_least && ratio <= ratio_most))
    return make_error(Errc::invalid_argument, "ratio is {}; simulated frames of this detector support {:.2f} to {:.2f}",
                      ratio, ratio_least, ratio_most);
  RatioFit fit;
  for (int step = 0; step < steps_max; ++step) {
    fit.background_mean = std::sqrt(low * high);
    PEN_ASSIGN(fit.ratio, probe.ratio_at(fit.background_mean));
    if (std::fabs(fit.ratio - ratio) <= good_enough * ratio) break;
    (fit.ratio > ratio ? low : high) = fit.background_mean;
  }
  return fit;
}

}  // namespace penstock::detector
