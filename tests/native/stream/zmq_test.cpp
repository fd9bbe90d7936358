#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "../support/recording_sink.hpp"
#include "base/net/socket.hpp"
#include "samples.hpp"
#include "stream/zmq/monitor.hpp"
#include "stream/zmq/sender.hpp"
#include "stream/zmq/socket.hpp"
#include "stream/zmq/source.hpp"
#include "vectors.hpp"

namespace penstock::stream::test {
namespace {

using namespace std::chrono_literals;
using penstock::test::RecordingSink;

struct Pair {
  explicit Pair(ZmqSourceOptions source_options = {}, std::size_t pool_bytes = std::size_t{64} << 20)
      : sink(pool_bytes) {
    ZmqSenderOptions options;
    options.endpoint = "tcp://127.0.0.1:*";
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

/// A receiver that takes messages only when it is asked to.
class RawReceiver {
 public:
  explicit RawReceiver(const std::string& endpoint)
      : context_(make_zmq_context()), socket_(::zmq_socket(context_.get(), ZMQ_PULL)) {
    const int one = 1, patience_ms = 10'000;
    EXPECT_EQ(::zmq_setsockopt(socket_.get(), ZMQ_RCVHWM, &one, sizeof one), 0);
    EXPECT_EQ(::zmq_setsockopt(socket_.get(), ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms), 0);
    EXPECT_EQ(::zmq_connect(socket_.get(), endpoint.c_str()), 0);
  }

  bool take() {
    ZmqMessage message;
    return ::zmq_msg_recv(message.get(), socket_.get(), 0) >= 0;
  }

 private:
  ZmqContext context_;
  ZmqSocket socket_;
};

/// A sender with a series of large frames, and what it says while it waits.
struct Impatient {
  explicit Impatient(std::chrono::milliseconds reconnect_timeout) : series(sample_series("one", 1024, 1024)) {
    ZmqSenderOptions options;
    options.endpoint = "tcp://127.0.0.1:*";
    options.messages_max = 1;
    options.linger = 0ms;
    options.reconnect_timeout = reconnect_timeout;
    options.on_wait = [this](const SenderWait& wait) { waits.push_back(wait); };
    sender = ZmqSender::open(options).value();
  }
  /// Sends frames until one is not sent, at most `count`.
  Result<void> put(std::uint64_t count) {
    Result<void> outcome;
    for (std::uint64_t number = 0; number < count && outcome.ok(); ++number)
      outcome = sender->put(sample_frame(series, number));
    return outcome;
  }

  Series series;
  std::vector<SenderWait> waits;
  std::unique_ptr<ZmqSender> sender;
};

TEST(Zmq, ALostReceiverIsWaitedForUntilTheTimeout) {
  Impatient sending(300ms);
  {
    RawReceiver receiver(sending.sender->address());
    ASSERT_TRUE(sending.sender->begin(sending.series).ok());
    ASSERT_TRUE(receiver.take());
  }
  sending.waits.clear();  // it may have waited for the first connection
  const auto outcome = sending.put(100);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Errc::timed_out);
  EXPECT_EQ(outcome.error().message(), sending.sender->address() +
                                           ": the receiver is gone, and no receiver connected "
                                           "again within 0.3 s (--reconnect-timeout)");
  ASSERT_EQ(sending.waits.size(), 1u) << "at once, and then every second";
  EXPECT_EQ(sending.waits[0].patience, 300ms);
  EXPECT_FALSE(sending.waits[0].over);
  EXPECT_FALSE(sending.sender->end().ok()) << "and does not wait again";
  EXPECT_EQ(sending.waits.size(), 1u);
}

TEST(Zmq, AConnectedReceiverThatTakesNothingIsNotLost) {
  Impatient sending(50ms);
  RawReceiver receiver(sending.sender->address());
  ASSERT_TRUE(sending.sender->begin(sending.series).ok());
  ASSERT_TRUE(receiver.take());
  sending.waits.clear();  // it may have waited for the connection
  auto sent = std::async(std::launch::async, [&] { return sending.put(20); });
  ASSERT_EQ(sent.wait_for(600ms), std::future_status::timeout) << "the buffers of the sockets are full";
  std::jthread taking([&] {
    for (int i = 0; i < 20; ++i) (void)receiver.take();
  });
  EXPECT_TRUE(sent.get().ok());
  EXPECT_TRUE(sending.waits.empty());
}

TEST(Zmq, ACancelledSenderNamesTheAddressAsItWasGiven) {
  const auto sender = ZmqSender::open({.endpoint = "tcp://127.0.0.1:*"}).value();
  EXPECT_TRUE(sender->address().starts_with("tcp://127.0.0.1:")) << sender->address();
  EXPECT_FALSE(sender->address().ends_with("*"));
  sender->cancel();
  EXPECT_EQ(sender->begin(sample_series("one", 30, 51)).error().message(), sender->address() + ": cancelled");
}

/// A peer that sends what it likes.
struct RawPeer {
  RawPeer() : context(make_zmq_context()), socket(::zmq_socket(context.get(), ZMQ_PUSH)) {
    const int linger = 0;
    EXPECT_EQ(::zmq_setsockopt(socket.get(), ZMQ_LINGER, &linger, sizeof linger), 0);
    EXPECT_EQ(::zmq_bind(socket.get(), "tcp://127.0.0.1:*"), 0);
    ZmqSourceOptions options;
    options.endpoint = last_endpoint(socket.get(), "");
    source = make_zmq_source(options).value();
    EXPECT_TRUE(source->start(sink).ok());
  }
  void send(Bytes message, int flags = 0) {
    EXPECT_GE(::zmq_send(socket.get(), message.data(), message.size(), flags), 0);
  }

