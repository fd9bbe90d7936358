#include <gtest/gtest.h>

#include "../support/recording_sink.hpp"
#include "samples.hpp"
#include "stream/zmq_sender.hpp"
#include "stream/zmq_source.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

struct Pair {
  explicit Pair(ZmqSourceOptions source_options = {}, std::size_t pool_bytes = std::size_t{64} << 20)
      : sink(pool_bytes) {
    ZmqSenderOptions options;
    options.endpoint = "tcp://127.0.0.1:*";
    options.wait = 10s;
    sender = ZmqSender::open(options).value();
    source_options.endpoint = sender->address();
    source = make_zmq_source(source_options).value();
    EXPECT_TRUE(source->start(sink).ok());
  }

  RecordingSink sink;
  std::unique_ptr<ZmqSender> sender;
  std::unique_ptr<Source> source;
};

TEST(Zmq, ASeriesArrives) {
  Pair pair;
  const auto series = sample_series("one", 300, 512);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  for (std::uint64_t number = 0; number < 20; ++number)
    ASSERT_TRUE(pair.sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_ends(1));
  const auto frames = pair.sink.frames();
  ASSERT_EQ(frames.size(), 20u);
  for (std::uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(value(frames[number].number), number);
    const auto pixels = sample_pixels(number, frames[number].payload.size());
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), frames[number].payload.begin()));
  }
  EXPECT_TRUE(pair.sink.rejected().empty());
}

TEST(Zmq, ARefusedSecondStartIsToldAndChangesNothing) {
  Pair pair;
  auto series = sample_series("one", 30, 51);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  auto other = series;
  other.channels = {"other"};
  ASSERT_TRUE(pair.sender->begin(other).ok());
  ASSERT_TRUE(pair.sink.wait_for_rejected(1));
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 1)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_ends(1));
  EXPECT_EQ(pair.sink.frame_count(), 2u);
  EXPECT_EQ(pair.sink.rejected().size(), 2u);
  EXPECT_EQ(pair.sink.rejected().front().second.code(), Errc::already_exists);
}

TEST(Zmq, FramesCountAgainstThePool) {
  Pair pair({}, 1'000'000);
  const auto series = sample_series("pool", 300, 512);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  for (std::uint64_t number = 0; number < 6; ++number) ASSERT_TRUE(pair.sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(pair.sink.wait_for_frames(3));
  EXPECT_GE(pair.sink.pool().used_bytes(), 3u * 300 * 1024);
  EXPECT_EQ(pair.sink.frame_count(), 3u);
  pair.sink.let_frames_go();
  ASSERT_TRUE(pair.sink.wait_for_frames(6));
  EXPECT_LE(pair.sink.pool().used_bytes_max(), 1'000'000u);
  pair.sink.let_frames_go();
}

}  // namespace
}  // namespace penstock::stream::test
