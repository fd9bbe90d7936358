#include "recorder/series/ending.hpp"

#include <gtest/gtest.h>

#include <span>

namespace penstock::recorder {
namespace {

constexpr std::int64_t second = 1'000'000'000;

Series series_of(std::uint64_t frames) {
  Series series;
  series.unique_id = "s1";
  series.frames = frames;
  series.channels = {"image"};
  series.frame = {ElementType::u16, {4, 4}};
  return series;
}

Config config_of() {
  Config config;
  config.end_timeout_s = 10;
  config.end_after_s = 30;
  config.idle_timeout_s = 60;
  return config;
}

/// Time is what the test says: the series begins at 100 s.
class EndingTest : public ::testing::Test {
 protected:
  explicit EndingTest(std::uint64_t frames = 2, unsigned ranks = 1)
      : spec_(SeriesSpec::make(config_of(), ranks, series_of(frames), "s1.h5").value()),
        account_(spec_.parts(), spec_.path()),
        ending_(spec_, account_, ranks) {
    account_.counters.last_activity_ns = now_;
  }

  void receive(std::uint64_t number) {
    account_.ledger.receive(FrameNumber{number}, 0, nullptr);
    account_.counters.last_activity_ns = now_;
  }
  bool ready_after(std::int64_t seconds) const { return ending_.ready_to_close(now_ + seconds * second); }

  std::int64_t now_ = 100 * second;
  SeriesSpec spec_;
  SeriesAccount account_;
  Ending ending_;
};

TEST_F(EndingTest, IncompleteSeriesWithoutEndStaysOpen) {
  receive(0);
  EXPECT_FALSE(ready_after(1000));
  EXPECT_FALSE(ending_.ends_in_ns(now_).has_value());
  EXPECT_EQ(ending_.ended_by(), EndedBy::stop);
  EXPECT_EQ(ending_.missing(), 1u);
}

TEST_F(EndingTest, CompleteSeriesWaitsForItsEndMessage) {
  receive(0);
  receive(1);
  EXPECT_FALSE(ready_after(9));
  EXPECT_EQ(ending_.ends_in_ns(now_ + 4 * second), 6 * second);
  EXPECT_TRUE(ready_after(10));
  EXPECT_EQ(ending_.ended_by(), EndedBy::count);
}

TEST_F(EndingTest, CompleteSeriesClosesAtItsEndMessage) {
  receive(0);
  receive(1);
  ending_.set(now_, 10 * second, true, EndedBy::message);
  EXPECT_TRUE(ready_after(0));
  EXPECT_EQ(ending_.ended_by(), EndedBy::message);
}

TEST_F(EndingTest, LateFramesAreWaitedForAfterTheLastOneThatCame) {
  receive(0);
  ending_.set(now_, 10 * second, true, EndedBy::message);
  now_ += 5 * second;
  account_.counters.last_activity_ns = now_;
  EXPECT_FALSE(ready_after(9));
  EXPECT_TRUE(ready_after(10));
}

TEST_F(EndingTest, SecondEndDoesNotRestartTheWaiting) {
  receive(0);
  ending_.set(now_, 10 * second, true, EndedBy::message);
  ending_.set(now_ + 8 * second, 10 * second, true, EndedBy::message);
  EXPECT_TRUE(ready_after(10));
}

TEST_F(EndingTest, LostFramesAreWaitedForWhileTheirSendersMayRepeatThem) {
  receive(0);
  receive(1);
  const Ledger::Item item{FrameNumber{1}, 0};
  account_.ledger.lost(std::span(&item, 1));
  ending_.set(now_, 0, true, EndedBy::message);
  ending_.note_asked_again(now_ + 1);
  EXPECT_FALSE(ready_after(4));
  EXPECT_TRUE(ready_after(6));
  EXPECT_FALSE(ending_.has_what_was_lost());
  receive(1);
  EXPECT_TRUE(ending_.has_what_was_lost());
}

TEST_F(EndingTest, SeriesThatIsGivenUpClosesAtOnceForAFailure) {
  receive(0);
  ending_.give_up(now_);
  EXPECT_TRUE(ready_after(0));
  EXPECT_EQ(ending_.ended_by(), EndedBy::failure);
}

TEST_F(EndingTest, SeriesIsSilentOnlyAfterAFrameAndWithoutEnd) {
  EXPECT_FALSE(ending_.is_silent(now_ + 100 * second));
  receive(0);
  EXPECT_FALSE(ending_.is_silent(now_ + 29 * second));
  EXPECT_TRUE(ending_.is_silent(now_ + 30 * second));
  account_.in_flight.admitted();
  EXPECT_FALSE(ending_.is_silent(now_ + 30 * second));
  account_.in_flight.settled(1);
  ending_.set(now_, 0, true, EndedBy::message);
  EXPECT_FALSE(ending_.is_silent(now_ + 30 * second));
}

class TwoRanksEndingTest : public EndingTest {
 protected:
  TwoRanksEndingTest() : EndingTest(2, 2) {}
};

TEST_F(TwoRanksEndingTest, FramesOnTheirWayAreWaitedFor) {
  receive(0);
  ending_.set(now_, second, true, EndedBy::message);
  account_.in_flight.admitted();
  EXPECT_FALSE(ready_after(10));
  account_.in_flight.settled(1);
  EXPECT_TRUE(ready_after(10));
}

TEST_F(TwoRanksEndingTest, OnlyACompleteSeriesShowsThatLostFramesCame) {
  receive(0);
  EXPECT_FALSE(ending_.has_what_was_lost());
  receive(1);
  EXPECT_TRUE(ending_.has_what_was_lost());
}

}  // namespace
}  // namespace penstock::recorder