  RecordingSink sink;
  ZmqContext context;
  ZmqSocket socket;
  std::unique_ptr<Source> source;
};

TEST(Zmq, OddFieldsOfAnImageCostNoPixels) {
  RawPeer peer;
  auto series = sample_series("01ABC", 3, 4);
  peer.send(encode_start(series));
  peer.send(read_vector("bad_time_denominator_0"));
  ASSERT_TRUE(peer.sink.wait_for_frames(1));
  EXPECT_TRUE(peer.sink.damaged().empty());
  EXPECT_TRUE(peer.sink.rejected().empty());
  ASSERT_EQ(peer.sink.notes().size(), 1u);
  EXPECT_EQ(peer.sink.frames().front().exposure_start_ns, -1);
}

TEST(Zmq, AStartThatCannotBeUnderstoodIsARefusedSeries) {
  RawPeer peer;
  peer.send(read_vector("bad_dtype"));
  ASSERT_TRUE(peer.sink.wait_for_rejected(1));
  EXPECT_EQ(peer.sink.refused_starts(), std::vector<std::string>{"01ABC"});
  peer.send(read_vector("image_u16"));
  ASSERT_TRUE(peer.sink.wait_for_rejected(2));
  const auto rejected = peer.sink.rejected();
  EXPECT_EQ(rejected.back().second.message(),
            "image 5 belongs to series \"01ABC\", whose start was rejected: " + rejected.front().second.message());
}

Series series_without_type(const std::string& unique_id) {
  auto series = sample_series(unique_id, 3, 4);
  series.has_type = false;
  return series;
}

TEST(Zmq, ASeriesWithoutATypeBeginsWithItsFirstImage) {
  RawPeer peer;
  auto series = series_without_type("01ABC");
  peer.send(encode_start(series));
  peer.send(read_vector("image_u32"));
  ASSERT_TRUE(peer.sink.wait_for_frames(1));
  peer.send(encode_end({series.id, series.unique_id}));
  ASSERT_TRUE(peer.sink.wait_for_ends(1));
  const auto begun = peer.sink.series();
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].frame, (ArraySpec{ElementType::u32, {3, 4}}));
  EXPECT_EQ(begun[0].frames, 100u);
  EXPECT_TRUE(peer.sink.rejected().empty());
  EXPECT_TRUE(peer.sink.notes().empty());
}

TEST(Zmq, ASeriesThatLacksAllButItsNameIsRecorded) {
  RawPeer peer;
  peer.send(read_vector("start_name_only"));
  peer.send(read_vector("image_two_channels"));
  ASSERT_TRUE(peer.sink.wait_for_frames(2));
  const auto begun = peer.sink.series();
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].channels.size(), 2u);
  EXPECT_TRUE(peer.sink.rejected().empty());
}

