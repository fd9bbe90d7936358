// Whether every frame of a series is counted once.

#include "check/accounting.hpp"

#include <gtest/gtest.h>

#include "check/structures/index_table.hpp"

namespace penstock::check {
namespace {

/// The recorder found no space for the index, and called frames lost whose segments it had written.
TEST(AccountingTest, FramesThatASegmentHasAreNotLostWhateverTheirState) {
  Tree tree;
  TreeDataset data;
  data.info.paths = {"/entry/data/data"};
  data.info.type = ElementType::u16;
  data.info.element_bytes = 2;
  data.info.shape = {6, 4, 4};
  data.info.chunk_shape = {1, 4, 4};
  data.info.storage = store::StorageKind::chunked;
  TreeDataset states;
  states.info.paths = {"/entry/penstock/frame_state"};
  states.info.shape = {6};
  std::vector<std::byte> column;
  for (const auto state : {1, 4, 4, 3, 5, 4}) column.push_back(static_cast<std::byte>(state));
  states.value = store::ArrayValue{{ElementType::u8, {6}}, column};
  tree.datasets = {data, states};
  std::string why_not;
  const auto channel = make_subject(tree.datasets.front(), {}, why_not);
  ASSERT_TRUE(channel) << why_not;
  SeriesState series;
  series.unfinished = true;
  series.recoverable = std::vector<std::uint64_t>{0, 1, 2, 4};
  Findings findings;
  const auto counts = account_for_frames(tree, {channel.get()}, series, findings);
  EXPECT_EQ(counts.frames, 6u);
  EXPECT_EQ(counts.missing, 2u);
  EXPECT_EQ(counts.lost, 1u);
  EXPECT_EQ(counts.dropped, 1u);
  EXPECT_EQ(counts.partial, 0u);
}

}  // namespace
}  // namespace penstock::check
