#include "detector/images/poisson.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace penstock::detector {
namespace {

/// Chi-square of `draws` counts against the exact distribution, and its degrees of freedom; bins with
/// less than ten expected counts are joined.
template <typename Draw>
std::pair<double, int> chi_square(double mean, int draws, Draw draw) {
  const auto last = static_cast<std::size_t>(mean + 12 * std::sqrt(mean) + 12);
  std::vector<double> seen(last + 1, 0);
  for (int n = 0; n < draws; ++n) seen[std::min<std::size_t>(draw(), last)] += 1;
  double sum = 0, expected = 0, counted = 0;
  int bins = 0;
  for (std::size_t count = 0; count <= last; ++count) {
    expected += draws * std::exp(static_cast<double>(count) * std::log(mean) - mean -
                                 std::lgamma(static_cast<double>(count) + 1));
    counted += seen[count];
    if (expected < 10 && count != last) continue;
    if (expected > 0.5) sum += (counted - expected) * (counted - expected) / expected, ++bins;
    expected = counted = 0;
  }
  return {sum, bins - 1};
}

/// Five standard deviations of the chi-square distribution above its mean.
double bound(int freedom) { return freedom + 5 * std::sqrt(2.0 * freedom); }

TEST(Poisson, WeightsAddUpToOne) {
  for (const double mean : {0.0, 1e-6, 0.01, 0.5, 1.0, 3.7, 100.0, 12345.6, 1e5, 1048576.0}) {
    const auto counts = poisson_weights(mean);
    EXPECT_EQ(std::accumulate(counts.weights.begin(), counts.weights.end(), std::uint64_t{0}), std::uint64_t{1} << 32)
        << mean;
  }
}

TEST(Poisson, WeightsHaveTheMean) {
  for (const double mean : {0.01, 0.5, 3.7, 100.0, 12345.6}) {
    const auto counts = poisson_weights(mean);
    double sum = 0;
    for (std::size_t at = 0; at < counts.weights.size(); ++at)
      sum += static_cast<double>(counts.first + at) * static_cast<double>(counts.weights[at]) / 4294967296.0;
    EXPECT_NEAR(sum, mean, mean * 1e-6);
  }
}

TEST(Poisson, TableHoldsTheWeightsExactly) {
  const auto counts = poisson_weights(3.7);
  const AliasTable table(counts, 0xFFFFFFFF);
  const auto capacity = std::uint64_t{table.rest_mask()} + 1;
  std::vector<std::uint64_t> drawn(counts.weights.size(), 0);
  for (const auto& slot : table.slots()) {
    if (slot.limit > 0) drawn.at(slot.below - counts.first) += slot.limit;
    drawn.at(slot.above - counts.first) += capacity - slot.limit;
  }
  EXPECT_EQ(drawn, counts.weights);
}

TEST(Poisson, TableDrawsFollowTheDistribution) {
  for (const double mean : {0.05, 0.3, 3.0, 40.0, 2000.0}) {
    const AliasTable table(poisson_weights(mean), 0xFFFFFFFF);
    RandomStream stream(key_of({20, static_cast<std::uint64_t>(mean * 100)}));
    const auto [sum, freedom] = chi_square(mean, 400'000, [&] { return table.draw(stream.next32()); });
    EXPECT_GT(freedom, 1) << mean;
    EXPECT_LT(sum, bound(freedom)) << mean;
  }
}

TEST(Poisson, SummedDrawsFollowTheDistribution) {
  const PoissonSampler sampler;
  for (const double mean : {0.0625, 1.0, 5.6875, 300.0}) {
    RandomStream stream(key_of({21, static_cast<std::uint64_t>(mean * 100)}));
    const auto [sum, freedom] = chi_square(mean, 200'000, [&] { return sampler.draw(mean, stream); });
    EXPECT_LT(sum, bound(freedom)) << mean;
  }
}

TEST(Poisson, CapsCounts) {
  const AliasTable table(poisson_weights(50), 40);
  RandomStream stream(1);
  for (int n = 0; n < 1000; ++n) EXPECT_LE(table.draw(stream.next32()), 40U);
}

TEST(Random, KeepsItsNumbers) {
  // For ever: files are compared against frames that are made again years later.
  RandomStream stream(key_of({1, 2, 3}));
  EXPECT_EQ(stream.next(), 0x7B05B695F6C0BDAU);
  EXPECT_EQ(random_at(0, 0), 0xE220A8397B1DCDAFU);
}

}  // namespace
}  // namespace penstock::detector
