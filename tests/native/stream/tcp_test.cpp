#include "stream/tcp/tcp.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "../support/name_server.hpp"
#include "base/net/socket.hpp"
#include "receiver.hpp"
#include "samples.hpp"
#include "stream/tcp/replies.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

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

TEST(Tcp, SeveralSeriesGoOverOneConnection) {
  Receiver receiver;
  auto sender = TcpSender::open(receiver.sender_options()).value();
  for (const auto* name : {"first", "second", "third"}) {
    send_series(*sender, sample_series(name), 3);
    EXPECT_TRUE(sender->finish(10s).value().confirmed);
  }
  EXPECT_EQ(receiver.sink.frame_count(), 9u);
  EXPECT_EQ(receiver.sink.ends().size(), 3u);
}

/// Of two clients that are connected, the other one may have more of a series.
TEST(Tcp, AnEndIsTheLastWordUnlessAnotherClientIsConnected) {
  Receiver receiver;
  auto first = TcpSender::open(receiver.sender_options()).value();
  const auto is_last = [&](TcpSender& sender, const char* name) {
    send_series(sender, sample_series(name), 1);
    EXPECT_TRUE(sender.finish(10s).value().confirmed);
    return receiver.sink.ends().back().last;
  };
  EXPECT_TRUE(is_last(*first, "alone"));
  auto second = TcpSender::open(receiver.sender_options()).value();
  EXPECT_FALSE(is_last(*first, "with another"));
  EXPECT_FALSE(is_last(*second, "the other's"));
  first.reset();
  bool alone = false;
  for (int i = 0; i < 500 && !alone; ++i) {
    alone = is_last(*second, fmt::format("alone {}", i).c_str());
    if (!alone) std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(alone) << "the other one has gone";
}

TEST(Tcp, TheProblemOfTheFileReachesTheSender) {
  Receiver receiver;
  receiver.sink.set_problem("no space left");
  auto sender = TcpSender::open(receiver.sender_options()).value();
  send_series(*sender, sample_series("s"), 3);
  const auto receipt = sender->finish(10s).value();
  EXPECT_TRUE(receipt.confirmed);
  EXPECT_EQ(receipt.problem, "no space left");
}

TEST(Tcp, ASecondStartIsRefusedWithTheReason) {
  Receiver receiver;
  auto first = TcpSender::open(receiver.sender_options()).value();
  auto second = TcpSender::open(receiver.sender_options()).value();
  ASSERT_TRUE(first->begin(sample_series("s")).ok());
  const auto begun = second->begin(sample_series("s"));
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().code(), Errc::refused);
  EXPECT_NE(begun.error().message().find("has started already"), std::string::npos);
}

TEST(Tcp, AFrameThatTheSinkRefusesIsTold) {
  Receiver receiver;
  receiver.sink.on_put = [](const Frame& frame) -> Result<void> {
    if (value(frame.number) == 2) return make_error(Errc::mismatch, "frame 2 is not wanted");
    return {};
  };
  auto sender = TcpSender::open(receiver.sender_options()).value();
  send_series(*sender, sample_series("s", 64, 1024), 5);
  const auto receipt = sender->finish(10s).value();
  EXPECT_TRUE(receipt.confirmed);
  EXPECT_EQ(receipt.refused, 1u);
  EXPECT_EQ(receipt.first_refusal, "mismatch: frame 2 is not wanted");
  EXPECT_EQ(receiver.sink.frame_count(), 4u);
}

TEST(Tcp, TheWindowHoldsTheSenderUntilFramesAreSafe) {
  Receiver receiver;
  receiver.sink.acknowledges = false;
  auto options = receiver.sender_options();
  options.window_frames = 4;
  auto sender = TcpSender::open(options).value();
  const auto series = sample_series("s");
  ASSERT_TRUE(sender->begin(series).ok());
  for (std::uint64_t number = 0; number < 4; ++number) ASSERT_TRUE(sender->put(sample_frame(series, number)).ok());
  std::thread releaser([&] {
    // The fifth put() sends what waits, so that all four arrive.
    EXPECT_TRUE(receiver.sink.wait_for_frames(4));
    receiver.sink.session("s")->safe_below("s", FrameNumber{2});
  });
  EXPECT_TRUE(sender->put(sample_frame(series, 4)).ok());
  EXPECT_EQ(sender->receipt().safe_below, 2u);
  releaser.join();
}

