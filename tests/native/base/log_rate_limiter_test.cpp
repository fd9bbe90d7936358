#include "base/log_rate_limiter.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::int64_t second = 1'000'000'000;

LogLimits growing() { return {.burst = 5, .interval_ns = 10 * second, .interval_ns_max = 600 * second}; }

TEST(LogRateLimiter, LogsOnlyTheBurstOfMessagesThatDifferInNumbers) {
  LogRateLimiter limiter(growing());
  unsigned count = 0;
  for (int image = 0; image < 1000; ++image)
    if (limiter.admit(message_kind(Errc::unsupported, fmt::format("image {} has an unknown codec", image)), second))
      ++count;
  EXPECT_EQ(count, 5u);
}

TEST(LogRateLimiter, ReportsTheSuppressedCountAfterGrowingIntervals) {
  LogRateLimiter limiter(growing());
  for (int image = 0; image < 105; ++image) (void)limiter.admit("no", second);
  EXPECT_EQ(limiter.admit("no", 5 * second), std::nullopt);
  EXPECT_EQ(limiter.admit("no", 12 * second), 101u);
  EXPECT_EQ(limiter.admit("no", 23 * second), std::nullopt) << "the interval doubled";
  EXPECT_EQ(limiter.admit("no", 33 * second), 1u);
}

TEST(LogRateLimiter, KeepsItsIntervalByDefault) {
  LogRateLimiter limiter;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.admit({}, second), 0u);
  EXPECT_EQ(limiter.admit({}, second), std::nullopt);
  EXPECT_EQ(limiter.admit({}, 11 * second), 1u);
  EXPECT_EQ(limiter.admit({}, 20 * second), std::nullopt);
  EXPECT_EQ(limiter.admit({}, 21 * second), 1u);
}

TEST(LogRateLimiter, KindsWithDifferentNamesInQuotesAreSeparate) {
  LogRateLimiter limiter({.burst = 1});
  const auto admit = [&](int image, const char* series) {
    return limiter.admit(message_kind(Errc::out_of_order, fmt::format("image {} belongs to \"{}\"", image, series)),
                         second);
  };
  EXPECT_EQ(admit(1, "run-1"), 0u);
  EXPECT_EQ(admit(2, "run-1"), std::nullopt);
  EXPECT_EQ(admit(1, "run-2"), 0u) << "numbers in quotes are names";
  EXPECT_EQ(admit(2, "run-2"), std::nullopt);
}

TEST(LogRateLimiter, AnEndlessNumberOfKindsIsForgotten) {
  LogRateLimiter limiter({.burst = 1});
  for (int name = 0; name < 100'000; ++name) EXPECT_EQ(limiter.admit(std::to_string(name), second), 0u);
  EXPECT_EQ(limiter.admit("0", second), 0u) << "its kind is no longer remembered";
}

TEST(LogRateLimiter, AppendsTheSuppressedCountToAMessage) {
  EXPECT_EQ(and_suppressed(0), "");
  EXPECT_EQ(and_suppressed(7), " (and 7 more like it)");
}

}  // namespace
}  // namespace penstock