TEST(Zmq, ADamagedFirstImageIsNotedOnceTheSeriesHasBegun) {
  RawPeer peer;
  peer.send(encode_start(series_without_type("01ABC")));
  peer.send(read_vector("bad_shape_larger_than_bytes"));
  ASSERT_TRUE(peer.sink.wait_for_rejected(1));
  EXPECT_TRUE(peer.sink.damaged().empty());
  peer.send(read_vector("image_u16"));
  ASSERT_TRUE(peer.sink.wait_for_frames(1));

  EXPECT_EQ(peer.sink.damaged(), std::vector<std::uint64_t>{5});
}

TEST(Zmq, ASeriesWithoutATypeAndWithoutImagesIsRejectedByName) {
  RawPeer peer;
  for (const auto* name : {"first", "second"}) peer.send(encode_start(series_without_type(name)));
  ASSERT_TRUE(peer.sink.wait_for_rejected(1));
  peer.send(encode_end({7, "second"}));
  ASSERT_TRUE(peer.sink.wait_for_rejected(2));
  const auto rejected = peer.sink.rejected();
  EXPECT_EQ(rejected[0].second.message(),
            "series first has no file: its start message lacks image_dtype, and no image arrived before another series "
            "started");
  EXPECT_EQ(rejected[1].second.message(),
            "series second has no file: its start message lacks image_dtype, and no image arrived before its end");
  EXPECT_TRUE(peer.sink.series().empty());
}

TEST(Zmq, AnImageKeepsTheChannelsThatWereDeclared) {
  RawPeer peer;
  auto series = sample_series("01ABC", 3, 4);
  series.channels = {"threshold_2"};
  peer.send(encode_start(series));
  peer.send(read_vector("image_two_channels"));
  ASSERT_TRUE(peer.sink.wait_for_frames(1));
  EXPECT_EQ(peer.sink.frame_count(), 1u);
  ASSERT_EQ(peer.sink.notes().size(), 1u);
  EXPECT_NE(peer.sink.notes()[0].second.message().find("channel \"threshold_1\" is not one of the series' channels "
                                                       "[threshold_2]: it is left out"),
            std::string::npos)
      << peer.sink.notes()[0].second.message();
  EXPECT_TRUE(peer.sink.rejected().empty());
  EXPECT_TRUE(peer.sink.damaged().empty());
}

/// As tickit-devices' EIGER does when it has several at a time.
TEST(Zmq, MessagesSentAsPartsOfOneAreTakenInOrder) {
  RawPeer peer;
  peer.send(encode_start(sample_series("01ABC", 3, 4)), ZMQ_SNDMORE);
  peer.send(read_vector("bad_time_denominator_0"), ZMQ_SNDMORE);
  peer.send(encode_end({1, "01ABC"}));
  ASSERT_TRUE(peer.sink.wait_for_ends(1));
  EXPECT_EQ(peer.sink.frame_count(), 1u);
  EXPECT_TRUE(peer.sink.rejected().empty());
}

TEST(Zmq, NobodyAtTheOtherEndIsToldOnce) {
  const auto told = [](const std::string& endpoint) {
    RecordingSink sink;
    ZmqSourceOptions options;
    options.endpoint = endpoint;
    const auto source = make_zmq_source(options).value();
    EXPECT_TRUE(source->start(sink).ok());
    EXPECT_TRUE(sink.wait_for_notes(1));
    std::this_thread::sleep_for(300ms);
    EXPECT_EQ(sink.notes().size(), 1u);
    return sink.notes().front().second.message();
  };
  auto unknown = std::async(std::launch::async, told, "tcp://nosuchhost.invalid:31001");
  auto nobody = std::async(std::launch::async, told, "tcp://127.0.0.1:1");
  const auto listener = listen_on("127.0.0.1", 0, 0).value();
  const auto mute = told(tcp_address("127.0.0.1", listener.port));
  EXPECT_NE(mute.find("has not answered as ZeroMQ"), std::string::npos) << mute;
  const auto text = unknown.get();
  EXPECT_NE(text.find("is the host's name correct"), std::string::npos) << text;
  const auto refused = nobody.get();
  EXPECT_NE(refused.find("no answer from"), std::string::npos) << refused;
}

