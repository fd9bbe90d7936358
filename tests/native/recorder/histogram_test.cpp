#include "recorder/series/accounting/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace penstock::recorder {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile_ns(0.5), 0u);
  EXPECT_EQ(histogram.max_ns(), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int i = 1; i <= 10; ++i) histogram.add(i);
  EXPECT_EQ(histogram.quantile_ns(0.5), 5u);
  EXPECT_EQ(histogram.quantile_ns(1.0), 10u);
  EXPECT_EQ(histogram.quantile_ns(0.0), 1u);
}

TEST(Histogram, QuantilesStayWithinThreePercentOfTheSortedValues) {
  std::mt19937_64 random(3);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 50000; ++i) {
    const auto value = static_cast<std::int64_t>(random() >> (random() % 63 + 1));
    values.push_back(value);
    histogram.add(value);
  }
  std::sort(values.begin(), values.end());
  for (double q : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * 50000)) - 1;
    const auto exact = static_cast<double>(values[rank]);
    EXPECT_NEAR(static_cast<double>(histogram.quantile_ns(q)), exact, 0.032 * exact + 1) << q;
  }
  EXPECT_EQ(histogram.max_ns(), static_cast<std::uint64_t>(values.back()));
}

TEST(Histogram, TakesTheExtremes) {
  Histogram histogram;
  histogram.add(-5);
  histogram.add(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.quantile_ns(0.5), 0u);
  EXPECT_EQ(histogram.quantile_ns(1), static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

}  // namespace
}  // namespace penstock::recorder
