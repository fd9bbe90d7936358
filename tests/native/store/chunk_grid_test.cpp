#include "store/chunk_grid.hpp"

#include <gtest/gtest.h>

#include "store/layout.hpp"

namespace penstock::store {
namespace {

TEST(ChunkGrid, NumbersChunksRowByRowWithoutAnEndInFront) {
  const auto grid = ChunkGrid::of({1, 2, 40, 40}, {3, 100, 70});
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(grid->chunks_a_layer(), 2u * 3u * 2u);
  std::uint64_t number = 0;
  for (std::uint64_t a = 0; a < 5; ++a)
    for (std::uint64_t b = 0; b < 3; b += 2)
      for (std::uint64_t c = 0; c < 100; c += 40)
        for (std::uint64_t d = 0; d < 70; d += 40, ++number) {
          std::uint64_t at[4];
          grid->offset_of(number, at);
          EXPECT_EQ(std::vector<std::uint64_t>(at, at + 4), (std::vector<std::uint64_t>{a, b, c, d})) << number;
          EXPECT_EQ(grid->length_for(number), a + 1);
        }
}

TEST(ChunkGrid, OfWholeFramesIsTheFramesNumber) {
  ChunkedNode node;
  node.frame_shape = {100, 70};
  const auto grid = node.grid();
  ASSERT_TRUE(grid.ok());
  std::uint64_t at[3];
  grid->offset_of(1234567, at);
  EXPECT_EQ(at[0], 1234567u);
  EXPECT_EQ(at[1] + at[2], 0u);
  EXPECT_EQ(node.chunks_a_frame(), 1u);
}

TEST(ChunkGrid, OfAScanHasItsAxesInFront) {
  ChunkedNode node;
  node.frame_shape = {100, 70};
  node.scan_shape = {5, 3};
  node.chunk_shape = {1, 1, 40, 40};
  const auto grid = node.grid();
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(node.fixed_dimensions(), (std::vector<std::uint64_t>{3, 100, 70}));
  EXPECT_EQ(node.chunks_a_frame(), 6u);
  std::uint64_t at[4];
  grid->offset_of(6 * (2 * 3 + 1) + 5, at);
  EXPECT_EQ(std::vector<std::uint64_t>(at, at + 4), (std::vector<std::uint64_t>{2, 1, 80, 40}));
}

TEST(ChunkGrid, RefusesWhatHdf5DoesNotTake) {
  EXPECT_FALSE(ChunkGrid::of({1, 4}, {3}).ok()) << "larger than a dimension that stands fast";
  EXPECT_FALSE(ChunkGrid::of({1, 0}, {3}).ok());
  EXPECT_FALSE(ChunkGrid::of({0, 1}, {3}).ok());
  EXPECT_FALSE(ChunkGrid::of({1}, {3}).ok());
  EXPECT_FALSE(ChunkGrid::of({1, 1, 1}, {~std::uint64_t{0}, ~std::uint64_t{0}}).ok()) << "beyond 64 bits";
}

TEST(ChunkGrid, AChunkOfSeveralFramesIsAsLongAsTheLastOfThem) {
  const auto grid = ChunkGrid::of({8, 40, 40}, {100, 70});
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(grid->chunks_a_layer(), 6u);
  EXPECT_EQ(grid->length_for(0), 8u);
  EXPECT_EQ(grid->length_for(6, 0b1), 9u);
  EXPECT_EQ(grid->length_for(11, 0b100101), 14u);
  EXPECT_EQ(grid->length_for(11, 0b10000000), 16u);
  std::vector<std::uint64_t> first(3);
  grid->offset_of(11, first);
  EXPECT_EQ(first, (std::vector<std::uint64_t>{8, 80, 40}));
}

}  // namespace
}  // namespace penstock::store
