/// What the TCP source does with clients that lie, stop, or never meant well.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <poll.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <future>
#include <random>
#include <thread>

#include "base/crc32c.hpp"
#include "base/net/socket.hpp"
#include "receiver.hpp"
#include "samples.hpp"
#include "stream/tcp/frame.hpp"
#include "stream/tcp/input.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> frame_bytes(TcpHeader header, Bytes message, Bytes pixels = {}) {
  std::vector<std::byte> bytes(tcp_header_bytes);
  if (header.message_bytes == 0) header.message_bytes = static_cast<std::uint32_t>(message.size());
  if (header.pixels_bytes == 0) header.pixels_bytes = pixels.size();
  if (header.message_crc == 0) header.message_crc = crc32c(message);
  encode_header(header, std::span(bytes).first<tcp_header_bytes>());
  bytes.insert(bytes.end(), message.begin(), message.end());
  bytes.insert(bytes.end(), pixels.begin(), pixels.end());
  return bytes;
}

TcpHeader header_of(TcpKind kind, std::uint64_t sequence) {
  TcpHeader header;
  header.kind = kind;
  header.sequence = sequence;
  return header;
}

/// One end of a connection that sends bytes as it likes.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : RawClient(connect_to("127.0.0.1", port, 5s).value()) {}
  explicit RawClient(Socket socket) : socket_(std::move(socket)) { socket_.set_receive_timeout(10s); }

  void send(Bytes bytes) { ASSERT_TRUE(socket_.send_all(bytes).ok()); }
  void hello(const TcpControl& control = {}) {
    send(encode_control(TcpKind::hello, 0, control));
    EXPECT_EQ(read().first, TcpKind::hello);
  }
  /// Until the other end's system has everything.
  void await_arrival() {
    int left = 1;
    for (int i = 0; i < 6000 && left > 0; ++i) {
      ASSERT_EQ(::ioctl(socket_.descriptor(), SIOCOUTQ, &left), 0);
      if (left > 0) std::this_thread::sleep_for(10ms);
    }
    ASSERT_EQ(left, 0);
  }
  void start(const Series& series) { send(frame_bytes(header_of(TcpKind::start, 1), encode_start(series))); }
  static std::vector<std::byte> image_bytes(const Series& series, std::uint64_t number, std::uint64_t sequence) {
    const auto pixels = sample_pixels(number, series.frame.bytes(1 << 30).value());
    std::vector<std::byte> message;
    encode_image_detached(sample_image(series, number, pixels), message);
    return frame_bytes(header_of(TcpKind::image, sequence), message, pixels);
  }
  /// Sends drop after drop, each after a pause, until the receiver answers; false if it never did.
  bool drip(Bytes bytes, std::chrono::milliseconds pause = 10ms, std::size_t drop = 1) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(drop, bytes.size()))) {
      if (!socket_.send_all(bytes.first(std::min(drop, bytes.size()))).ok()) return true;
      if (const auto answered = socket_.readable(pause); !answered.ok() || *answered) return true;
    }
    return false;
  }
  void image(const Series& series, std::uint64_t number, std::uint64_t sequence) {
    send(image_bytes(series, number, sequence));
  }

  /// The next reply; kind 0 once the receiver has closed the connection.
  std::pair<TcpKind, TcpControl> read() {
    std::array<std::byte, tcp_header_bytes> head;
    if (!read_exactly(head)) return {TcpKind{}, {}};
    const auto header = decode_header(head).value();
    std::vector<std::byte> message(header.message_bytes);
    if (!read_exactly(message)) return {TcpKind{}, {}};
    return {header.kind, parse_control(header.kind, message).value()};
  }
  /// The next error, acknowledgements passed over.
  TcpControl read_error() {
    for (;;) {
      auto [kind, control] = read();
      if (kind == TcpKind::error) return control;
      EXPECT_NE(kind, TcpKind{}) << "the connection ended without an error";
      if (kind == TcpKind{}) return {};
    }
  }
  /// Reads whole messages of the other end, whatever they are.
  void skip(int messages) {
    for (std::array<std::byte, tcp_header_bytes> head; messages > 0 && read_exactly(head); --messages) {
      const auto header = decode_header(head).value();
      std::vector<std::byte> rest(header.message_bytes + header.pixels_bytes);
      if (!read_exactly(rest)) return;
    }
  }
  void expect_closed() {
    TcpKind kind{};
    while ((kind = read().first) != TcpKind{}) {
    }
  }
  /// Sends nothing more, and still reads.
  void hang_up() { ASSERT_EQ(::shutdown(socket_.descriptor(), SHUT_WR), 0); }
  /// What the other end sends does not arrive, as where the network is cut: not even the system answers.
  void cut_off() {
    sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &nothing};
    ASSERT_EQ(::setsockopt(socket_.descriptor(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }

 private:
  bool read_exactly(MutableBytes into) {
    if (into.empty()) return true;
    const auto got = socket_.receive(into, true);
    return got.ok() && *got == into.size();
  }

  Socket socket_;
};

void expect_error(const TcpControl& error, std::uint64_t sequence, std::string_view code, std::string_view text) {
  EXPECT_EQ(error.sequence, sequence);
  EXPECT_EQ(error.code, code);
  EXPECT_NE(error.text.find(text), std::string::npos) << error.text;
}

/// After whatever a client did, another one's series arrives whole.
void expect_alive(Receiver& receiver, const std::string& unique_id) {
  const auto before = receiver.sink.frame_count();
  auto sender = TcpSender::open(receiver.sender_options()).value();
  const auto series = sample_series(unique_id);
  ASSERT_TRUE(sender->begin(series).ok());
  ASSERT_TRUE(sender->put(sample_frame(series, 0)).ok());
  ASSERT_TRUE(sender->end().ok());
  EXPECT_TRUE(sender->finish(10s).value().confirmed);
  EXPECT_EQ(receiver.sink.frame_count(), before + 1);
}

/// The last bytes of a frame come in drops, and nothing follows them that would wake anyone.
TEST(TcpHostile, AFrameThatDripsInIsTakenWithItsLastByte) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.hello();
  const auto series = sample_series("drip", 1100, 1024);
  client.start(series);
  std::mt19937 random(20261121);
  for (std::uint64_t number = 0; number < 20; ++number) {
    const auto bytes = RawClient::image_bytes(series, number, number + 2);
    const auto tail = std::uniform_int_distribution<std::size_t>(1, 1'500'000)(random);
    client.send(Bytes(bytes).first(bytes.size() - tail));
    for (auto left = tail; left > 0;) {
      const auto drop = std::min(left, std::uniform_int_distribution<std::size_t>(1, 120'000)(random));
      client.send(Bytes(bytes).subspan(bytes.size() - left, drop));
      left -= drop;
      std::this_thread::sleep_for(500us);  // so that drops are taken one by one
    }
    ASSERT_TRUE(receiver.sink.wait_for_frames(number + 1)) << "frame " << number << ", tail of " << tail;
  }
}

TEST(TcpHostile, WrongMagicEndsTheConnection) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.send(as_bytes("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something long enough for a header\r\n"));
  expect_error(client.read_error(), 0, "malformed", "magic 47 45 54 20");
  client.expect_closed();
  ASSERT_TRUE(receiver.sink.wait_for_rejected(1));
  expect_alive(receiver, "after");
}

TEST(TcpHostile, AnythingBeforeHelloIsRefused) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.start(sample_series("s"));
  expect_error(client.read_error(), 0, "out_of_order", "the first message is start");
  client.expect_closed();
  EXPECT_TRUE(receiver.sink.series().empty());
}

