#include <gtest/gtest.h>

#include <thread>

#include "load/backends/finite_buffer.hpp"
#include "load/time_series.hpp"

namespace penstock::load {
namespace {

TEST(FiniteBuffer, HoldsAFrameUntilItIsReleasedNotUntilItIsTaken) {
  FiniteBuffer buffer(2);
  EXPECT_EQ(buffer.admit({0, 0, 0}), 1U);
  EXPECT_EQ(buffer.admit({1, 10, 10}), 2U);
  EXPECT_EQ(buffer.admit({2, 20, 20}), 0U);
  EXPECT_EQ(buffer.take()->number, 0U);
  EXPECT_EQ(buffer.admit({3, 30, 30}), 0U) << "a frame that is being written takes room";
  buffer.release(40);
  EXPECT_EQ(buffer.admit({4, 50, 50}), 2U);
  EXPECT_EQ(buffer.take()->number, 1U);
  EXPECT_EQ(buffer.take()->number, 4U);
  EXPECT_EQ(buffer.levels(60).held_max, 2U);
}

TEST(FiniteBuffer, AStallIsTimeInWhichSomethingWaitedAndNothingWasDone) {
  FiniteBuffer buffer(10);
  buffer.admit({0, 0, 0});
  buffer.take();
  buffer.release(5);
  buffer.admit({1, 1000, 1000});  // 995 in which nothing waited are no stall
  buffer.admit({2, 1010, 1010});
  buffer.take();
  buffer.release(1100);
  EXPECT_EQ(buffer.levels(1100).stall_ns, 100);
  EXPECT_EQ(buffer.levels(1100).stall_end_ns, 1100);
  EXPECT_EQ(buffer.levels(1400).stall_ns, 300) << "frame 2 still waits";
}

TEST(FiniteBuffer, AWriterThatComesLateToTellMakesNoStallLonger) {
  FiniteBuffer buffer(10);
  for (std::uint64_t number = 0; number < 4; ++number) {
    buffer.admit({number, 0, 0});
    buffer.take();
  }
  buffer.release(100);
  buffer.release(190);
  buffer.release(120);  // done before the one that was told of first
  buffer.release(260);
  EXPECT_EQ(buffer.levels(260).stall_ns, 100);
  EXPECT_EQ(buffer.levels(260).stall_end_ns, 100);
}

TEST(FiniteBuffer, AFrameThatComesLateMakesNoStallLonger) {
  FiniteBuffer buffer(10);
  buffer.admit({0, 0, 0});
  buffer.take();
  buffer.release(150);
  buffer.admit({1, 100, 100});  // offered before the other one was done
  buffer.take();
  buffer.release(280);
  EXPECT_EQ(buffer.levels(280).stall_ns, 150);
  EXPECT_EQ(buffer.levels(280).stall_end_ns, 150);
}

TEST(FiniteBuffer, ClosingLetsWhoeverTakesGoOnceItIsEmpty) {
  FiniteBuffer buffer(4);
  buffer.admit({7, 0, 0});
  buffer.close();
  EXPECT_EQ(buffer.take()->number, 7U);
  EXPECT_FALSE(buffer.take());
}

TEST(FiniteBuffer, RoomIsToldToWhoeverWaitsForIt) {
  FiniteBuffer buffer(1);
  buffer.admit({0, 0, 0});
  EXPECT_FALSE(buffer.wait_for_room(std::chrono::milliseconds(1)));
  std::thread writer([&] {
    buffer.take();
    buffer.release(1);
  });
  EXPECT_TRUE(buffer.wait_for_room(std::chrono::minutes(1)));
  writer.join();
}

TEST(TimeSeries, TheLastIntervalTakesWhatComesAfterItsEnd) {
  TimeSeries series(100, 3);
  series.at(-5).done += 1;
  series.at(99).done += 1;
  series.at(100).done += 1;
  series.at(1'000'000).done += 1;
  TimeSeries other(100, 3);
  other.at(150).done += 5;
  other.at(150).held_max = 4;
  series.add(other);
  EXPECT_EQ(series.to_json()["done"], (Json{2, 6, 1}));
  EXPECT_EQ(series.to_json()["held_max"], (Json{0, 4, 0}));
}

TEST(TimeSeries, TimesAreCountedWhereTheyBelongInWhateverOrderTheyCome) {
  TimeSeries series(100, 4);
  for (const std::int64_t time_ns : {250, 299, 300, 199, 200, 0, 99, 5000, 350, 399, 400, 100, -1, 150, 299})
    series.at(time_ns).done += 1;
  EXPECT_EQ(series.to_json()["done"], (Json{3, 3, 4, 5}));
  const auto empty = TimeSeries(100, 4);
  auto copy = empty;
  copy.at(0).done += 1;
  EXPECT_EQ(copy.to_json()["done"], (Json{1}));
}

}  // namespace
}  // namespace penstock::load