TEST(Zmq, AnotherSeriesOfTheSameNameIsBegunAnew) {
  Pair pair;
  const auto series = sample_series("one", 30, 51);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sender->begin(series).ok());
  for (const std::uint64_t number : {0, 1, 2}) ASSERT_TRUE(pair.sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_ends(3));
  EXPECT_TRUE(pair.sink.rejected().empty());
  EXPECT_EQ(pair.sink.series().size(), 2u);
  std::vector<std::uint64_t> generations;
  for (const auto& frame : pair.sink.frames()) generations.push_back(frame.generation);
  EXPECT_EQ(generations, (std::vector<std::uint64_t>{1, 2, 2, 2}));
  const auto ends = pair.sink.ends();
  EXPECT_TRUE(ends[1].anew && !ends[1].by_start) << "it had said its end";
  EXPECT_EQ(ends[1].source, pair.source->address());
  EXPECT_EQ((std::vector{ends[0].generation, ends[1].generation, ends[2].generation}),
            (std::vector<std::uint64_t>{1, 1, 2}));
}

/// Whatever its frames are numbered, they belong to no series that was there before.
TEST(Zmq, AnotherSeriesOfTheSameNameThatIsRefusedBringsNoFrames) {
  Pair pair;
  pair.sink.takes_anew = false;
  const auto series = sample_series("one", 30, 51);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sender->begin(series).ok());
  for (const std::uint64_t number : {0, 1, 2}) ASSERT_TRUE(pair.sender->put(sample_frame(series, number)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_rejected(4));
  ASSERT_TRUE(pair.sender->begin(sample_series("two", 30, 51)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_ends(3));
  EXPECT_EQ(pair.sink.ends().back().unique_id, "two");
  EXPECT_EQ(pair.sink.frame_count(), 1u);
  EXPECT_TRUE(pair.sink.damaged().empty());
  const auto rejected = pair.sink.rejected();
  ASSERT_EQ(rejected.size(), 4u);
  EXPECT_EQ(rejected[1].second.message(),
            "image 0 belongs to series \"one\", whose start was rejected: " + rejected[0].second.message());
}

TEST(Zmq, OneThatBeginsAnewOnAnotherDateEndsTheOneBefore) {
  Pair pair;
  auto series = sample_series("one", 30, 51);
  series.arm_date = "2026-11-20T10:00:00Z";
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  series.arm_date = "2026-11-20T10:05:00Z";
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 1)).ok());
  ASSERT_TRUE(pair.sink.wait_for_frames(2));
  ASSERT_EQ(pair.sink.ends().size(), 1u);
  EXPECT_TRUE(pair.sink.ends().front().by_start && pair.sink.ends().front().anew);
  EXPECT_EQ(pair.sink.frames().back().generation, 2u);
  EXPECT_TRUE(pair.sink.rejected().empty());
}

/// Of those that connect to us each may send the start of the series that it deals with others.
TEST(Zmq, WhereManyConnectASecondStartIsNotAnotherSeries) {
  RecordingSink sink;
  ZmqSourceOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.bind = true;
  const auto source = make_zmq_source(options).value();
  ASSERT_TRUE(source->start(sink).ok());
  const ZmqContext context(make_zmq_context());
  const auto series = sample_series("one", 30, 51);
  const auto start = encode_start(series);
  const auto end = encode_end({series.id, series.unique_id});
  for (std::size_t pushers = 1; pushers < 3; ++pushers) {
    const ZmqSocket pusher(::zmq_socket(context.get(), ZMQ_PUSH));
    ASSERT_EQ(::zmq_connect(pusher.get(), source->address().c_str()), 0);
    for (const auto& message : {start, end}) ASSERT_GE(::zmq_send(pusher.get(), message.data(), message.size(), 0), 0);
    ASSERT_TRUE(sink.wait_for_ends(pushers));
  }
  EXPECT_EQ(sink.series().size(), 1u);
  for (const auto& each : sink.ends()) EXPECT_FALSE(each.anew);
}

TEST(Zmq, TheConfigurationTellsWhichElementAStreamIsOf) {
  ZmqSourceOptions options;
  options.element = ElementPlace{2, 2, 3};
  Pair pair(options);
  auto series = sample_series("silent", 30, 51);
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_ends(1));
  EXPECT_EQ(pair.sink.series().front().element, options.element);
  EXPECT_EQ(pair.sink.frames().front().element, 3u);
  EXPECT_EQ(pair.sink.ends().front().element, 3u);

  series = sample_series("other", 30, 51);
  series.user_data_json = R"({"penstock":{"element":{"grid":[2,2],"number":1}}})";
  ASSERT_TRUE(pair.sender->begin(series).ok());
  ASSERT_TRUE(pair.sender->put(sample_frame(series, 0)).ok());
  ASSERT_TRUE(pair.sender->end().ok());
  ASSERT_TRUE(pair.sink.wait_for_rejected(2));
  EXPECT_EQ(pair.sink.series().size(), 1u);
  EXPECT_EQ(pair.sink.frame_count(), 1u);
  const auto why = pair.sink.rejected().front().second.message();
  EXPECT_NE(why.find("names element 1 of [2, 2]"), std::string::npos) << why;
  EXPECT_NE(why.find("this source names element 3 of [2, 2]"), std::string::npos) << why;
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

