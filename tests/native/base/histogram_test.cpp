#include "base/time/histogram.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

TEST(LogHistogram, EachValueIsInTheBucketThatItIsCountedIn) {
  for (std::uint64_t value : {0ULL, 1ULL, 255ULL, 256ULL, 511ULL, 512ULL, 513ULL, 1'000'000ULL, 1ULL << 40}) {
    LogHistogram<8> histogram;
    histogram.add(static_cast<std::int64_t>(value));
    histogram.each_bucket([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
      EXPECT_LE(lowest, value);
      EXPECT_GE(highest, value);
      EXPECT_EQ(count, 1U);
      EXPECT_LE(static_cast<double>(highest - lowest), 0.004 * static_cast<double>(value)) << value;
    });
  }
}

TEST(LogHistogram, BucketsLieSideBySide) {
  LogHistogram<5> histogram;
  for (std::int64_t value = 0; value < 10'000; ++value) histogram.add(value);
  std::uint64_t next = 0;
  histogram.each_bucket([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
    EXPECT_EQ(lowest, next);
    if (highest < 10'000) {
      EXPECT_EQ(count, highest - lowest + 1);
    }
    next = highest + 1;
  });
}

TEST(LogHistogram, AddsAnother) {
  LogHistogram<8> one, other;
  one.add(5);
  other.add(5);
  other.add(1'000'000);
  one.add(other);
  EXPECT_EQ(one.count(), 3U);
  EXPECT_EQ(one.max_ns(), 1'000'000U);
  EXPECT_EQ(one.quantile_ns(0.5), 5U);
}

}  // namespace
}  // namespace penstock
