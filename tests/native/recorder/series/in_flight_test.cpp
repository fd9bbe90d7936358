#include "recorder/series/in_flight.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "recorder/series/failures.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

TEST(InFlight, ClosingRefusesTasksAndWaitsForThoseThatBegan) {
  InFlight in_flight;
  ASSERT_TRUE(in_flight.begin_task());
  int meanwhile = 0;
  in_flight.close(1ms, [&] {
    EXPECT_FALSE(in_flight.begin_task());
    if (++meanwhile == 2) in_flight.end_task();
  });
  EXPECT_EQ(meanwhile, 2);
  EXPECT_FALSE(in_flight.begin_task());
}

TEST(InFlight, BlockOfAdmittedFramesMayBeWrittenWhileTheSeriesCloses) {
  InFlight in_flight;
  in_flight.close(1ms, [] {});
  in_flight.add_task();
  EXPECT_TRUE(in_flight.busy(0));
  in_flight.end_task();
  EXPECT_FALSE(in_flight.busy(0));
}

TEST(InFlight, AdmittedFramesAreUnsettledUntilTheLastOneIsSettled) {
  InFlight in_flight;
  for (int i = 0; i < 3; ++i) in_flight.admitted();
  EXPECT_EQ(in_flight.unsettled(), 3u);
  std::jthread settles([&] {
    in_flight.settled(2);
    in_flight.settled(1);
  });
  in_flight.wait_until_settled();
  EXPECT_EQ(in_flight.unsettled(), 0u);
}

TEST(Failures, FullStorageIsNoLastingProblemAndAnyOtherFailureIs) {
  Failures failures("s1.h5");
  failures.fail(make_error(Errc::no_space, "full"));
  failures.fail(make_error(Errc::no_space, "full again"));
  EXPECT_EQ(failures.first(), "full");
  EXPECT_EQ(failures.last().message(), "full again");
  EXPECT_FALSE(failures.is_spoiled());
  failures.fail(make_error(Errc::io, "broken"));
  failures.spoil(make_error(Errc::io, "broken again"));
  EXPECT_EQ(failures.first(), "broken");
  EXPECT_TRUE(failures.is_spoiled());
}

}  // namespace
}  // namespace penstock::recorder
