#include "detector/feed.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "../support/whole_file.hpp"
#include "codec/codec.hpp"
#include "detector/images/ratio.hpp"

namespace penstock::detector {
namespace {

Simulation simulation_of(std::string_view json) { return Simulation::from_json(json).value(); }

std::vector<std::byte> expected(const Simulation& simulation, std::uint64_t number) {
  std::vector<std::byte> frame(simulation.spec().frame_bytes());
  simulation.make(number, frame);
  return frame;
}

bool equal(Bytes left, Bytes right) {
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size()) == 0;
}

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

/// What a sender writes into a frame's headroom reaches neither its own pixels nor those of others.
void expect_headroom(Feed& feed, const std::function<std::vector<std::byte>(std::uint64_t)>& pixels) {
  std::deque<std::pair<Frame, std::byte>> held;
  std::map<std::uint64_t, std::vector<std::byte>> wanted;
  std::uint64_t with_headroom = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    auto frame = feed.frame(number);
    if (!frame.headroom.empty()) {
      ++with_headroom;
      EXPECT_GE(frame.headroom.size(), 4096U);
      EXPECT_EQ(frame.headroom.data() + frame.headroom.size(), frame.payload.data());
      std::ranges::fill(frame.headroom.last(4096), static_cast<std::byte>(number));
    }
    wanted[number] = pixels(number);
    held.emplace_back(std::move(frame), static_cast<std::byte>(number));
    if (held.size() > 10) held.pop_front();
    for (const auto& [each, mark] : held) {
      ASSERT_TRUE(equal(each.payload, wanted.at(value(each.number)))) << value(each.number);
      if (!each.headroom.empty()) {
        ASSERT_TRUE(equal(each.headroom.last(4096), std::vector(4096, mark)));
      }
    }
  }
  EXPECT_GE(with_headroom, 20U);
}

TEST(Feed, HeadroomBelongsToOneFrame) {
  for (const int images : {1, 3, 9}) {
    const auto simulation = simulation_of(
        fmt::format(R"({{"rows":301,"columns":111,"type":"int32","distinct_frames":{},"stamp":true}})", images));
    FeedOptions options;
    options.headroom = true;
    options.held_bytes = 0;
    options.stamp = true;
    expect_headroom(*Feed::simulated(simulation, options).value(),
                    [&](std::uint64_t number) { return expected(simulation, number); });
  }
}

TEST(Feed, HeadroomOfImagesInAFile) {
  constexpr std::size_t frame_bytes = 301 * 333;
  const auto path = testing::TempDir() + "feed_test_" + std::to_string(::getpid()) + ".npy";
  std::string text("\x93NUMPY\x01\x00", 8);
  const std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 301, 333), }\n";
  text += static_cast<char>(dictionary.size());
  text += '\0';
  text += dictionary;
  const auto head_bytes = text.size();
  for (std::size_t n = 0; n < 3 * frame_bytes; ++n) text += static_cast<char>(n * 7 + (n >> 9));
  std::ofstream(path, std::ios::binary) << text;
  auto images = NpyImages::open(path).value();
  FeedOptions options;
  std::uint64_t told = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t) { told = done; };
  ASSERT_TRUE(Feed::replayed(images, options).ok());
  EXPECT_EQ(told, 3u) << "whoever waits for the images to be ready is told, though nothing is to be done";
  options.headroom = true;
  auto feed = Feed::replayed(std::move(images), options).value();
  expect_headroom(*feed, [&](std::uint64_t number) {
    const auto image = as_bytes(text).subspan(head_bytes + number % 3 * frame_bytes, frame_bytes);
    return std::vector<std::byte>(image.begin(), image.end());
  });
  EXPECT_TRUE(whole_file(path) == text) << "the file itself was written";
  std::remove(path.c_str());
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
