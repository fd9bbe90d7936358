#include "recorder/series/chunks/blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace penstock::recorder {
namespace {

constexpr std::uint64_t frame_bytes = 64;

Task task_of(Blocks& blocks, std::uint64_t number, std::uint32_t channel = 0) {
  auto joined = blocks.join(FrameNumber{number}, channel);
  EXPECT_TRUE(joined.ok());
  Task task;
  task.frame.number = FrameNumber{number};
  task.frame.channel = channel;
  task.frame.received_ns = static_cast<std::int64_t>(1000 + number);
  task.slot = 100 * channel + number;
  task.block = joined->block;
  task.due = joined->due;
  return task;
}

/// As a worker does with a frame that finds memory.
Blocks::Ref put(Blocks& blocks, Task task, bool good = true) {
  const auto block = task.block;
  const auto room = blocks.room(task);
  EXPECT_TRUE(room) << "there is no memory";
  if (room) std::memset(room->data(), static_cast<int>(value(task.frame.number)), room->size());
  return blocks.copied(task, good);
}

BlocksOptions options_of(std::uint64_t frames, std::uint64_t announced = 0) {
  BlocksOptions options;
  options.frames = frames;
  options.announced = announced;
  options.frame_bytes = frame_bytes;
  return options;
}

TEST(Blocks, ABlockIsDueWithTheLastOfItsFramesInWhateverOrder) {
  Blocks blocks(options_of(4));
  EXPECT_FALSE(put(blocks, task_of(blocks, 6)));
  EXPECT_FALSE(put(blocks, task_of(blocks, 4)));
  EXPECT_FALSE(put(blocks, task_of(blocks, 7)));
  const auto block = put(blocks, task_of(blocks, 5));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->number, 1u);
  EXPECT_EQ(block->there, 0b1111u);
  EXPECT_EQ(block->received_ns, 1007);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(block->buffer->bytes()[i * frame_bytes], std::byte(4 + i));
  EXPECT_TRUE(blocks.release(*block).empty());
  EXPECT_EQ(blocks.settle(block->cookie, WriteOutcome::placed, 1), (std::vector<std::uint64_t>{6, 4, 7, 5}));
  EXPECT_EQ(blocks.join(FrameNumber{6}, 0).error().code(), Errc::out_of_order);
}

TEST(Blocks, TheLastBlockOfAnAnnouncedSeriesIsShort) {
  Blocks blocks(options_of(4, 6));
  EXPECT_FALSE(put(blocks, task_of(blocks, 4)));
  const auto block = put(blocks, task_of(blocks, 5));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->there, 0b11u);
}

TEST(Blocks, TheLowestOpenBlockMakesWayAndItsFramesAreTooLateThen) {
  Blocks blocks(options_of(4));
  EXPECT_FALSE(put(blocks, task_of(blocks, 1)));
  EXPECT_FALSE(put(blocks, task_of(blocks, 4)));
  auto third = task_of(blocks, 8);
  ASSERT_EQ(third.due.size(), 1u);
  EXPECT_EQ(third.due.front()->number, 0u);
  EXPECT_EQ(third.due.front()->there, 0b10u);
  const auto late = blocks.join(FrameNumber{2}, 0);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message().find("image 2 arrived too late"), std::string::npos);
  EXPECT_TRUE(blocks.join(FrameNumber{5}, 0).ok()) << "its block is open still";
}

TEST(Blocks, ABlockThatMakesWayWaitsForFramesOnTheirWay) {
  Blocks blocks(options_of(4));
  auto first = task_of(blocks, 0);
  EXPECT_FALSE(put(blocks, task_of(blocks, 4)));
  auto third = task_of(blocks, 8);
  EXPECT_TRUE(third.due.empty()) << "frame 0 is not in it yet";
  const auto block = put(blocks, std::move(first));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->there, 1u);
}

TEST(Blocks, AFrameWaitsForMemoryAndNothingElseDoes) {
  Blocks blocks(options_of(2));  // two may be open, and three have memory
  std::vector<Blocks::Ref> due;
  for (std::uint64_t number : {0, 1, 2, 3, 4, 5})
    if (auto block = put(blocks, task_of(blocks, number))) due.push_back(block);
  ASSERT_EQ(due.size(), 3u);
  auto parked = task_of(blocks, 6);
  EXPECT_FALSE(blocks.room(parked));
  auto another = task_of(blocks, 9);
  EXPECT_FALSE(blocks.room(another));
  auto again = blocks.release(*due[1]);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(value(again.front().frame.number), 6u) << "the block that was opened first";
  EXPECT_FALSE(put(blocks, std::move(again.front())));
  again = blocks.release(*due[0]);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(value(again.front().frame.number), 9u);
}