/// Of an EIGER2 with masks: the tables of a start message may be larger than the pool of frames.
TEST(Zmq, AStartMessageAboveThePoolArrives) {
  constexpr std::size_t pool_bytes = std::size_t{32} << 20;  // of --pool 64MiB
  ZmqSourceOptions options;
  options.limits.frame_bytes_max = pool_bytes;
  options.limits.table_bytes_max = std::size_t{512} << 20;
  Pair pair(options, pool_bytes);
  auto series = sample_series("masks", 30, 51);
  for (const std::uint64_t rows : {8750, 27500}) {  // 35 and 110 MB
    series.unique_id = fmt::format("masks-{}", rows);
    series.frame = {ElementType::u8, {rows, 1000}};
    NamedArray mask;
    mask.channel = "threshold_1";
    mask.spec = {ElementType::u32, {rows, 1000}};
    mask.data.resize(rows * 4000);
    series.pixel_mask = {mask};
    ASSERT_TRUE(pair.sender->begin(series).ok());
    ASSERT_TRUE(pair.sender->end().ok());
  }
  ASSERT_TRUE(pair.sink.wait_for_ends(2));
  EXPECT_TRUE(pair.sink.rejected().empty());
  ASSERT_EQ(pair.sink.series().size(), 2u);
  ASSERT_EQ(pair.sink.series().back().pixel_mask.size(), 1u);
  EXPECT_EQ(pair.sink.series().back().pixel_mask.front().data.size(), 110'000'000u);
}

ZmqSourceOptions small_messages() {
  ZmqSourceOptions options;
  options.limits.frame_bytes_max = options.limits.table_bytes_max = 1 << 20;
  return options;
}

TEST(Zmq, WhereItListensRepeatedDisconnectsAreReportedOnce) {
  RecordingSink sink;
  auto options = small_messages();
  options.bind = true;
  options.endpoint = "tcp://127.0.0.1:*";
  const auto source = make_zmq_source(options).value();
  ASSERT_TRUE(source->start(sink).ok());
  const auto large = std::make_shared<std::vector<std::byte>>(7 << 20);
  for (int i = 0; i < 5; ++i) {
    ZmqSenderOptions to;
    to.endpoint = source->address();
    to.bind = false;
    to.linger = 0ms;
    const auto sender = ZmqSender::open(to).value();
    ASSERT_TRUE(sender->put_message(*large, large).ok());
    std::this_thread::sleep_for(300ms);
  }
  ASSERT_TRUE(sink.wait_for_notes(1));
  std::this_thread::sleep_for(300ms);
  ASSERT_EQ(sink.notes().size(), 1u);
  const auto text = sink.notes().front().second.message();
  EXPECT_NE(
      text.find(source->address() + ": the peer's message exceeds 6291456 bytes (pool_bytes, tables_bytes), or the "
                                    "peer closes the connection"),
      std::string::npos)
      << text;
}

/// A detector's end: PUSH, and messages of several parts.
struct OldDetector {
  explicit OldDetector(std::size_t pool_bytes = std::size_t{64} << 20, ZmqSourceOptions options = {})
      : sink(pool_bytes) {
    context = make_zmq_context();
    socket.reset(::zmq_socket(context.get(), ZMQ_PUSH));
    const int linger = 0;
    EXPECT_EQ(::zmq_setsockopt(socket.get(), ZMQ_LINGER, &linger, sizeof linger), 0);
    EXPECT_TRUE(connections.open(context.get(), socket.get(), ZMQ_EVENT_HANDSHAKE_SUCCEEDED).ok());
    EXPECT_EQ(::zmq_bind(socket.get(), "tcp://127.0.0.1:*"), 0);
    options.endpoint = last_endpoint(socket.get(), "");
    source = make_zmq_source(options).value();
    EXPECT_TRUE(source->start(sink).ok());
  }

