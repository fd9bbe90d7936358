#include "base/invariant.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Invariant, IsEvaluatedOnceAndPasses) {
  int calls = 0;
  PEN_INVARIANT(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(InvariantDeathTest, EndsTheProcessAndNamesTheConditionInEveryBuild) {
  const int reserved = 5;
  const int leased = 4;
  EXPECT_DEATH(PEN_INVARIANT(reserved <= leased),
               "internal error: .*invariant_test.cpp:[0-9]+: the invariant reserved <= leased is broken");
}

}  // namespace
}  // namespace penstock
