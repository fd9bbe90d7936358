#include "recorder/told.hpp"

#include <gtest/gtest.h>

namespace penstock::recorder {
namespace {

constexpr std::int64_t second = 1'000'000'000;

TEST(Told, OfOneKindAFewAreTold) {
  Told told;
  unsigned count = 0;
  for (int image = 0; image < 1000; ++image)
    if (told.may_tell(Errc::unsupported, fmt::format("image {} is in a codec nobody has", image), second)) ++count;
  EXPECT_EQ(count, 5u);
}

TEST(Told, LaterItIsToldHowManyThereWere) {
  Told told;
  for (int image = 0; image < 105; ++image) (void)told.may_tell(Errc::unsupported, "no", second);
  EXPECT_EQ(told.may_tell(Errc::unsupported, "no", 5 * second), std::nullopt);
  EXPECT_EQ(told.may_tell(Errc::unsupported, "no", 12 * second), 101u);
  EXPECT_EQ(told.may_tell(Errc::unsupported, "no", 23 * second), std::nullopt) << "further and further apart";
  EXPECT_EQ(told.may_tell(Errc::unsupported, "no", 33 * second), 1u);
}

TEST(Told, FramesWithoutAStartAreToldOnceASeries) {
  Told told;
  const auto say = [&](int image, const char* series) {
    return told.may_tell(Errc::out_of_order, fmt::format("image {} belongs to \"{}\"", image, series), second);
  };
  EXPECT_EQ(say(1, "run-1"), 0u);
  EXPECT_EQ(say(2, "run-1"), std::nullopt);
  EXPECT_EQ(say(1, "run-2"), 0u) << "numbers in quotes are names";
  EXPECT_EQ(say(2, "run-2"), std::nullopt);
}

TEST(Told, KindsThatNeverEndTakeNoMemory) {
  Told told;
  for (int name = 0; name < 100'000; ++name)
    EXPECT_EQ(told.may_tell(Errc::malformed, fmt::format("\"{}\"", name), second), 0u);
}

}  // namespace
}  // namespace penstock::recorder
