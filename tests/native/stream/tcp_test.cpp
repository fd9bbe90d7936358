#include "stream/tcp.hpp"

#include <gtest/gtest.h>

#include "../support/recording_sink.hpp"
#include "samples.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

/// A source on a free port of the loopback, and what it needs.
struct Receiver {
  explicit Receiver(TcpSourceOptions options = {}, std::size_t pool_bytes = std::size_t{64} << 20) : sink(pool_bytes) {
    options.port = 0;
    source = make_tcp_source(options).value();
    const auto started = source->start(sink);
    EXPECT_TRUE(started.ok());
    const auto address = source->address();
    port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  TcpSenderOptions sender_options() const {
    TcpSenderOptions options;
    options.port = port;
    options.connect_timeout = 5s;
    return options;
  }

  RecordingSink sink;
  std::unique_ptr<Source> source;
  std::uint16_t port = 0;
};

void send_series(TcpSender& sender, const Series& series, std::uint64_t frames) {
  ASSERT_TRUE(sender.begin(series).ok());
  for (std::uint64_t number = 0; number < frames; ++number) {
    auto put = sender.put(sample_frame(series, number));
    ASSERT_TRUE(put.ok()) << put.error().message();
  }
  ASSERT_TRUE(sender.end().ok());
}

void expect_frames(const RecordingSink& sink, const Series& series, std::uint64_t frames) {
  const auto received = sink.frames();
  ASSERT_EQ(received.size(), frames);
  for (std::uint64_t number = 0; number < frames; ++number) {
    const auto& frame = received[number];
    EXPECT_EQ(value(frame.number), number);
    EXPECT_EQ(frame.series_unique_id, series.unique_id);
    EXPECT_EQ(frame.spec, series.frame);
    const auto pixels = sample_pixels(number, frame.payload.size());
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.end(), frame.payload.begin(), frame.payload.end())) << number;
  }
}

class TcpFrameSizes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TcpFrameSizes, ArriveInOrderAndAreAcknowledged) {
  Receiver receiver;
  auto sender = TcpSender::open(receiver.sender_options()).value();
  const auto series = sample_series("sizes", GetParam(), 512);
  send_series(*sender, series, 50);
  const auto receipt = sender->finish(10s);
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();
  EXPECT_TRUE(receipt->confirmed);
  EXPECT_EQ(receipt->problem, "");
  EXPECT_EQ(receipt->safe_below, 50u);
  EXPECT_EQ(receipt->refused, 0u);
  expect_frames(receiver.sink, series, 50);
  EXPECT_TRUE(receiver.sink.rejected().empty());
}

// Rows of 1 KiB: below, at and above the size from which frames have a buffer of their own.
INSTANTIATE_TEST_SUITE_P(Rows, TcpFrameSizes, testing::Values(1, 4, 63, 64, 65, 300, 1000));

}  // namespace
}  // namespace penstock::stream::test