  /// False if the receiver does not connect, for the first time or again.
  bool wait_for_connection() {
    for (int i = 0; i < 6000; ++i) {
      if (connections.take()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  void send(const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_GE(::zmq_send(socket.get(), parts[i].data(), parts[i].size(), i + 1 < parts.size() ? ZMQ_SNDMORE : 0), 0);
  }
  void send_header(int series) {
    send({fmt::format(R"({{"htype":"dheader-1.0","series":{},"header_detail":"none"}})", series)});
  }
  void send_image(int series, int frame, const std::string& pixels, const std::string& encoding) {
    send({fmt::format(R"({{"htype":"dimage-1.0","series":{},"frame":{}}})", series, frame),
          fmt::format(R"({{"htype":"dimage_d-1.0","shape":[100,50],"type":"uint16","encoding":"{}"}})", encoding),
          pixels, R"({"htype":"dconfig-1.0"})"});
  }
  void send_end(int series) { send({fmt::format(R"({{"htype":"dseries_end-1.0","series":{}}})", series)}); }

  RecordingSink sink;
  ZmqContext context;
  ZmqSocket socket;
  ZmqMonitor connections;
  std::unique_ptr<Source> source;
};

TEST(Zmq, AMessageAboveTheLimitIsReportedAndTheNextSeriesArrives) {
  OldDetector detector(std::size_t{64} << 20, small_messages());
  ASSERT_TRUE(detector.wait_for_connection());
  detector.send({std::string(7 << 20, 'l')});
  ASSERT_TRUE(detector.sink.wait_for_rejected(1));
  const auto text = detector.sink.rejected().front().second.message();
  EXPECT_NE(text.find("exceeds 6291456 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("tables_bytes"), std::string::npos) << text;
  // What is put into the connection that ZeroMQ gave up is lost.
  ASSERT_TRUE(detector.wait_for_connection());
  detector.send_header(4);
  detector.send_image(4, 0, std::string(10'000, 'p'), "<");
  detector.send_end(4);
  ASSERT_TRUE(detector.sink.wait_for_ends(1));
  EXPECT_EQ(detector.sink.frame_count(), 1u);
}

TEST(ZmqV1, ASeriesArrives) {
  OldDetector detector;
  detector.send_header(4);
  const std::string plain(10'000, 'p'), block(300, 'b');
  detector.send_image(4, 0, plain, "<");
  detector.send_image(4, 1, block, "lz4<");
  detector.send_end(4);
  ASSERT_TRUE(detector.sink.wait_for_ends(1));
  const auto series = detector.sink.series();
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0].id, 4u);
  EXPECT_TRUE(series[0].unique_id.starts_with("series-4-2")) << series[0].unique_id;
  EXPECT_EQ(series[0].frame, (ArraySpec{ElementType::u16, {50, 100}}));
  const auto frames = detector.sink.frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(as_text(frames[0].payload), plain);
  ASSERT_EQ(frames[1].payload.size(), 16 + block.size());
  EXPECT_EQ(load_be<std::uint64_t>(frames[1].payload.data()), 10'000u);
  EXPECT_EQ(load_be<std::uint32_t>(frames[1].payload.data() + 8), 10'000u);
  EXPECT_EQ(load_be<std::uint32_t>(frames[1].payload.data() + 12), block.size());
  EXPECT_TRUE(as_text(frames[1].payload).ends_with(block));
  EXPECT_TRUE(detector.sink.rejected().empty());
}

TEST(ZmqV1, SeveralMessagesInOneArrive) {
  OldDetector detector;
  const auto image = [](int frame, const std::string& pixels) {
    return std::vector<std::string>{fmt::format(R"({{"htype":"dimage-1.0","series":4,"frame":{}}})", frame),
                                    R"({"htype":"dimage_d-1.0","shape":[100,50],"type":"uint16","encoding":"<"})",
                                    pixels, R"({"htype":"dconfig-1.0"})"};
  };
  std::vector<std::string> parts{R"({"htype":"dheader-1.0","series":4,"header_detail":"basic"})",
                                 R"({"sensor_material":"Si"})"};
  for (const auto& more : {image(0, std::string(10'000, '{')), image(1, std::string(10'000, 'p'))})
    parts.insert(parts.end(), more.begin(), more.end());
  parts.push_back(R"({"htype":"dseries_end-1.0","series":4})");
  detector.send(parts);
  ASSERT_TRUE(detector.sink.wait_for_ends(1));
  const auto frames = detector.sink.frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(as_text(frames[0].payload), std::string(10'000, '{'));
  EXPECT_EQ(as_text(frames[1].payload), std::string(10'000, 'p'));
  EXPECT_EQ(detector.sink.series().front().sensor_material, "Si");
  EXPECT_TRUE(detector.sink.rejected().empty());
}

TEST(ZmqV1, FramesCountAgainstThePoolAndAreDroppedWhereNobodyWaits) {
  for (const auto* encoding : {"<", "lz4<"}) {
    OldDetector detector(35'000);
    detector.sink.holds = false;
    detector.send_header(4);
    const std::string pixels(encoding[0] == '<' ? 10'000 : 9'900, 'p');
    for (int frame = 0; frame < 6; ++frame) detector.send_image(4, frame, pixels, encoding);
    detector.send_end(4);
    ASSERT_TRUE(detector.sink.wait_for_ends(1));
    EXPECT_EQ(detector.sink.frame_count() + detector.sink.dropped().size(), 6u);
    EXPECT_GE(detector.sink.dropped().size(), 3u);
    EXPECT_LE(detector.sink.pool().used_bytes_max(), 35'000u);
    EXPECT_TRUE(detector.sink.rejected().empty());
    detector.sink.let_frames_go();
  }
}

TEST(ZmqV1, WhatCannotBeIsToldAndTheNextMessageIsRead) {
  OldDetector detector;
  detector.send(std::vector<std::string>(20, "{}"));
  detector.send({"x", "y"});
  detector.send_end(3);
  detector.send_header(4);
  detector.send_header(5);
  detector.send_image(5, 0, std::string(10'000, 'p'), "<");
  detector.send_image(5, 1, "short", "<");
  detector.send_end(5);
  detector.send_image(5, 2, std::string(10'000, 'p'), "<");
  detector.send_header(6);
  detector.send_end(6);
  ASSERT_TRUE(detector.sink.wait_for_rejected(8));
  std::vector<std::string> told;
  for (const auto& [source, why] : detector.sink.rejected()) told.push_back(why.message());
  const auto expected = {"a message of 20 parts",
                         "message",
                         "message",
                         "series 3 ends but did not start",
                         "none of its images arrived",
                         "but part 3 has 5",
                         "series 5, which has ended",
                         "series 6 ends without images"};
  ASSERT_EQ(told.size(), expected.size());
  std::size_t i = 0;
  for (const auto* text : expected) {
    EXPECT_NE(told[i].find(text), std::string::npos) << told[i];
    ++i;
  }
  EXPECT_EQ(detector.sink.damaged(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(detector.sink.frame_count(), 1u);
}

TEST(ZmqV1, ADamagedImageBeforeTheFirstGoodOneIsNotedOnceTheSeriesHasBegun) {
  OldDetector detector;
  detector.send_header(4);
  detector.send_image(4, 0, "short", "<");
  detector.send_image(4, 1, "short", "<");
  ASSERT_TRUE(detector.sink.wait_for_rejected(2));
  EXPECT_TRUE(detector.sink.damaged().empty());
  detector.send_image(4, 2, std::string(10'000, 'p'), "<");
  ASSERT_TRUE(detector.sink.wait_for_frames(1));
  EXPECT_EQ(detector.sink.damaged(), (std::vector<std::uint64_t>{0, 1}));
}

TEST(ZmqV1, DamagedImagesOfASeriesWithoutGoodOnesAreNotedAtItsEnd) {
  OldDetector detector;
  detector.send({R"({"htype":"dheader-1.0","series":4,"header_detail":"basic"})",
                 R"({"x_pixels_in_detector":100,"y_pixels_in_detector":50,"bit_depth_image":16})"});
  detector.send_image(4, 3, "short", "<");
  detector.send_end(4);
  ASSERT_TRUE(detector.sink.wait_for_ends(1));
  EXPECT_EQ(detector.sink.damaged(), std::vector<std::uint64_t>{3});
}

TEST(ZmqV1, SeveralRanksRefuseIt) {
  ZmqSourceOptions options;
  options.alone = false;
  OldDetector detector(std::size_t{64} << 20, options);
  detector.send_header(4);
  ASSERT_TRUE(detector.sink.wait_for_rejected(1));
  EXPECT_NE(detector.sink.rejected()[0].second.message().find("several ranks"), std::string::npos);
}

}  // namespace
}  // namespace penstock::stream::test