TEST(TcpHostile, ASlowHelloTimesOut) {
  TcpSourceOptions options;
  options.hello_timeout = 300ms;
  Receiver receiver(options);
  RawClient client(receiver.port);
  const auto hello = encode_control(TcpKind::hello, 0, {});
  // A byte now and then does not lengthen the time.
  client.send(Bytes(hello).first(3));
  expect_error(client.read_error(), 0, "timed_out", "did not arrive within 300 ms");
  client.expect_closed();
}

TEST(TcpHostile, AHelloOfGigabytesIsRefused) {
  Receiver receiver;
  RawClient client(receiver.port);
  auto header = header_of(TcpKind::hello, 0);
  header.message_bytes = 0xffffffff;
  client.send(frame_bytes(header, {}));
  expect_error(client.read_error(), 0, "too_large", "4294967295 bytes");
}

TEST(TcpHostile, AMessageOf2To63BytesEndsTheConnection) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.hello();
  auto header = header_of(TcpKind::image, 9);
  header.pixels_bytes = std::uint64_t{1} << 63;
  client.send(frame_bytes(header, sample_pixels(0, 10)));
  expect_error(client.read_error(), 9, "too_large", "9223372036854775808 bytes exceeds the limit");
  client.expect_closed();
  EXPECT_LT(receiver.sink.pool().used_bytes_max(), 1u << 20);
  expect_alive(receiver, "after");
}

TcpSourceOptions impatient() {
  TcpSourceOptions options;
  options.lag = {.lag_max = 200ms, .rate_min_bytes_per_s = 1'000'000};
  return options;
}

