#include "load/gaps.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "load_fixture.hpp"

namespace penstock::load {
namespace {

TEST(Gaps, AddUpWhereTheyCount) {
  Gaps gaps;
  for (const std::int64_t gap_ns : {10, 49, 50, 300, 20}) gaps.add(gap_ns * millisecond);
  EXPECT_EQ(gaps.longest_ns, 300 * millisecond);
  EXPECT_EQ(gaps.sum_ns, 350 * millisecond);
}

TEST(GapWatch, LooksOftenWhileAPhaseIsMeasured) {
  GapWatch watch;
  EXPECT_EQ(watch.end().longest_ns, 0) << "no phase";
  ASSERT_TRUE(watch.start().ok());
  watch.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const auto gaps = watch.end();
  EXPECT_GE(gaps.longest_ns, 10 * millisecond);
  EXPECT_LT(gaps.longest_ns, 500 * millisecond) << "it looked meanwhile";
  EXPECT_EQ(watch.end().longest_ns, 0) << "what is told is told once";
}

TEST(GapWatch, WhoeverEndsThePhaseSeesTheLastGapToo) {
  GapWatch nobody_looks;
  nobody_looks.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(70));
  EXPECT_GE(nobody_looks.end().sum_ns, 70 * millisecond);
}

}  // namespace
}  // namespace penstock::load
