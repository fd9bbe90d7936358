#include "base/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace penstock {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return make_error(Errc::invalid_argument, "{} is odd", number);
  return number / 2;
}

Result<int> quarter(int number) {
  PEN_ASSIGN(const int once, half(number), "first half");
  PEN_ASSIGN(const int twice, half(once), "second half of {}", number);
  return twice;
}

TEST(Result, CarriesValuesThrough) { EXPECT_EQ(quarter(12).value(), 3); }

TEST(Result, EachHopAddsWhatItKnows) {
  EXPECT_EQ(quarter(7).error().message(), "first half: 7 is odd");
  EXPECT_EQ(quarter(6).error().message(), "second half of 6: 3 is odd");
  EXPECT_EQ(quarter(6).error().code(), Errc::invalid_argument);
}

TEST(Result, ErrnoBecomesACode) {
  EXPECT_EQ(errno_error(ENOSPC, "write x").code(), Errc::no_space);
  EXPECT_EQ(errno_error(EROFS, "open x").code(), Errc::permission);
  EXPECT_NE(errno_error(ENOSPC, "write x").message().find("write x"), std::string::npos);
}

}  // namespace
}  // namespace penstock
