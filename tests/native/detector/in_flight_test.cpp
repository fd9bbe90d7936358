/// Frames on their way: later ones are written into the same images while a slow receiver still reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "../support/recording_sink.hpp"
#include "detector/feed.hpp"
#include "stream/tcp/tcp.hpp"
#include "stream/zmq/sender.hpp"
#include "stream/zmq/source.hpp"

namespace penstock::detector {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

constexpr std::uint64_t series_frames = 60;

Simulation simulation_of(std::uint64_t images) {
  return Simulation::from_json(
             fmt::format(R"({{"rows":400,"columns":300,"type":"int32","distinct_frames":{},"stamp":true}})", images))
      .value();
}

Series series_of(const Feed& feed) {
  Series series;
  series.id = 1;
  series.unique_id = "in flight";
  series.frames = series_frames;
  series.channels = {"threshold_1"};
  series.frame = feed.spec();
  return series;
}

/// Holds up every few frames until the sender has gone as far ahead as it gets.
struct SlowSink : RecordingSink {
  SlowSink() : RecordingSink(std::size_t{256} << 20) {
    on_put = [this](const Frame& frame) -> Result<void> {
      const auto ahead = std::min(value(frame.number) + 6, series_frames);
      for (int waits = 0; sent < ahead && waits < 20; ++waits) std::this_thread::sleep_for(1ms);
      return {};
    };
  }
  std::atomic<std::uint64_t> sent{0};
};

void send(Feed& feed, stream::FrameSender& sender, std::atomic<std::uint64_t>& sent) {
  ASSERT_TRUE(sender.begin(series_of(feed)).ok());
  for (std::uint64_t number = 0; number < series_frames; ++number) {
    ASSERT_TRUE(sender.put(feed.frame(number)).ok());
    sent = number + 1;
  }
  ASSERT_TRUE(sender.end().ok());
}

void expect_frames(const RecordingSink& sink, const Simulation& simulation) {
  const auto received = sink.frames();
  ASSERT_EQ(received.size(), series_frames);
  std::vector<std::byte> expected(simulation.spec().frame_bytes());
  for (const auto& frame : received) {
    simulation.make(value(frame.number), expected);
    ASSERT_EQ(frame.payload.size(), expected.size());
    ASSERT_EQ(std::memcmp(frame.payload.data(), expected.data(), expected.size()), 0) << value(frame.number);
  }
  EXPECT_TRUE(sink.rejected().empty());
}

class InFlight : public testing::TestWithParam<std::uint64_t> {
 protected:
  std::unique_ptr<Feed> feed(bool headroom, std::uint64_t held_bytes) {
    FeedOptions options;
    options.stamp = true;
    options.headroom = headroom;
    options.held_bytes = held_bytes;
    return Feed::simulated(simulation, options).value();
  }

  const Simulation simulation = simulation_of(GetParam());
};

TEST_P(InFlight, FramesOverZmqKeepTheirPixels) {
  SlowSink sink;
  stream::ZmqSenderOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.messages_max = 20;  // more than there are slots
  auto sender = stream::ZmqSender::open(options).value();
  stream::ZmqSourceOptions source_options;
  source_options.endpoint = sender->address();
  auto source = stream::make_zmq_source(source_options).value();
  ASSERT_TRUE(source->start(sink).ok());
  auto images = feed(true, 0);
  send(*images, *sender, sink.sent);
  images.reset();  // what is on its way outlives it
  ASSERT_TRUE(sink.wait_for_ends(1));
  expect_frames(sink, simulation);
}

TEST_P(InFlight, FramesOverTcpKeepTheirPixels) {
  for (const std::uint64_t held_bytes : {0, 4'000'000}) {
    SlowSink sink;
    stream::TcpSourceOptions source_options;
    source_options.port = 0;
    auto source = stream::make_tcp_source(source_options).value();
    ASSERT_TRUE(source->start(sink).ok());
    stream::TcpSenderOptions options;
    options.port = static_cast<std::uint16_t>(std::stoi(source->address().substr(source->address().rfind(':') + 1)));
    options.window_bytes = 8'000'000;
    auto sender = stream::TcpSender::open(options).value();
    send(*feed(false, held_bytes), *sender, sink.sent);
    ASSERT_TRUE(sender->finish(10s).value().confirmed);
    expect_frames(sink, simulation);
  }
}

// Fewer images than slots are views or copies of one image; more are slots of their own.
INSTANTIATE_TEST_SUITE_P(Images, InFlight, testing::Values(1, 3, 12));

}  // namespace
}  // namespace penstock::detector