/// Its next frame waits until the first one, the only one in the window, is acknowledged.
std::unique_ptr<TcpSender> sender_with_a_full_window(Receiver& receiver, const Series& series) {
  receiver.sink.acknowledges = false;
  auto options = receiver.sender_options();
  options.window_frames = 1;
  auto sender = TcpSender::open(options).value();
  EXPECT_TRUE(sender->begin(series).ok());
  EXPECT_TRUE(sender->put(sample_frame(series, 0)).ok());
  return sender;
}

TEST(Tcp, AFrameThatTheReceiversStopLeavesNoTimeForIsRefused) {
  Receiver receiver;
  const auto series = sample_series("s");
  const auto sender = sender_with_a_full_window(receiver, series);
  std::thread stopper([&] {
    EXPECT_TRUE(receiver.sink.wait_for_frames(1));
    const auto session = receiver.sink.session("s");
    session->ended("s", "stop", FrameNumber{1});
    session->closed("s", "");
  });
  const auto put = sender->put(sample_frame(series, 1));
  EXPECT_FALSE(put.ok()) << "it waited for the room that the frame before had";
  stopper.join();
}

TEST(Tcp, CancelEndsAWait) {
  Receiver receiver;
  const auto series = sample_series("s");
  const auto sender = sender_with_a_full_window(receiver, series);
  std::thread canceller([&] {
    EXPECT_TRUE(receiver.sink.wait_for_frames(1));
    sender->cancel();
  });
  EXPECT_EQ(sender->put(sample_frame(series, 1)).error().code(), Errc::cancelled);
  canceller.join();
}

/// Passes bytes between a sender and a source, and can cut the line.
class Relay {
 public:
  explicit Relay(std::uint16_t to_port) : to_port_(to_port) {
    auto listener = listen_on("127.0.0.1", 0, 0).value();
    port = listener.port;
    thread_ = std::thread([this, socket = std::move(listener.socket)]() mutable { run(socket); });
  }
  ~Relay() {
    stopping_ = true;
    thread_.join();
  }

  std::uint16_t port = 0;
  /// Each connection is cut once so many bytes went to the source; later ones carry twice as many.
  std::atomic<std::size_t> cut_after_bytes = 100'000;
  std::atomic<int> connections = 0;

 private:
  void run(Socket& listener) {
    while (!stopping_) {
      if (!listener.readable(20ms).value()) continue;
      Socket client(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
      auto server = connect_to("127.0.0.1", to_port_, 1000ms);
      if (!server.ok()) continue;
      ++connections;
      pass(client, *server, cut_after_bytes);
      cut_after_bytes = cut_after_bytes * 2;
    }
  }

  void pass(Socket& client, Socket& server, std::size_t budget) {
    std::vector<std::byte> bytes(16 << 10);
    while (!stopping_ && budget > 0) {
      pollfd polls[2] = {{client.descriptor(), POLLIN, 0}, {server.descriptor(), POLLIN, 0}};
      if (::poll(polls, 2, 20) <= 0) continue;
      const bool up = polls[0].revents != 0;
      auto got = (up ? client : server).receive_now(MutableBytes(bytes).first(std::min(budget, bytes.size())));
      if (!got.ok()) return;
      if (!(up ? server : client).send_all(Bytes(bytes).first(*got)).ok()) return;
      if (up) budget -= *got;
    }
  }

  const std::uint16_t to_port_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

TEST(Tcp, LostConnectionsLoseNoFrame) {
  Receiver receiver;
  Relay relay(receiver.port);
  auto options = receiver.sender_options();
  options.port = relay.port;
  auto sender = TcpSender::open(options).value();
  const auto series = sample_series("s", 50, 1024);
  send_series(*sender, series, 60);
  const auto receipt = sender->finish(20s);
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();
  EXPECT_TRUE(receipt->confirmed);
  EXPECT_GT(relay.connections, 2);
  EXPECT_EQ(receiver.sink.series().size(), 1u) << "the series begins once";
  // What was sent again may come twice, and is then the same.
  std::vector<bool> seen(60, false);
  for (const auto& frame : receiver.sink.frames()) {
    const auto number = value(frame.number);
    ASSERT_LT(number, seen.size());
    const auto pixels = sample_pixels(number, frame.payload.size());
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.end(), frame.payload.begin(), frame.payload.end()));
    seen[number] = true;
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool here) { return here; }));
}

