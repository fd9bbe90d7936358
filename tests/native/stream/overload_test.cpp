/// What happens to frames for which there is no room, and to those that cannot be understood.

#include <gtest/gtest.h>

#include <cstring>

#include "receiver.hpp"
#include "samples.hpp"
#include "stream/tcp/frame.hpp"
#include "stream/zmq/sender.hpp"
#include "stream/zmq/source.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

class TcpOverload : public testing::TestWithParam<std::uint64_t> {};

/// The sink keeps what it gets, so that the pool fills up and never empties until it is told to.
TEST_P(TcpOverload, AFullPoolDropsFramesAndTellsEveryone) {
  constexpr std::uint64_t frames = 100;
  constexpr std::size_t pool_bytes = 1 << 20;
  const auto series = sample_series("full", GetParam(), 1024);
  const auto frame_bytes = GetParam() * 2048;
  ASSERT_GT(frames * frame_bytes, 2 * pool_bytes);
  Receiver receiver({}, pool_bytes, false);
  auto sender = TcpSender::open(receiver.sender_options()).value();
  ASSERT_TRUE(sender->begin(series).ok());
  for (std::uint64_t number = 0; number < frames; ++number) ASSERT_TRUE(sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(receiver.sink.wait_for_dropped(1));
  ASSERT_TRUE(sender->end().ok());
  const auto receipt = sender->finish(20s);
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();

  const auto kept = receiver.sink.frames();
  const auto dropped = receiver.sink.dropped();
  EXPECT_EQ(kept.size() + dropped.size(), frames);
  EXPECT_EQ(receipt->refused, dropped.size());
  EXPECT_LE(receiver.sink.pool().used_bytes_max(), pool_bytes);
  for (const auto& frame : kept) {
    const auto pixels = sample_pixels(value(frame.number), frame.payload.size());
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.end(), frame.payload.begin())) << value(frame.number);
  }
  EXPECT_TRUE(receiver.sink.rejected().empty());
}

// Rows of 2 KiB: frames of 32 and 62 KiB, which are received in batches, and larger ones with a buffer each.
INSTANTIATE_TEST_SUITE_P(Rows, TcpOverload, testing::Values(16, 31, 100, 200));

TEST(TcpOverload, SmallFramesAreTakenAgainOnceThereIsRoom) {
  Receiver receiver({}, 1 << 20, false);
  auto sender = TcpSender::open(receiver.sender_options()).value();
  auto series = sample_series("again", 16, 1024);
  series.frames = 1000;
  ASSERT_TRUE(sender->begin(series).ok());
  std::uint64_t number = 0;
  const auto send = [&](std::uint64_t count) {
    for (const auto end = number + count; number < end; ++number)
      ASSERT_TRUE(sender->put(sample_frame(series, number)).ok());
  };
  send(100);
  ASSERT_TRUE(sender->flush().ok());
  ASSERT_TRUE(receiver.sink.wait_for_outcomes(100));
  ASSERT_FALSE(receiver.sink.dropped().empty());
  receiver.sink.let_frames_go();
  const auto before = receiver.sink.frame_count();
  send(20);
  ASSERT_TRUE(sender->end().ok());
  ASSERT_TRUE(sender->finish(20s).ok());
  EXPECT_GT(receiver.sink.frame_count(), before);
  EXPECT_EQ(receiver.sink.frame_count() + receiver.sink.dropped().size(), number);
}

TEST(ZmqOverload, AFullPoolDropsFrames) {
  RecordingSink sink(1'000'000);
  sink.holds = false;
  ZmqSenderOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  auto sender = ZmqSender::open(options).value();
  ZmqSourceOptions source_options;
  source_options.endpoint = sender->address();
  auto source = make_zmq_source(source_options).value();
  ASSERT_TRUE(source->start(sink).ok());
  const auto series = sample_series("pool", 300, 512);
  ASSERT_TRUE(sender->begin(series).ok());
  for (std::uint64_t number = 0; number < 10; ++number) ASSERT_TRUE(sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(sender->end().ok());
  ASSERT_TRUE(sink.wait_for_ends(1));
  EXPECT_EQ(sink.frame_count(), 3u);
  EXPECT_EQ(sink.dropped(), (std::vector<std::uint64_t>{3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(sink.rejected().empty());
  EXPECT_LE(sink.pool().used_bytes_max(), 1'000'000u);
}

TEST(NameOfImage, IsFoundWhereThePixelsAreWrong) {
  const auto series = sample_series("named");
  const std::vector<std::byte> pixels(7);  // not 16 x 8 x 2
  const auto message = encode_image(sample_image(series, 42, pixels));
  ASSERT_FALSE(parse_message(message, {}).ok());
  const auto name = name_of_image(message, {});
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->series_unique_id, "named");
  EXPECT_EQ(name->image_id, 42u);
}

TEST(NameOfImage, IsNothingForOtherMessages) {
  EXPECT_FALSE(name_of_image(encode_start(sample_series("s")), {}).has_value());
  EXPECT_FALSE(name_of_image(encode_end({7, "s"}), {}).has_value());
  EXPECT_FALSE(name_of_image({}, {}).has_value());
}

TEST(NameOfImage, BearsAnyCutAndAnyFlippedByte) {
  const auto series = sample_series("named");
  const auto pixels = sample_pixels(1, 256);
  const auto whole = encode_image(sample_image(series, 42, pixels));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    (void)name_of_image(Bytes(whole).first(size), {});
    auto flipped = whole;
    flipped[size] ^= std::byte{0xff};
    (void)name_of_image(flipped, {});
  }
}

/// An image whose pixels are too few says which one it was.
TEST(Damage, IsToldToTheSink) {
  Receiver receiver;
  auto options = receiver.sender_options();
  auto sender = TcpSender::open(options).value();
  const auto series = sample_series("s");
  ASSERT_TRUE(sender->begin(series).ok());
  auto wrong = sample_frame(series, 5);
  wrong.payload = wrong.payload.first(wrong.payload.size() - 2);
  ASSERT_TRUE(sender->put(std::move(wrong)).ok());
  ASSERT_TRUE(sender->put(sample_frame(series, 6)).ok());
  ASSERT_TRUE(sender->end().ok());
  ASSERT_TRUE(sender->finish(10s).ok());
  EXPECT_EQ(receiver.sink.damaged(), std::vector<std::uint64_t>{5});
  EXPECT_EQ(receiver.sink.frame_count(), 1u);
  ASSERT_EQ(receiver.sink.rejected().size(), 1u);
  EXPECT_NE(receiver.sink.rejected()[0].second.message().find("needs 256 bytes, but 254 were sent"), std::string::npos)
      << receiver.sink.rejected()[0].second.message();
}

}  // namespace
}  // namespace penstock::stream::test
