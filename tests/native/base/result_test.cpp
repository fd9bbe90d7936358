#include "base/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <variant>

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

/// Counts those that live.
struct Counted {
  explicit Counted(int& count) : living(&count) { ++*living; }
  Counted(const Counted& other) : living(other.living) { ++*living; }
  ~Counted() { --*living; }
  int* living;
};

TEST(Result, ConstructsAndDestroysOneOfBoth) {
  int living = 0;
  {
    Result<Counted> value(Counted{living});
    EXPECT_EQ(living, 1);
    auto copy = value;
    EXPECT_EQ(living, 2);
    copy = make_error(Errc::io, "gone");
    EXPECT_EQ(living, 1);
    EXPECT_EQ(copy.error().message(), "gone");
    copy = std::move(value);
    EXPECT_EQ(living, 2) << "what was moved from still lives";
    EXPECT_TRUE(copy.ok());
    auto& same = copy;
    copy = same;
    EXPECT_EQ(living, 2);
  }
  EXPECT_EQ(living, 0);
}

TEST(Result, ReturnsAndMovesWhatCannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  auto moved = std::move(result);
  EXPECT_EQ(**moved, 7);
  const auto taken = std::move(moved).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, ThrowsIfTheOtherAlternativeIsAskedFor) {
  EXPECT_THROW((void)half(3).value(), std::bad_variant_access);
  EXPECT_THROW((void)half(4).error(), std::bad_variant_access);
  EXPECT_THROW((void)Result<void>().error(), std::bad_variant_access);
}

}  // namespace
}  // namespace penstock
