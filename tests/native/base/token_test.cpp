#include "base/net/token.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Token, IsEqualOnlyIfItIs) {
  EXPECT_TRUE(same_token("abc", "abc"));
  EXPECT_FALSE(same_token("abc", "abd"));
  EXPECT_FALSE(same_token("abc", "abcabc"));
  EXPECT_FALSE(same_token("abc", "ab"));
  EXPECT_FALSE(same_token("abc", ""));
  EXPECT_FALSE(same_token("", "abc"));
}

}  // namespace
}  // namespace penstock
