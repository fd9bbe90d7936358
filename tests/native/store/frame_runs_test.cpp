#include "store/frame_runs.hpp"

#include <gtest/gtest.h>

#include <random>

namespace penstock::store {
namespace {

FrameRuns runs_of(const std::vector<std::uint64_t>& frames, std::size_t runs_max = 4096) {
  FrameRuns runs(runs_max);
  for (const auto frame : frames) runs.add(frame);
  return runs;
}

TEST(FrameRuns, AreAsFewAsEqualDistancesAllow) {
  using Runs = std::vector<FrameRun>;
  EXPECT_EQ(runs_of({}).list(), Runs{});
  EXPECT_EQ(runs_of({7}).list(), (Runs{{7, 1, 1}}));
  EXPECT_EQ(runs_of({0, 1, 2, 3}).list(), (Runs{{0, 1, 4}}));
  EXPECT_EQ(runs_of({1, 4, 7, 10}).list(), (Runs{{1, 3, 4}}));
  EXPECT_EQ(runs_of({0, 1, 2, 10, 11, 12}).list(), (Runs{{0, 1, 3}, {10, 1, 3}}));
  EXPECT_EQ(runs_of({0, 5, 6, 7}).list(), (Runs{{0, 5, 2}, {6, 1, 2}}));
}

TEST(FrameRuns, HaveExactlyTheFramesThatWereAdded) {
  std::mt19937 random(5);
  std::vector<std::uint64_t> frames;
  for (std::uint64_t frame = 0; frame < 1000; ++frame)
    if (random() % 3 == 0) frames.push_back(frame);
  std::vector<std::uint64_t> back;
  const auto runs = runs_of(frames);
  for (const auto& run : runs.list())
    for (std::uint64_t i = 0; i < run.count; ++i) back.push_back(run.first + i * run.stride);
  EXPECT_EQ(back, frames);
}

TEST(FrameRuns, AreBounded) {
  std::vector<std::uint64_t> frames;
  for (std::uint64_t i = 0, frame = 0; i < 100; frame += ++i) frames.push_back(frame);
  EXPECT_TRUE(runs_of(frames, 10).too_many());
  EXPECT_EQ(runs_of(frames, 10).list().size(), 11u);
  EXPECT_FALSE(runs_of(frames, 100).too_many());
}

}  // namespace
}  // namespace penstock::store
