#include "base/time/pacing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

/// Time that passes only when somebody sleeps or says so; each look at it costs a little.
class FakeClock : public PaceClock {
 public:
  std::int64_t now_ns() override { return time_ns += look_ns; }
  void sleep_until_ns(std::int64_t until_ns) override {
    EXPECT_GT(until_ns, time_ns) << "a sleep into the past";
    sleeps.push_back(until_ns - time_ns);
    time_ns = until_ns + oversleep_ns;
  }

  std::int64_t time_ns = 5'000'000'000;
  std::int64_t look_ns = 100;
  std::int64_t oversleep_ns = 0;
  std::vector<std::int64_t> sleeps;
};

bool never() { return false; }

TEST(Pacer, KeepsAnAbsoluteSchedule) {
  FakeClock clock;
  Pacer pacer(1000, clock);
  pacer.start();
  for (std::uint64_t frame = 0; frame < 5000; ++frame) {
    ASSERT_TRUE(pacer.wait_for(frame, never));
    ASSERT_GE(clock.time_ns, pacer.due_ns(frame));
    ASSERT_LT(clock.time_ns, pacer.due_ns(frame) + 1000);
    clock.time_ns += 300'000;  // the frame is sent
  }
  EXPECT_EQ(pacer.due_ns(5000) - pacer.start_ns(), 5'000'000'000);
  EXPECT_EQ(pacer.stats().late, 0U);
  EXPECT_EQ(pacer.stats().frames, 5000U);
}

TEST(Pacer, CountsEachFrameThatAStallMadeLate) {
  FakeClock clock;
  Pacer pacer(100, clock);  // one frame in 10 ms
  pacer.start();
  for (std::uint64_t frame = 0; frame < 20; ++frame) {
    ASSERT_TRUE(pacer.wait_for(frame, never));
    if (frame == 4) clock.time_ns += 55'000'000;  // due at 40 ms, done at 95: frames 5 to 9 were due by then
  }
  // 5 was due at 50 ms (45 late), 6 (35), 7 (25), 8 (15) and 9 (5); 10 is on time again.
  EXPECT_EQ(pacer.stats().late, 5U);
  EXPECT_NEAR(static_cast<double>(pacer.stats().late_max_ns), 45e6, 1e4);
}

TEST(Pacer, ForgivesLessThanItsTolerance) {
  FakeClock clock;
  clock.oversleep_ns = Pacer::spin_ns + Pacer::late_after_ns - 10'000;
  Pacer pacer(100, clock);
  pacer.start();
  for (std::uint64_t frame = 0; frame < 10; ++frame) ASSERT_TRUE(pacer.wait_for(frame, never));
  EXPECT_EQ(pacer.stats().late, 0U);
  clock.oversleep_ns += 20'000;
  for (std::uint64_t frame = 10; frame < 20; ++frame) ASSERT_TRUE(pacer.wait_for(frame, never));
  EXPECT_EQ(pacer.stats().late, 10U);
}

TEST(Pacer, BeginsAtTheMomentThatItIsGiven) {
  for (const double rate_hz : {0.0, 1000.0}) {
    FakeClock clock;
    Pacer pacer(rate_hz, clock);
    const auto start_ns = clock.time_ns + 300'000'000;
    pacer.start_at(start_ns);
    ASSERT_TRUE(pacer.wait_for(0, never));
    EXPECT_GE(clock.time_ns, start_ns) << rate_hz;
    EXPECT_LT(clock.time_ns, start_ns + 1000) << rate_hz;
  }
}

TEST(Pacer, WithoutARateNothingIsLateOrWaitsForAnything) {
  FakeClock clock;
  Pacer pacer(0, clock);
  pacer.start();
  for (std::uint64_t frame = 0; frame < 10; ++frame) {
    ASSERT_TRUE(pacer.wait_for(frame, never));
    clock.time_ns += 1'000'000'000;
  }
  EXPECT_TRUE(clock.sleeps.empty());
  EXPECT_EQ(pacer.stats().late, 0U);
  EXPECT_EQ(pacer.stats().late_max_ns, 0);
}

TEST(Pacer, StopsWithinAMomentHoweverFarOffTheFrame) {
  FakeClock clock;
  Pacer pacer(0.001, clock);  // one frame in 1000 s
  pacer.start();
  ASSERT_TRUE(pacer.wait_for(0, never));
  EXPECT_FALSE(pacer.wait_for(1, [&] { return clock.sleeps.size() == 3; }));
  for (const auto sleep : clock.sleeps) EXPECT_LE(sleep, Pacer::sleep_max_ns);
  EXPECT_EQ(pacer.stats().frames, 1U);
}

TEST(Pacer, SchedulesLongSeriesWithoutDrift) {
  FakeClock clock;
  Pacer pacer(3, clock);
  pacer.start();
  EXPECT_EQ(pacer.due_ns(3'000'000'000) - pacer.start_ns(), 1'000'000'000'000'000'000);
}

}  // namespace
}  // namespace penstock
