#include "frame/tiling.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace penstock {
namespace {

using Shape = std::vector<std::uint64_t>;

std::uint64_t product(const Shape& shape) {
  std::uint64_t elements = 1;
  for (const auto extent : shape) elements *= extent;
  return elements;
}

/// The element at `at`, or the fill value beyond the frame, one by one.
std::vector<std::uint16_t> expected_tile(const std::vector<std::uint16_t>& frame, const Shape& shape, const Shape& tile,
                                         std::uint64_t number, std::uint16_t fill) {
  Shape first(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto count = (shape[i] + tile[i] - 1) / tile[i];
    first[i] = number % count * tile[i];
    number /= count;
  }
  std::vector<std::uint16_t> elements;
  for (std::uint64_t n = 0; n < product(tile); ++n) {
    std::uint64_t rest = n, offset = 0, weight = 1;
    bool inside = true;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const auto at = first[i] + rest % tile[i];
      rest /= tile[i];
      inside = inside && at < shape[i];
      offset += at * weight;
      weight *= shape[i];
    }
    elements.push_back(inside ? frame[offset] : fill);
  }
  return elements;
}

TEST(Tiling, CutsAnyFrameIntoAnyTiles) {
  std::mt19937 random(11);
  const auto upto = [&](std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(1, most)(random); };
  for (int round = 0; round < 300; ++round) {
    const auto rank = upto(3);
    Shape shape, tile;
    for (std::uint64_t i = 0; i < rank; ++i) {
      shape.push_back(upto(9));
      tile.push_back(std::min(upto(9), shape.back()));
    }
    std::vector<std::uint16_t> frame(product(shape));
    for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::uint16_t>(i + 1);
    const auto tiling = Tiling::of({ElementType::u16, shape}, tile);
    ASSERT_TRUE(tiling.ok());
    ASSERT_EQ(tiling->tile_bytes(), 2 * product(tile));
    const std::uint16_t fill = 0xABCD;
    for (std::uint64_t number = 0; number < tiling->count(); ++number) {
      const auto expected = expected_tile(frame, shape, tile, number, fill);
      std::vector<std::uint16_t> found(expected.size());
      const auto bytes = std::as_bytes(std::span(frame));
      tiling->copy(bytes, number, std::as_bytes(std::span(&fill, 1)), std::as_writable_bytes(std::span(found)));
      EXPECT_EQ(found, expected) << "round " << round << ", tile " << number;
      if (const auto view = tiling->view(bytes, number)) {
        ASSERT_EQ(view->size(), tiling->tile_bytes());
        EXPECT_EQ(std::memcmp(view->data(), expected.data(), view->size()), 0) << "round " << round;
      }
    }
  }
}

TEST(Tiling, WholeRowsAreNotCopied) {
  const auto tiling = Tiling::of({ElementType::u8, {10, 6}}, {4, 6});
  ASSERT_TRUE(tiling.ok());
  const std::vector<std::byte> frame(60);
  EXPECT_EQ(tiling->view(frame, 1)->data(), frame.data() + 24);
  EXPECT_FALSE(tiling->view(frame, 2)) << "it reaches beyond the frame";
  EXPECT_FALSE(Tiling::of({ElementType::u8, {10, 6}}, {4, 5})->view(frame, 0));
}

TEST(Tiling, IsTheFrameWhereNothingIsAskedOrMoreThanItHas) {
  for (const auto& tile : {Shape{}, Shape{100, 100}, Shape{10, 6}}) {
    const auto tiling = Tiling::of({ElementType::u32, {10, 6}}, tile);
    ASSERT_TRUE(tiling.ok());
    EXPECT_TRUE(tiling->whole());
    EXPECT_EQ(tiling->tile_shape(), (Shape{10, 6}));
    EXPECT_EQ(tiling->view(std::vector<std::byte>(240), 0)->size(), 240u);
  }
}

TEST(Tiling, RefusesOtherDimensionsNoPixelsAndTooManyTiles) {
  EXPECT_EQ(Tiling::of({ElementType::u8, {4, 4}}, {4}).error().code(), Errc::mismatch);
  EXPECT_EQ(Tiling::of({ElementType::u8, {4, 4}}, {0, 4}).error().code(), Errc::mismatch);
  EXPECT_EQ(Tiling::of({ElementType::u8, {1024, 1024}}, {1, 1}).error().code(), Errc::too_large);
  EXPECT_EQ(Tiling::of({ElementType::u8, {1ull << 62, 4}}, {1, 1}).error().code(), Errc::too_large);
}

}  // namespace
}  // namespace penstock