TEST(TcpHostile, AnOversizedMessageIsReadOver) {
  TcpSourceOptions options;
  options.limits.frame_bytes_max = 100'000;
  Receiver receiver(options);
  RawClient client(receiver.port);
  client.hello();
  const auto series = sample_series("s");
  client.start(series);
  const auto pixels = sample_pixels(0, 100'001);
  client.send(frame_bytes(header_of(TcpKind::image, 2), sample_pixels(0, 10), pixels));
  client.image(series, 0, 3);
  expect_error(client.read_error(), 2, "too_large", "100001 bytes exceeds the limit of 100000");
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
}

TEST(TcpHostile, AFrameThatThePoolCannotHoldIsReadOver) {
  Receiver receiver({}, 1'000'000);
  RawClient client(receiver.port);
  client.hello();
  const auto series = sample_series("s");
  client.start(series);
  const auto pixels = sample_pixels(0, 2'000'000);
  client.send(frame_bytes(header_of(TcpKind::image, 2), sample_pixels(0, 10), pixels));
  client.image(series, 0, 3);
  expect_error(client.read_error(), 2, "too_large", "enlarge the pool");
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
}

/// A message that fits the pool gets its memory, whatever this and idle connections have read ahead into it.
TEST(TcpHostile, AMessageAsLargeAsThePoolIsReadAndALargerOneIsRejected) {
  constexpr std::size_t pool_bytes = 1 << 20;
  Receiver receiver({}, pool_bytes);
  RawClient idle(receiver.port);
  idle.hello();
  idle.start(sample_series("idle"));
  EXPECT_EQ(idle.read().first, TcpKind::ack);
  RawClient client(receiver.port);
  client.hello();
  const auto start_of = [](std::size_t bytes) {
    auto series = sample_series("large", 512, 1024);
    series.user_data_json = '"' + std::string(bytes, 'a') + '"';
    return frame_bytes(header_of(TcpKind::start, 1), encode_start(series));
  };
  client.send(start_of(pool_bytes));
  expect_error(client.read_error(), 1, "too_large", "enlarge the pool");
  client.send(start_of(pool_bytes - 2000));
  EXPECT_EQ(client.read().first, TcpKind::ack);
  const auto series = sample_series("large", 512, 1024);
  ASSERT_EQ(series.frame.bytes(1 << 30).value(), pool_bytes);
  client.image(series, 0, 2);
  EXPECT_TRUE(receiver.sink.wait_for_frames(1));
}

TEST(TcpHostile, DamagedPartsAreToldAndTheRestGoesOn) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.hello();
  const auto series = sample_series("s");
  client.start(series);
  auto header = header_of(TcpKind::image, 2);
  header.message_crc = 1;
  client.send(frame_bytes(header, sample_pixels(0, 10)));
  expect_error(client.read_error(), 2, "mismatch", "CBOR checksum 00000001");
  header = header_of(TcpKind::image, 3);
  header.flags = tcp_flag_pixels_crc;
  header.pixels_crc = 2;
  client.send(frame_bytes(header, sample_pixels(0, 10), sample_pixels(1, 10)));
  expect_error(client.read_error(), 3, "mismatch", "pixel checksum 00000002");
  client.send(frame_bytes(header_of(TcpKind::image, 4), as_bytes("no CBOR at all")));
  expect_error(client.read_error(), 4, "malformed", "not a Stream V2 message");
  client.send(frame_bytes(header_of(TcpKind::end, 5), encode_start(series)));
  expect_error(client.read_error(), 5, "mismatch", "the header says end");
  client.send(frame_bytes(header_of(TcpKind::ack, 6), {}));
  expect_error(client.read_error(), 6, "out_of_order", "kind ack from a client");
  client.image(series, 0, 7);
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
  EXPECT_EQ(receiver.sink.rejected().size(), 5u);
}

TEST(TcpHostile, AnImageBeforeItsStartIsTold) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.hello();
  client.image(sample_series("nobody"), 0, 1);
  expect_error(client.read_error(), 1, "out_of_order", "has not begun");
}

TEST(TcpHostile, AnUnknownChannelIsTold) {
  Receiver receiver;
  RawClient client(receiver.port);
  client.hello();
  auto series = sample_series("s");
  client.start(series);
  series.channels = {"other"};
  client.image(series, 0, 2);
  expect_error(client.read_error(), 2, "mismatch", "channel \"other\" is not one of");
}

TEST(TcpHostile, AConnectionThatEndsInMidFrameIsCounted) {
  Receiver receiver;
  const auto series = sample_series("s", 256, 1024);
  for (const std::size_t sent : {1u, 63u, 64u, 100u, 70'000u, 500'000u}) {
    const auto before = receiver.sink.rejected().size();
    {
      RawClient client(receiver.port);
      client.hello();
      const auto pixels = sample_pixels(0, 256 * 2048);
      std::vector<std::byte> message;
      encode_image_detached(sample_image(series, 0, pixels), message);
      client.send(Bytes(frame_bytes(header_of(TcpKind::image, 1), message, pixels)).first(sent));
    }
    ASSERT_TRUE(receiver.sink.wait_for_rejected(before + 1)) << sent;
    EXPECT_EQ(receiver.sink.rejected().back().second.code(), Errc::disconnected) << sent;
  }
  EXPECT_EQ(receiver.sink.frame_count(), 0u);
  expect_alive(receiver, "after");
}