TEST(Blocks, ALostBlockTakesTheFramesThatItHadAndNoOthers) {
  Blocks blocks(options_of(4));
  EXPECT_FALSE(put(blocks, task_of(blocks, 0)));
  EXPECT_FALSE(put(blocks, task_of(blocks, 2)));
  auto due = blocks.close_all();
  ASSERT_EQ(due.size(), 1u);
  blocks.release(*due.front());
  EXPECT_EQ(blocks.settle(due.front()->cookie, WriteOutcome::lost, 1), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_FALSE(blocks.join(FrameNumber{1}, 0).ok());
  EXPECT_FALSE(put(blocks, task_of(blocks, 2)));
  EXPECT_FALSE(blocks.join(FrameNumber{3}, 0).ok()) << "also while it is open again";
  const auto block = put(blocks, task_of(blocks, 0));
  ASSERT_TRUE(block) << "it is full with these";
  EXPECT_EQ(block->there, 0b101u);
  blocks.release(*block);
  blocks.settle(block->cookie, WriteOutcome::placed, 1);
  EXPECT_FALSE(blocks.join(FrameNumber{0}, 0).ok());
}

TEST(Blocks, ABlockIsLostWithOneOfItsChunks) {
  auto options = options_of(2);
  options.chunks = 3;
  Blocks blocks(options);
  EXPECT_FALSE(put(blocks, task_of(blocks, 0)));
  const auto block = put(blocks, task_of(blocks, 1));
  ASSERT_TRUE(block);
  blocks.release(*block);
  blocks.settle(block->cookie, WriteOutcome::placed, 1);
  blocks.settle(block->cookie, WriteOutcome::lost, 1);
  EXPECT_FALSE(blocks.join(FrameNumber{1}, 0).ok()) << "one of its chunks is on its way";
  blocks.settle(block->cookie, WriteOutcome::placed, 1);
  EXPECT_TRUE(blocks.join(FrameNumber{1}, 0).ok());
}

TEST(Blocks, AFrameThatIsNoUseLeavesItsPlaceFree) {
  Blocks blocks(options_of(2));
  EXPECT_FALSE(put(blocks, task_of(blocks, 0), false));
  EXPECT_FALSE(put(blocks, task_of(blocks, 0)));
  const auto block = put(blocks, task_of(blocks, 1), false);
  ASSERT_TRUE(block) << "full when frame 1 came";
  EXPECT_EQ(block->there, 1u);
  EXPECT_FALSE(put(blocks, task_of(blocks, 2), false));
  const auto none = blocks.close_all();
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none.front()->there, 0u);
  blocks.release(*none.front());
  EXPECT_TRUE(blocks.join(FrameNumber{2}, 0).ok()) << "nothing was written";
}

TEST(Blocks, ChannelsHaveBlocksOfTheirOwn) {
  auto options = options_of(2);
  options.buffers = 5;
  Blocks blocks(options);
  for (std::uint32_t channel : {0u, 1u}) EXPECT_FALSE(put(blocks, task_of(blocks, 0, channel)));
  for (std::uint32_t channel : {0u, 1u}) EXPECT_FALSE(put(blocks, task_of(blocks, 2, channel)));
  auto next = task_of(blocks, 4, 1);
  ASSERT_EQ(next.due.size(), 1u);
  EXPECT_EQ(next.due.front()->channel, 1u);
  const auto block = put(blocks, task_of(blocks, 1, 0));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->channel, 0u);
  EXPECT_FALSE(blocks.close(FrameNumber{0}, 0)) << "it is not open any more";
  EXPECT_TRUE(blocks.close(FrameNumber{3}, 0));
}

TEST(Blocks, ThirtyTwoFramesFillAllBits) {
  Blocks blocks(options_of(32));
  Blocks::Ref block;
  for (std::uint64_t number = 0; number < 32; ++number) block = put(blocks, task_of(blocks, number));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->there, 0xFFFF'FFFFu);
}

}  // namespace
}  // namespace penstock::recorder
