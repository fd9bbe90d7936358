#include "detector/feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "codec/codec.hpp"
#include "detector/ratio.hpp"

namespace penstock::detector {
namespace {

Simulation simulation_of(std::string_view json) { return Simulation::from_json(json).value(); }

std::vector<std::byte> expected(const Simulation& simulation, std::uint64_t number) {
  std::vector<std::byte> frame(simulation.spec().frame_bytes());
  simulation.make(number, frame);
  return frame;
}

bool equal(Bytes left, Bytes right) { return std::ranges::equal(left, right); }

/// Senders hold on to frames until they are acknowledged; a later stamp must not reach those.
TEST(Feed, FramesThatAreHeldKeepTheirPixels) {
  const auto simulation = simulation_of(R"({"rows":20,"columns":30,"type":"uint16","distinct_frames":3,"stamp":true})");
  FeedOptions options;
  options.stamp = true;
  options.held_bytes = 5000;  // four frames: fewer than are held below
  auto feed = Feed::simulated(simulation, options).value();
  std::deque<Frame> held;
  for (std::uint64_t number = 0; number < 100; ++number) {
    held.push_back(feed->frame(number));
    if (held.size() > 9) held.pop_front();
    for (const auto& frame : held) ASSERT_TRUE(equal(frame.payload, expected(simulation, value(frame.number))));
  }
}

TEST(Feed, HeldFramesOutliveIt) {
  const auto simulation = simulation_of(R"({"rows":20,"columns":30,"type":"uint16","distinct_frames":2,"stamp":true})");
  for (const bool stamp : {false, true}) {
    FeedOptions options;
    options.stamp = stamp;
    auto feed = Feed::simulated(simulation, options).value();
    const auto frame = feed->frame(1);
    feed.reset();
    EXPECT_EQ(frame.payload.size(), 1200U);
    EXPECT_TRUE(equal(frame.payload.subspan(8), Bytes(expected(simulation, 1)).subspan(8)));
  }
}

TEST(Feed, EncodesEachImageOnce) {
  const auto simulation = simulation_of(R"({"rows":200,"columns":300,"type":"int32","distinct_frames":3})");
  FeedOptions options;
  options.encoding = Encoding::bitshuffle_lz4;
  std::uint64_t told = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, 3U);
    told = done;
  };
  auto feed = Feed::simulated(simulation, options).value();
  EXPECT_EQ(told, 3U);
  CodecScratch scratch;
  for (std::uint64_t number = 0; number < 7; ++number) {
    const auto frame = feed->frame(number);
    std::vector<std::byte> pixels(200 * 300 * 4);
    ASSERT_TRUE(decode(frame.encoding, frame.payload, 4, pixels, scratch).ok());
    EXPECT_EQ(pixels, expected(simulation, number));
  }
  EXPECT_GT(feed->ratio(), 2);
}

TEST(Feed, RefusesMoreMemoryThanAllowed) {
  const auto simulation = simulation_of(R"({"rows":100,"columns":100,"type":"uint8","distinct_frames":100})");
  FeedOptions options;
  options.memory_bytes_max = 999'999;
  EXPECT_EQ(Feed::simulated(simulation, options).error().code(), Errc::too_large);
}

TEST(Feed, StopsWhilePreparing) {
  const auto simulation = simulation_of(R"({"rows":100,"columns":100,"type":"uint8","distinct_frames":1000})");
  std::atomic<bool> stop{false};
  FeedOptions options;
  options.stop = &stop;
  options.progress = [&](std::uint64_t done, std::uint64_t) {
    if (done == 10) stop = true;
  };
  EXPECT_EQ(Feed::simulated(simulation, options).error().code(), Errc::cancelled);
}

TEST(Ratio, IsReached) {
  for (const auto* json : {R"({"rows":512,"columns":1028,"type":"uint16"})",
                           R"({"rows":407,"columns":487,"type":"int32","gaps":[{"row":195,"rows":17,"columns":487}]})"})
    for (const double ratio : {4.0, 8.7, 12.0}) {
      auto spec = SimulationSpec::from_json(json).value();
      const auto fit = background_for_ratio(spec, ratio);
      ASSERT_TRUE(fit) << fit.error().message();
      spec.background_mean = fit->background_mean;
      // Other images than the one that the search looked at.
      FeedOptions options;
      options.encoding = Encoding::bitshuffle_lz4;
      EXPECT_NEAR(Feed::simulated(Simulation(spec), options).value()->ratio() / ratio, 1, 0.05) << json << ratio;
    }
}

TEST(Ratio, SaysWhatCanBeHad) {
  const auto spec = SimulationSpec::from_json(R"({"rows":64,"columns":64,"type":"uint16"})").value();
  const auto fit = background_for_ratio(spec, 100000);
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code(), Errc::invalid_argument);
  EXPECT_NE(fit.error().message().find("ratio is 100000"), std::string::npos) << fit.error().message();
}

}  // namespace
}  // namespace penstock::detector
