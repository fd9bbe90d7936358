#include "recorder/series/accounting/frame_entries.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "../support/rounds.hpp"

namespace penstock::recorder {
namespace {

TEST(FrameEntries, KeepWhatWasNotedHoweverOftenTheyArePacked) {
  FrameEntries entries(0b11);
  std::map<std::uint64_t, FrameEntry> expected;
  std::mt19937 random(20261123);
  for (int i = 0; i < penstock::testing::rounds(200'000, 6); ++i) {
    // Dense below 20 000, and a few numbers anywhere.
    const auto number = random() % 4 != 0 ? random() % 20'000 : random() % 2'000 * 997;
    auto& entry = entries.at(number);
    auto& same = expected[number];
    ASSERT_EQ(entry, same) << number;
    const bool whole = random() % 8 != 0;
    same.received = whole ? 0b11 : random() % 4;
    same.safe = whole ? 0b11 : same.received & (random() % 4);
    same.state = whole || random() % 2 != 0 ? FrameState::missing : FrameState::lost;
    entry = same;
  }
  for (const auto& [number, entry] : expected) ASSERT_EQ(entries.at(number), entry) << number;
  std::erase_if(expected, [](const auto& each) { return each.second == FrameEntry{}; });
  std::map<std::uint64_t, FrameEntry> visited;
  entries.for_each([&](std::uint64_t number, const FrameEntry& entry) {
    EXPECT_TRUE(visited.emplace(number, entry).second) << number << " came twice";
  });
  EXPECT_EQ(visited, expected);
}

TEST(FrameEntries, ALongSeriesWithoutGapsTakesNoMemory) {
  FrameEntries entries(1);
  constexpr std::uint64_t frames = penstock::testing::rounds(2'000'000, 4);  // would take 8 MB and more
  bool all_held = true;  // an assertion for each would take most of the time
  for (std::uint64_t number = 0; number < frames; ++number) {
    all_held &= entries.may_hold(number, number);
    entries.at(number) = {.received = 1, .safe = 1};
  }
  EXPECT_TRUE(all_held);
  EXPECT_LT(entries.memory_bytes(), 2u << 20);
}

/// As a rank gets it that takes part in a job of many.
TEST(FrameEntries, ASeriesOfWhichEverySixteenthFrameComesIsAlwaysTaken) {
  FrameEntries entries(1);
  std::uint64_t came = 0;
  bool all_held = true;
  for (std::uint64_t number = 0; number < 16'000'000; number += 16) {
    all_held &= entries.may_hold(number, came);
    entries.at(number) = {.received = 1, .safe = 1};
    ++came;
  }
  EXPECT_TRUE(all_held);
  EXPECT_LT(entries.memory_bytes(), FrameEntries::free_bytes);
}

TEST(FrameEntries, NumbersFarApartTakeBoundedMemory) {
  FrameEntries entries(1);
  std::uint64_t came = 0;
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    if (!entries.may_hold(i * 1'000'000, came)) continue;
    entries.at(i * 1'000'000) = {.received = 1, .safe = static_cast<std::uint32_t>(i % 2)};
    ++came;
  }
  EXPECT_LT(came, 400'000u);
  EXPECT_LT(entries.memory_bytes(), FrameEntries::free_bytes + came + (1 << 20));
  EXPECT_TRUE(entries.may_hold(1, came)) << "a neighbour of one that came has room";
}

}  // namespace
}  // namespace penstock::recorder