TEST(Tcp, FramesWaitForThePool) {
  Receiver receiver({}, 2'000'000);
  auto sender = TcpSender::open(receiver.sender_options()).value();
  const auto series = sample_series("s", 256, 1024);
  std::thread releaser([&] {
    for (std::size_t frames = 1; frames <= 12; ++frames) {
      EXPECT_TRUE(receiver.sink.wait_for_frames(frames));
      receiver.sink.let_frames_go();
    }
  });
  send_series(*sender, series, 12);
  EXPECT_TRUE(sender->finish(20s).value().confirmed);
  releaser.join();
  EXPECT_LE(receiver.sink.pool().used_bytes_max(), 2'000'000u);
}

TEST(Tcp, BeyondLoopbackATokenIsRequired) {
  TcpSourceOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  const auto source = make_tcp_source(options);
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code(), Errc::refused);
  options.token = "secret";
  EXPECT_TRUE(make_tcp_source(options).ok());
  options.token = "";
  EXPECT_FALSE(make_tcp_source(options).ok());
}

TEST(Tcp, OnlyTheRightTokenOpensADoor) {
  TcpSourceOptions source_options;
  source_options.token = "correct horse";
  Receiver receiver(source_options);
  auto options = receiver.sender_options();
  for (const auto* token : {"", "correct hors", "correct horsf", "correct horse "}) {
    options.token = token;
    const auto sender = TcpSender::open(options);
    ASSERT_FALSE(sender.ok()) << token;
    EXPECT_EQ(sender.error().code(), Errc::refused);
  }
  EXPECT_TRUE(receiver.sink.wait_for_rejected(4));
  options.token = "correct horse";
  EXPECT_TRUE(TcpSender::open(options).ok());
}

TEST(TcpSender, TriesAgainWhileTheNameServerDoesNotAnswer) {
  Receiver receiver;
  penstock::test::failing_lookups = 3;
  auto sender = TcpSender::open(receiver.sender_options());
  EXPECT_TRUE(sender.ok()) << sender.error().message();
  EXPECT_EQ(penstock::test::failing_lookups.exchange(0), 0);
}

TEST(TcpReplies, KeepTheLastWordOnASeriesForAClientThatDoesNotRead) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  Socket client(ends[0]);
  TcpReplies replies(std::make_shared<Socket>(ends[1]));
  // The thread sends this one, and takes nothing else, until the client reads.
  replies.error(0, make_error(Errc::refused, "{}", std::string(16 << 20, 'x')));
  for (std::uint64_t message = 1; message < 3 * TcpReplies::messages_max; ++message)
    replies.error(message, make_error(Errc::refused, "full"));
  TcpControl closed;
  closed.series_unique_id = "s";
  replies.send(TcpKind::closed, closed);
  std::uint64_t errors = 0;
  std::vector<std::byte> message(tcp_header_bytes);
  for (auto kind = TcpKind::error; kind != TcpKind::closed;) {
    ASSERT_TRUE(client.readable(10s).value()) << "after " << errors << " errors";
    message.resize(tcp_header_bytes);
    ASSERT_EQ(client.receive(message, true).value(), tcp_header_bytes);
    const auto header = decode_header(Bytes(message).first<tcp_header_bytes>()).value();
    message.resize(header.message_bytes);
    ASSERT_EQ(client.receive(message, true).value(), header.message_bytes);
    kind = header.kind;
    errors += kind == TcpKind::error ? 1 : 0;
  }
  EXPECT_LE(errors, 1 + 2 * TcpReplies::messages_max);
}

}  // namespace
}  // namespace penstock::stream::test
