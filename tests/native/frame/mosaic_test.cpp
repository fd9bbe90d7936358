#include "frame/mosaic.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

namespace penstock {
namespace {

TEST(Mosaic, TilesOfElementsAreThoseOfTheWholeFrame) {
  std::mt19937 random(17);
  const auto upto = [&](std::uint32_t most) { return std::uniform_int_distribution<std::uint32_t>(1, most)(random); };
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t tile[] = {upto(4), upto(4)};
    const ElementPlace grid{upto(4), upto(4), 0};
    const ArraySpec element{ElementType::u16, {tile[0] * upto(3), tile[1] * upto(3)}};
    const auto made = Mosaic::of(element, grid, {tile[0], tile[1]});
    ASSERT_TRUE(made.ok()) << made.error().message();
    std::vector<std::uint16_t> whole(made->frame().shape[0] * made->frame().shape[1]);
    std::iota(whole.begin(), whole.end(), std::uint16_t{0});
    const auto whole_bytes = std::as_bytes(std::span(whole));
    const auto elements = Tiling::of(made->frame(), element.shape);
    const auto tiles = Tiling::of(made->frame(), {tile[0], tile[1]});
    ASSERT_TRUE(elements.ok() && tiles.ok());
    ASSERT_EQ(tiles->count(), made->tiles_a_frame());
    std::vector<std::byte> again(whole_bytes.size());
    std::set<std::uint64_t> seen;
    for (std::uint32_t number = 0; number < grid.count(); ++number) {
      std::vector<std::byte> of_element(elements->tile_bytes());
      elements->copy(whole_bytes, number, {}, of_element);
      made->put(of_element, sizeof(std::uint16_t), number, again);
      for (std::uint64_t i = 0; i < made->tiling().count(); ++i) {
        std::vector<std::byte> of_part(tiles->tile_bytes()), of_whole(tiles->tile_bytes());
        made->tiling().copy(of_element, i, {}, of_part);
        const auto in_frame = made->tile_in_frame(number, i);
        ASSERT_LT(in_frame, tiles->count());
        tiles->copy(whole_bytes, in_frame, {}, of_whole);
        ASSERT_EQ(of_part, of_whole);
        const auto back = made->part(in_frame);
        ASSERT_EQ(std::pair(back.element, back.tile), std::pair(number, i));
        seen.insert(in_frame);
      }
    }
    ASSERT_EQ(seen.size(), tiles->count());
    ASSERT_TRUE(std::equal(again.begin(), again.end(), whole_bytes.begin()));
  }
}

TEST(Mosaic, ATileThatDoesNotDivideAnElementIsRefused) {
  const ArraySpec element{ElementType::u8, {10, 12}};
  EXPECT_EQ(Mosaic::of(element, {2, 1, 0}, {3, 12}).error().code(), Errc::mismatch);
  EXPECT_TRUE(Mosaic::of(element, {2, 1, 0}, {5, 7}).ok()) << "there is no neighbour to the right";
  EXPECT_TRUE(Mosaic::of(element, {1, 1, 0}, {3, 5}).ok());
  EXPECT_EQ(Mosaic::of({ElementType::u8, {2, 10, 12}}, {2, 1, 0}, {}).error().code(), Errc::unsupported);
}

TEST(Mosaic, AnAssembledFrameHasTheGaps) {
  ElementPlace grid{2, 3, 0};
  grid.row_gaps = {1};
  grid.column_gaps = {2, 3};
  const auto made = Mosaic::of({ElementType::u8, {2, 1}}, grid, {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->frame().shape, (std::vector<std::uint64_t>{4, 3}));
  EXPECT_EQ(made->assembled().shape, (std::vector<std::uint64_t>{5, 8}));
  std::string assembled(40, '.');
  for (std::uint32_t number = 0; number < grid.count(); ++number) {
    const std::string of_element(2, static_cast<char>('a' + number));
    made->put(std::as_bytes(std::span(of_element)), 1, number, std::as_writable_bytes(std::span(assembled)));
  }
  EXPECT_EQ(assembled, "a..b...ca..b...c........d..e...fd..e...f");
}

TEST(Mosaic, AGapThatMakesFramesBeyondAllReasonIsRefused) {
  ElementPlace grid{1, 2, 0};
  grid.column_gaps = {static_cast<std::uint32_t>(-1)};
  const ArraySpec element{ElementType::u8, {2, 8}};
  EXPECT_EQ(Mosaic::of(element, grid, {}).error().code(), Errc::too_large);
  grid.column_gaps = {gap_pixels_max};
  EXPECT_TRUE(Mosaic::of(element, grid, {}).ok());
}

}  // namespace
}  // namespace penstock