TEST(TcpHostile, AMessageThatStallsEndsTheConnection) {
  Receiver receiver(impatient());
  RawClient client(receiver.port);
  client.hello();
  const auto bytes = frame_bytes(header_of(TcpKind::image, 1), sample_pixels(0, 10), sample_pixels(0, 200'000));
  client.send(Bytes(bytes).first(100'000));
  expect_error(client.read_error(), 0, "timed_out", "0.2 s later than at 1000000 bytes/s");
  client.expect_closed();
}

/// A byte now and then is not silence, and is cut off all the same, in whatever part of a message.
class TcpDrip : public testing::TestWithParam<std::size_t> {};

TEST_P(TcpDrip, EndsTheConnection) {
  auto options = impatient();
  options.limits.frame_bytes_max = 4'000'000;
  Receiver receiver(options);
  RawClient client(receiver.port);
  client.hello();
  const auto bytes = frame_bytes(header_of(TcpKind::image, 1), sample_pixels(0, 2000),
                                 sample_pixels(0, GetParam() > 4'000'000 ? 5'000'000 : 3'000'000));
  const auto at_once = Bytes(bytes).first(GetParam());
  client.send(at_once);
  ASSERT_TRUE(client.drip(Bytes(bytes).subspan(at_once.size()).first(400)));
  auto error = client.read_error();
  if (error.code == "too_large") error = client.read_error();
  expect_error(error, 0, "timed_out", "0.2 s later than at 1000000 bytes/s");
  client.expect_closed();
}

// Within the header, the CBOR part, pixels far from their end and near to it, and a message that is read over.
INSTANTIATE_TEST_SUITE_P(After, TcpDrip, testing::Values(0, 1000, 100'000, 3'000'000, 4'500'000));

TEST(TcpHostile, ASlowSenderAboveTheLowestRateIsServed) {
  TcpSourceOptions options;
  options.lag = {.lag_max = 1s, .rate_min_bytes_per_s = 10'000};
  const auto series = sample_series("slow", 256, 1024);
  const auto bytes = RawClient::image_bytes(series, 0, 2);
  const auto drop = bytes.size() / 10 + 1;
  auto longest = std::chrono::steady_clock::duration::max();
  // A busy machine may keep this thread from sending for almost lag_max.
  for (int attempt = 0; attempt < 20 && longest > 500ms; ++attempt) {
    Receiver receiver(options);
    RawClient client(receiver.port);
    client.hello();
    client.start(series);
    EXPECT_EQ(client.read().first, TcpKind::ack);
    longest = {};
    for (std::size_t sent = 0; sent < bytes.size(); sent += drop) {
      const auto since = std::chrono::steady_clock::now();
      (void)client.drip(Bytes(bytes).subspan(sent, std::min(drop, bytes.size() - sent)), 120ms, drop);
      longest = std::max(longest, std::chrono::steady_clock::now() - since);
    }  // which takes longer than lag_max
    if (longest > 500ms) continue;
    ASSERT_TRUE(receiver.sink.wait_for_frames(1));
    EXPECT_TRUE(receiver.sink.rejected().empty());
  }
  if (longest > 500ms) GTEST_SKIP() << "this machine is too busy";
}

TEST(TcpHostile, DrippingClientsKeepNoPlace) {
  auto options = impatient();
  options.connections_max = 4;
  Receiver receiver(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (unsigned i = 0; i < options.connections_max; ++i) {
    clients.push_back(std::make_unique<RawClient>(receiver.port));
    clients.back()->hello();
  }
  // Who is connected and sends nothing keeps its place.
  ASSERT_FALSE(clients.back()->drip({}));
  clients.back()->start(sample_series("patient"));
  EXPECT_EQ(clients.back()->read().first, TcpKind::ack);
  const auto bytes = frame_bytes(header_of(TcpKind::image, 1), sample_pixels(0, 6000));  // drips for a minute
  for (std::size_t i = 0; i < bytes.size() && receiver.sink.rejected().size() < 3; ++i)
    for (unsigned each = 0; each < 3; ++each) (void)clients[each]->drip(Bytes(bytes).subspan(i, 1));
  ASSERT_EQ(receiver.sink.rejected().size(), 3u);
  for (unsigned each = 0; each < 3; ++each) clients[each]->expect_closed();
  expect_alive(receiver, "after");
  clients.back()->image(sample_series("patient"), 0, 2);
  ASSERT_TRUE(receiver.sink.wait_for_frames(2));
}

TEST(TcpHostile, HalfSentFramesGiveTheirMemoryBack) {
  for (const bool holds : {true, false}) {
    Receiver receiver(impatient(), 4 << 20, holds);
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<RawClient>(receiver.port));
      clients.back()->hello();
      const auto bytes = frame_bytes(header_of(TcpKind::image, 1), sample_pixels(0, 10), sample_pixels(0, 900'000));
      clients.back()->send(Bytes(bytes).first(100'000));
    }
    ASSERT_TRUE(receiver.sink.wait_for_rejected(4)) << holds;
    for (auto& client : clients) client->expect_closed();
    EXPECT_LE(receiver.sink.pool().used_bytes(), clients.size() * TcpInput::batch_bytes) << holds;
    expect_alive(receiver, "after");
  }
}

/// Of a pool that is full, the sender may be kept waiting for any time.
TEST(TcpHostile, WaitingForThePoolIsNotTheSendersFault) {
  Receiver receiver(impatient(), 1'300'000);
  const auto series = sample_series("held", 200, 1024);
  RawClient client(receiver.port);
  client.hello();
  client.start(series);
  client.image(series, 0, 2);
  client.image(series, 1, 3);
  ASSERT_TRUE(receiver.sink.wait_for_frames(2));
  const auto bytes = RawClient::image_bytes(series, 2, 4);
  client.send(Bytes(bytes).first(100'000));
  std::this_thread::sleep_for(600ms);  // three times lag_max
  EXPECT_TRUE(receiver.sink.rejected().empty());
  client.send(Bytes(bytes).subspan(100'000));
  receiver.sink.let_frames_go();
  ASSERT_TRUE(receiver.sink.wait_for_frames(3));
  EXPECT_TRUE(receiver.sink.rejected().empty());
}

/// One that is read ahead with another one, for which the pool has no room, is not dropped.
TEST(TcpHostile, SmallFramesBehindAFrameThatWaitsForThePoolAreKept) {
  Receiver receiver({}, 1 << 20);
  receiver.sink.keeps_frames = false;
  std::promise<void> go;
  const auto gone = go.get_future().share();
  receiver.sink.on_put = [gone](const Frame& frame) {
    if (value(frame.number) == 0) gone.wait();
    return Result<void>();
  };
  const auto small = sample_series("small", 16, 1024);
  const auto large = sample_series("large", 50, 1024);
  RawClient client(receiver.port);
  client.hello();
  client.start(small);
  client.start(large);
  client.image(small, 0, 2);
  const auto held = receiver.sink.pool().acquire(780'000, 10s);
  ASSERT_TRUE(held.ok()) << "with the batch of the connection, no large frame has room";
  auto both = RawClient::image_bytes(large, 1, 3);
  const auto second = RawClient::image_bytes(small, 1, 4);
  both.insert(both.end(), second.begin(), second.end());
  client.send(both);
  client.await_arrival();
  go.set_value();
  EXPECT_TRUE(receiver.sink.wait_for_outcomes(3));
  EXPECT_EQ(receiver.sink.frame_count(), 3u);
  EXPECT_TRUE(receiver.sink.dropped().empty());
}

TEST(TcpHostile, ConnectionsAreBounded) {
  TcpSourceOptions options;
  options.connections_max = 2;
  options.hello_timeout = 60s;  // none is silent for so long
  Receiver receiver(options);
  RawClient first(receiver.port);
  RawClient second(receiver.port);
  first.hello();
  second.hello();
  RawClient third(receiver.port);
  third.send(encode_control(TcpKind::hello, 0, {}));
  expect_error(third.read_error(), 0, "no_place", "2 connections are open");
}

/// With a receiver that has two places: another client's, and one of the connection `lost`, whose series is open.
class TcpComesBack : public ::testing::Test {
 protected:
  static TcpSourceOptions two_places() {
    TcpSourceOptions options;
    options.connections_max = 2;
    options.hello_timeout = 60s;  // none is silent for so long
    return options;
  }
  static TcpControl named() {
    TcpControl hello;
    hello.client = "sender 1";
    return hello;
  }
  void SetUp() override {
    other_.hello();
    other_.start(sample_series("other"));
    EXPECT_EQ(other_.read().first, TcpKind::ack);
    before_.hello(named());
    before_.start(sample_series("open"));
    EXPECT_EQ(before_.read().first, TcpKind::ack);
  }
  TcpControl answer_to_hello() {
    RawClient back(receiver_.port);
    back.send(encode_control(TcpKind::hello, 0, named()));
    auto [kind, control] = back.read();
    return kind == TcpKind::hello ? TcpControl{} : control;
  }

  Receiver receiver_{two_places()};
  RawClient other_{receiver_.port};
  RawClient before_{receiver_.port};
};

/// The receiver has not noticed the loss, and waits for the rest of a message.
TEST_F(TcpComesBack, ToThePlaceOfItsLostConnection) {
  const auto image = RawClient::image_bytes(sample_series("open"), 0, 2);
  before_.send(Bytes(image).first(image.size() - 1));
  std::this_thread::sleep_for(300ms);  // it would send again what is not acknowledged
  before_.cut_off();
  auto answer = answer_to_hello();
  for (int i = 0; i < 100 && !answer.code.empty(); ++i) {
    std::this_thread::sleep_for(50ms);
    answer = answer_to_hello();
  }
  EXPECT_EQ(answer.code, "") << answer.text;
}

/// However seldom it sends.
TEST_F(TcpComesBack, NotToThePlaceOfAConnectionThatItHas) {
  std::this_thread::sleep_for(700ms);
  expect_error(answer_to_hello(), 0, "no_place", "2 connections are open");
  before_.image(sample_series("open"), 0, 2);
  EXPECT_TRUE(receiver_.sink.wait_for_frames(1));
}

/// And they are asked together: a host whose connections are all lost need not wait for one after the other.
TEST(TcpHostile, AClientGetsThePlacesOfAllItsLostConnectionsAtOnce) {
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  {
    TcpSourceOptions options;
    options.connections_max = 2;
    Receiver receiver(options);
    TcpControl hello;
    hello.client = "sender 1";
    std::vector<std::unique_ptr<RawClient>> lost;
    for (const auto* name : {"one", "two"}) {
      lost.push_back(std::make_unique<RawClient>(receiver.port));
      lost.back()->hello(hello);
      lost.back()->start(sample_series(name));
      EXPECT_EQ(lost.back()->read().first, TcpKind::ack);
    }
    std::this_thread::sleep_for(300ms);  // their systems acknowledge late
    for (auto& each : lost) each->cut_off();
    RawClient back(receiver.port);
    back.send(encode_control(TcpKind::hello, 0, hello));
    (void)back.read();
    const auto lines = log->last_formatted();
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [](const auto& line) { return line.find("has connected again") != std::string::npos; }),
              2);
  }
  spdlog::set_default_logger(before);
}

/// What its system has delivered is read to the end, though it only waits for the last word.
TEST(TcpHostile, AClientThatHasHungUpKeepsItsPlaceUntilAllIsRead) {
  TcpSourceOptions options;
  options.connections_max = 1;
  Receiver receiver(options, 1'300'000);
  TcpControl hello;
  hello.client = "sender 1";
  const auto series = sample_series("held", 200, 1024);
  RawClient before(receiver.port);
  before.hello(hello);
  before.start(series);
  for (std::uint64_t number = 0; number < 4; ++number) before.image(series, number, 2 + number);
  ASSERT_TRUE(receiver.sink.wait_for_frames(2)) << "the pool has room for these";
  before.hang_up();
  RawClient next(receiver.port);
  next.send(encode_control(TcpKind::hello, 0, hello));
  expect_error(next.read_error(), 0, "no_place", "1 connections are open");
  receiver.sink.let_frames_go();
  EXPECT_TRUE(receiver.sink.wait_for_frames(4));
}

/// A client may have several connections, of one series each.
TEST(TcpHostile, AClientKeepsItsOtherConnectionsWhileSilentOnesHavePlaces) {
  TcpSourceOptions options;
  options.connections_max = 2;
  options.hello_timeout = 2s;
  Receiver receiver(options);
  TcpControl hello;
  hello.client = "sender 1";
  RawClient one(receiver.port);
  one.hello(hello);
  one.start(sample_series("open"));
  EXPECT_EQ(one.read().first, TcpKind::ack);
  RawClient silent(receiver.port);
  silent.hello();
  std::this_thread::sleep_for(options.hello_timeout + 200ms);
  RawClient two(receiver.port);
  two.hello(hello);
  expect_error(silent.read_error(), 0, "refused", "another client needs a place");
  one.image(sample_series("open"), 0, 2);
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
}

/// A client that has said hello and sends nothing gives its place to one that comes, unless it has an open series.
TEST(TcpHostile, SilentClientsGiveTheirPlacesToOthers) {
  TcpSourceOptions options;
  options.connections_max = 3;
  options.hello_timeout = 2s;
  Receiver receiver(options);
  RawClient busy(receiver.port);
  busy.hello();
  busy.start(sample_series("open"));
  EXPECT_EQ(busy.read().first, TcpKind::ack);
  RawClient longest(receiver.port);
  longest.hello();
  RawClient silent(receiver.port);
  silent.hello();
  std::this_thread::sleep_for(options.hello_timeout + 200ms);
  RawClient first(receiver.port);
  first.hello();
  expect_error(longest.read_error(), 0, "refused", "another client needs a place");
  longest.expect_closed();
  RawClient second(receiver.port);
  second.hello();
  silent.expect_closed();
  ASSERT_TRUE(receiver.sink.wait_for_rejected(2));
  busy.image(sample_series("open"), 0, 2);
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
}

/// Those who know the token get in, while 200 who say nothing hold connections, and others come again and again.
TEST(TcpHostile, StrangersKeepNobodyOutWhoHasTheToken) {
  TcpSourceOptions options;
  options.token = "secret";
  options.hello_timeout = 60s;  // or time would let them in
  Receiver receiver(options);
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_to("127.0.0.1", receiver.port, 5s).value());
  const std::jthread restless([&](const std::stop_token& stop) {
    for (int i = 0; i < 20'000 && !stop.stop_requested(); ++i) {
      auto again = connect_to("127.0.0.1", receiver.port, 5s);
      if (again.ok()) strangers[static_cast<std::size_t>(i) % strangers.size()] = std::move(*again);
    }
  });
  auto sender_options = receiver.sender_options();
  sender_options.token = "secret";
  for (int i = 0; i < 30; ++i) {
    auto sender = TcpSender::open(sender_options);
    ASSERT_TRUE(sender.ok()) << i << ": " << sender.error().message();
    const auto series = sample_series("s" + std::to_string(i));
    ASSERT_TRUE((*sender)->begin(series).ok());
    ASSERT_TRUE((*sender)->put(sample_frame(series, 0)).ok());
    ASSERT_TRUE((*sender)->end().ok());
    EXPECT_TRUE((*sender)->finish(10s).value().confirmed) << i;
  }
}

/// A receiver that answers as the test says.
class FakeReceiver {
 public:
  TcpSenderOptions sender_options() const {
    TcpSenderOptions options;
    options.port = listener_.port;
    options.connect_timeout = 30s;
    options.reconnect_timeout = 300ms;
    return options;
  }
  /// The next connection.
  RawClient next() {
    EXPECT_TRUE(is_called(20s));
    return RawClient(Socket(::accept4(listener_.socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  bool is_called(std::chrono::milliseconds within) { return listener_.socket.readable(within).value(); }
  /// To hello, and to the start of a series.
  static void answer(RawClient& connection, const Series& series) {
    connection.skip(1);
    connection.send(encode_control(TcpKind::hello, 0, {}));
    connection.skip(1);
    TcpControl ack;
    ack.series_unique_id = series.unique_id;
    connection.send(encode_control(TcpKind::ack, 1, ack));
  }
  /// A sender whose series has begun here, and its connection.
  std::pair<std::unique_ptr<TcpSender>, RawClient> begun_sender(const Series& series, TcpSenderOptions options) {
    auto opened = std::async(std::launch::async, [options, series] {
      auto sender = TcpSender::open(options).value();
      EXPECT_TRUE(sender->begin(series).ok());
      return sender;
    });
    auto connection = next();
    answer(connection, series);
    return {opened.get(), std::move(connection)};
  }

 private:
  Listener listener_ = listen_on("127.0.0.1", 0, 0).value();
};

/// Strangers connect between its connection and its hello, or its hello comes late.
TEST(TcpHostile, ASenderThatStrangersCrowdOutTriesAgain) {
  FakeReceiver receiver;
  auto opened = std::async(std::launch::async, [&] { return TcpSender::open(receiver.sender_options()); });
  for (const auto code : {Errc::no_place, Errc::timed_out}) {
    TcpControl why;
    why.code = name(code);
    why.text = "too many";
    receiver.next().send(encode_control(TcpKind::error, 0, why));
  }
  receiver.next().send(encode_control(TcpKind::hello, 0, {}));
  EXPECT_TRUE(opened.get().ok());
}

TEST(TcpHostile, ASenderThatGetsNoPlaceSaysSo) {
  TcpSourceOptions options;
  options.connections_max = 1;
  Receiver receiver(options);
  RawClient busy(receiver.port);
  busy.hello();
  busy.start(sample_series("open"));
  EXPECT_EQ(busy.read().first, TcpKind::ack);
  auto sender_options = receiver.sender_options();
  sender_options.connect_timeout = 700ms;
  auto sender = TcpSender::open(sender_options);
  // The last attempt has less than 400 ms, in which a busy machine may not answer it.
  for (int i = 0; i < 20 && !sender.ok() && sender.error().code() == Errc::timed_out; ++i)
    sender = TcpSender::open(sender_options);
  ASSERT_FALSE(sender.ok());
  EXPECT_NE(sender.error().message().find("1 connections are open, which is the limit"), std::string::npos)
      << sender.error().message();
}

/// The connection is lost before the frames are acknowledged, and the receiver does not read the next one.
TEST(TcpHostile, TheEndIsWaitedForAsLongAsSaid) {
  FakeReceiver receiver;
  const auto series = sample_series("s", 1100, 1024);
  constexpr int frames = 10;  // more than the sockets' buffers take
  auto options = receiver.sender_options();
  options.reconnect_timeout = 30s;
  std::unique_ptr<TcpSender> sender;
  {
    auto [begun, lost] = receiver.begun_sender(series, options);
    sender = std::move(begun);
    const std::jthread reader([&connection = lost] { connection.skip(frames + 1); });
    for (std::uint64_t i = 0; i < frames; ++i) ASSERT_TRUE(sender->put(sample_frame(series, i)).ok());
    ASSERT_TRUE(sender->end().ok());
  }
  auto done = std::async(std::launch::async, [&] { return sender->finish(3s); });
  auto again = receiver.next();
  FakeReceiver::answer(again, series);
  const bool ended = done.wait_for(60s) == std::future_status::ready;
  sender->cancel();
  const auto receipt = done.get();
  EXPECT_TRUE(ended);
  ASSERT_FALSE(receipt.ok());
  EXPECT_EQ(receipt.error().code(), Errc::timed_out) << receipt.error().message();
}

/// It neither waits for ever nor sends frames to a receiver that has not answered.
class TcpGivesUp : public ::testing::TestWithParam<bool> {};

TEST_P(TcpGivesUp, OnceWhenTheReceiverDoesNotAnswer) {
  const bool answers_hello = GetParam();
  FakeReceiver receiver;
  auto series = sample_series("s", 4);
  // More than the sockets' buffers take.
  if (answers_hello) series.user_data_cbor.assign(32 << 20, std::byte{0xf6});
  const auto sender = receiver.begun_sender(series, receiver.sender_options()).first;
  std::vector<RawClient> connections;
  std::jthread silent([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!receiver.is_called(10ms)) continue;
      connections.push_back(receiver.next());
      if (answers_hello) connections.back().send(encode_control(TcpKind::hello, 0, {}));
    }
  });
  Result<void> sent;
  for (std::uint64_t i = 0; i < 1000 && sent.ok(); ++i) {  // the kernel may take some before it notices the loss
    if (sent = sender->put(sample_frame(series, i)); sent.ok()) sent = sender->flush();
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code(), Errc::timed_out) << sent.error().message();
  silent.request_stop();
  silent.join();
  while (receiver.is_called(0ms)) (void)receiver.next();  // calls that came before
  const auto ended = sender->end();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message(), sent.error().message());
  EXPECT_FALSE(receiver.is_called(0ms)) << "it does not try again";
}

INSTANTIATE_TEST_SUITE_P(To, TcpGivesUp, testing::Bool(),
                         [](const auto& each) { return each.param ? "TheStart" : "TheHello"; });

TEST(TcpHostile, WrongTokensTakeNoPlace) {
  TcpSourceOptions options;
  options.token = "secret";
  options.connections_max = 1;
  Receiver receiver(options);
  TcpControl wrong;
  wrong.token = "guess";
  std::vector<std::unique_ptr<RawClient>> guessers;
  for (int i = 0; i < 100; ++i) {
    guessers.push_back(std::make_unique<RawClient>(receiver.port));
    guessers.back()->send(encode_control(TcpKind::hello, 0, wrong));
  }
  auto sender_options = receiver.sender_options();
  sender_options.token = "secret";
  const auto sender = TcpSender::open(sender_options);
  EXPECT_TRUE(sender.ok()) << sender.error().message();
}

TEST(TcpHostile, MutationsDoNoHarm) {
  constexpr unsigned seed = 20261121;
  std::mt19937 random(seed);
  Receiver receiver;
  const auto series = sample_series("mutated");
  const auto pixels = sample_pixels(0, series.frame.bytes(1 << 30).value());
  std::vector<std::byte> message;
  encode_image_detached(sample_image(series, 0, pixels), message);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    RawClient client(receiver.port);
    client.hello();
    // Checksums are made right again, so that what is behind them is reached.
    auto mutated = message;
    for (int flip = 0; flip < 3; ++flip) mutated[random() % mutated.size()] = std::byte(random() & 0xff);
    client.send(frame_bytes(header_of(TcpKind::image, 1), mutated, pixels));
    auto whole = frame_bytes(header_of(TcpKind::image, 2), message, pixels);
    whole[random() % tcp_header_bytes] = std::byte(random() & 0xff);
    client.send(whole);
  }
  expect_alive(receiver, "after");
}

TEST(TcpLag, IsTheTimeBehindTheLowestRate) {
  Lag lag({.lag_max = 30s, .rate_min_bytes_per_s = 1000});
  for (int second = 0; second < 29; ++second) {
    lag.add(1s, 1);
    EXPECT_FALSE(lag.is_exceeded()) << second;
  }
  lag.add(1s, 1);
  lag.add(1s, 1);
  EXPECT_TRUE(lag.is_exceeded());
  EXPECT_EQ(lag.bytes(), 31u);
  EXPECT_EQ(lag.waited(), 31s);
  lag.begin_message();
  EXPECT_FALSE(lag.is_exceeded());
  EXPECT_EQ(lag.bytes(), 0u);
}

TEST(TcpLag, NeverGrowsAtTheLowestRate) {
  Lag lag({.lag_max = 1s, .rate_min_bytes_per_s = 64 << 10});
  for (int day = 0; day < 1000; ++day) lag.add(24h, std::size_t{86'400} * (64 << 10));
  EXPECT_FALSE(lag.is_exceeded());
}

TEST(TcpLag, GivesNoCreditForBytesThatCameFast) {
  Lag lag({.lag_max = 30s, .rate_min_bytes_per_s = 1000});
  lag.add(0s, 1'000'000'000);
  lag.add(29s, 0);
  EXPECT_FALSE(lag.is_exceeded());
  lag.add(1s, 1);
  EXPECT_FALSE(lag.is_exceeded());
  lag.add(1s, 0);
  EXPECT_TRUE(lag.is_exceeded());
}

TEST(TcpFrame, HeadersAreAsDocumented) {
  TcpHeader header;
  header.kind = TcpKind::image;
  header.flags = tcp_flag_pixels_crc;
  header.message_bytes = 0x01020304;
  header.pixels_bytes = 0x1112131415161718;
  header.sequence = 0x2122232425262728;
  header.message_crc = 0x31323334;
  header.pixels_crc = 0x41424344;
  std::array<std::byte, tcp_header_bytes> bytes;
  encode_header(header, bytes);
  std::string hex;
  for (const auto byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  EXPECT_EQ(hex.substr(0, 120),
            "504e5354"
            "0100"
            "0300"
            "02000000"
            "04030201"
            "1817161514131211"
            "2827262524232221"
            "34333231"
            "44434241"
            "0000000000000000000000000000000000000000");
  EXPECT_EQ(load_le<std::uint32_t>(&bytes[60]), crc32c(Bytes(bytes).first(60)));
  const auto again = decode_header(bytes).value();
  EXPECT_EQ(again.kind, header.kind);
  EXPECT_EQ(again.pixels_bytes, header.pixels_bytes);
  EXPECT_EQ(again.sequence, header.sequence);
}

TEST(TcpFrame, EveryFlippedBitOfAHeaderIsSeen) {
  std::array<std::byte, tcp_header_bytes> bytes;
  encode_header(header_of(TcpKind::image, 77), bytes);
  ASSERT_TRUE(decode_header(bytes).ok());
  for (std::size_t bit = 0; bit < 8 * tcp_header_bytes; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(decode_header(flipped).ok()) << "bit " << bit;
  }
}

}  // namespace
}  // namespace penstock::stream::test
