#include "frame/array.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace penstock {
namespace {

TEST(ArraySpec, CountsBytes) {
  EXPECT_EQ((ArraySpec{ElementType::i32, {2527, 2463}}.bytes(1 << 30).value()), 2527u * 2463 * 4);
  EXPECT_EQ((ArraySpec{ElementType::f64, {}}.bytes(1 << 30).value()), 8u);
}

TEST(ArraySpec, RefusesHostileShapes) {
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ((ArraySpec{ElementType::u8, {huge, huge}}.bytes(huge).error().code()), Errc::too_large);
  EXPECT_EQ((ArraySpec{ElementType::u16, {std::uint64_t{1} << 63}}.bytes(huge).error().code()), Errc::too_large);
  EXPECT_EQ((ArraySpec{ElementType::u16, {0, 5}}.bytes(100).error().code()), Errc::malformed);
  EXPECT_EQ((ArraySpec{ElementType::u8, {101}}.bytes(100).error().code()), Errc::too_large);
}

TEST(ElementType, NamesGoBothWays) {
  for (int i = 0; i < 10; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_of(name(type)), type);
  }
  EXPECT_EQ(element_type_of("complex128"), std::nullopt);
}

}  // namespace
}  // namespace penstock
