/// The schedules are worth something: each of many defects, put into a copy of the registry, is found by them.
#include "defects.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "world.hpp"

namespace penstock::series::testing {
namespace {

constexpr std::uint64_t schedules_max = 40'000;

TEST(Defects, AreAllFoundBySchedules) {
  ASSERT_GE(defects.size(), 20u);
  for (defect = 1; defect <= defects.size(); ++defect) {
    std::uint64_t seed = 1;
    std::string violation;
    while (violation.empty() && seed <= schedules_max) violation = World(seed++).run().violation;
    EXPECT_NE(violation, "") << "defect " << defect << " is not found: " << defects[defect - 1];
    std::printf("%2u after %5llu schedules: %s\n", defect, static_cast<unsigned long long>(seed - 1),
                violation.c_str());
  }
  defect = 0;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) ASSERT_EQ(World(seed).run().violation, "") << seed;
}

}  // namespace
}  // namespace penstock::series::testing
