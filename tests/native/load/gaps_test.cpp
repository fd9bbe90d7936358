#include "load/gaps.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/time/clock.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

TEST(Gaps, AddUpWhereTheyCount) {
  Gaps gaps;
  for (const std::int64_t gap_ns : {10, 49, 50, 300, 20}) gaps.add(0, gap_ns * millisecond);
  EXPECT_EQ(gaps.longest_ns, 300 * millisecond);
  EXPECT_EQ(gaps.sum_ns, 350 * millisecond);
}

TEST(GapWatch, LooksOftenWhileAPhaseIsMeasured) {
  GapWatch watch;
  EXPECT_EQ(watch.end().longest_ns, 0) << "no phase";
  ASSERT_TRUE(watch.start().ok());
  // Without a look in between, the gap is the whole phase. A busy machine may delay the looks of one phase.
  bool looked = false;
  const auto give_up_ns = monotonic_ns() + 60'000 * millisecond;
  while (!looked && monotonic_ns() < give_up_ns) {
    watch.begin();
    const auto begun_ns = monotonic_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto ended_ns = monotonic_ns();
    const auto gaps = watch.end();
    EXPECT_GE(gaps.longest_ns, millisecond);
    looked = gaps.longest_ns < ended_ns - begun_ns;
    EXPECT_EQ(watch.end().longest_ns, 0) << "a gap is reported once";
  }
  EXPECT_TRUE(looked);
}

TEST(GapWatch, WhoeverEndsThePhaseSeesTheLastGapToo) {
  GapWatch nobody_looks;
  nobody_looks.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(70));
  EXPECT_GE(nobody_looks.end().sum_ns, 70 * millisecond);
}

}  // namespace
}  // namespace penstock::load
