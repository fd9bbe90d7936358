#include "recorder/series/completeness.hpp"

#include <gtest/gtest.h>

#include <span>

namespace penstock::recorder {
namespace {

class CompletenessTest : public ::testing::Test {
 protected:
  static Series two_frames() {
    Series series;
    series.unique_id = "s1";
    series.frames = 2;
    series.channels = {"image"};
    series.frame = {ElementType::u16, {4, 4}};
    return series;
  }
  void receive(std::uint64_t number) { account_.ledger.receive(FrameNumber{number}, 0, nullptr); }

  SeriesSpec spec_ = SeriesSpec::make({}, 1, two_frames(), "s1.h5").value();
  SeriesAccount account_{spec_.parts(), spec_.path()};
};

TEST_F(CompletenessTest, AFrameThatNeverCameIsMissing) {
  receive(0);
  EXPECT_FALSE(is_complete(spec_, account_));
  EXPECT_EQ(missing_frames(spec_, account_), 1u);
  receive(1);
  EXPECT_TRUE(is_complete(spec_, account_));
  EXPECT_EQ(missing_frames(spec_, account_), 0u);
}

TEST_F(CompletenessTest, OnlyACompleteSeriesOfSeveralRanksShowsThatLostFramesCame) {
  receive(0);
  EXPECT_TRUE(has_what_was_lost(spec_, account_, true)) << "nothing was lost";
  EXPECT_FALSE(has_what_was_lost(spec_, account_, false));
  receive(1);
  const Ledger::Item item{FrameNumber{1}, 0};
  account_.ledger.lost(std::span(&item, 1));
  EXPECT_FALSE(has_what_was_lost(spec_, account_, true));
  receive(1);
  EXPECT_TRUE(has_what_was_lost(spec_, account_, true));
  EXPECT_TRUE(has_what_was_lost(spec_, account_, false));
}

}  // namespace
}  // namespace penstock::recorder
