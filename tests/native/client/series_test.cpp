/// The client library beside the recorder's own TCP source, in one process.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <numeric>
#include <thread>

#include "../stream/receiver.hpp"
#include "../support/slow_sends.hpp"
#include "base/net/socket.hpp"
#include "client/penstock.hpp"
#include "stream/tcp/frame.hpp"

extern "C" {
#include "client/net.h"
}

namespace penstock::client {
namespace {

using stream::test::Receiver;
using namespace std::chrono_literals;

constexpr std::uint64_t rows = 30;
constexpr std::uint64_t columns = 40;
using Image = std::vector<std::uint16_t>;

Image image_of(std::uint64_t number) {
  Image image(rows * columns);
  std::iota(image.begin(), image.end(), static_cast<std::uint16_t>(7 * number));
  return image;
}

Options options_for(std::uint16_t port, std::string name = "s") {
  return {"127.0.0.1:" + std::to_string(port), std::move(name), type_of<std::uint16_t>(), {rows, columns}};
}

void expect_image(const Frame& frame, std::uint64_t number) {
  const auto image = image_of(number);
  ASSERT_EQ(frame.payload.size(), image.size() * 2);
  EXPECT_EQ(std::memcmp(frame.payload.data(), image.data(), frame.payload.size()), 0) << "frame " << number;
}

/// Cuts the connections to a port of this process, as the death of the recorder would: nobody can say goodbye.
void cut_off(std::uint16_t port) {
  const auto port_of = [](int descriptor, auto name_of) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    return name_of(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? ntohs(address.sin_port) : 0;
  };
  for (int descriptor = 3; descriptor < 1024; ++descriptor)
    if (port_of(descriptor, ::getsockname) == port && port_of(descriptor, ::getpeername) != 0)
      ::shutdown(descriptor, SHUT_RDWR);
}

/// The status and the words of what `call` throws.
template <typename Call>
std::pair<int, std::string> thrown_by(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.status(), error.what()};
  }
  return {PENSTOCK_OK, ""};
}

TEST(Client, EverythingThatIsToldArrives) {
  Receiver receiver;
  Map metadata;
  const std::vector<std::uint32_t> mask(rows * columns, 3);
  metadata.set("count_time", 0.25).set("saturation_value", 65000u).set("detector_description", "mine");
  metadata.set("flatfield_enabled", true).set("detector_translation", std::vector<double>{0, 0, 0.1});
  metadata.set("pixel_mask", Map().set_array("low", {rows, columns}, View(mask)));
  Map user_data;
  user_data.set("sample", "lysozyme").set("penstock", Map().set("other", -5));
  auto options = options_for(receiver.port);
  options.frames = 3;
  options.channels = {"low", "high"};
  options.series_id = 77;
  options.metadata = &metadata;
  options.user_data = &user_data;
  options.element = Element{2, 4, 5, {36}, {8, 0, 8}};
  Series series(options);
  for (std::uint64_t number = 0; number < 3; ++number) {
    const auto low = image_of(number);
    const auto high = image_of(number + 100);
    Map values;
    values.set("temperature", 20.5).set("step", static_cast<std::int64_t>(number) - 1).set("lamp", "on");
    FrameInfo info;
    info.metadata = &values;
    info.start_time_ns = static_cast<std::int64_t>(number) * 1'000'000'000;
    info.stop_time_ns = info.start_time_ns + 5;
    info.real_time_ns = 4;
    series.send(
        {{"low", low.data(), low.size() * 2, PENSTOCK_PLAIN}, {"high", high.data(), high.size() * 2, PENSTOCK_PLAIN}},
        info);
  }
  series.wait_acknowledged(60'000);
  EXPECT_EQ(series.acknowledged(), 3u);
  EXPECT_EQ(series.waiting(), 0u);
  EXPECT_EQ(series.waiting_bytes(), 0u);
  series.end();
  EXPECT_EQ(thrown_by([&] { series.poll(); }).first, PENSTOCK_INVALID);

  ASSERT_EQ(receiver.sink.rejected().size(), 0u) << receiver.sink.rejected()[0].second.message();
  const auto started = receiver.sink.series().at(0);
  EXPECT_EQ(started.id, 77u);
  EXPECT_EQ(started.frames, 3u);
  EXPECT_EQ(started.channels, (std::vector<std::string>{"low", "high"}));
  ASSERT_TRUE(started.element);
  EXPECT_EQ(started.element->number, 5u);
  EXPECT_EQ(started.element->row_gaps, (std::vector<std::uint32_t>{36}));
  EXPECT_EQ(started.element->column_gaps, (std::vector<std::uint32_t>{8, 0, 8}));
  const auto frames = receiver.sink.frames();
  ASSERT_EQ(frames.size(), 6u);
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(value(frames[i].number), i / 2);
    EXPECT_EQ(frames[i].channel, i % 2);
    EXPECT_EQ(frames[i].more, i % 2 == 0) << "both channels are in one message";
    expect_image(frames[i], i / 2 + 100 * (i % 2));
    EXPECT_EQ(frames[i].exposure_start_ns, static_cast<std::int64_t>(i / 2) * 1'000'000'000);
    EXPECT_EQ(frames[i].exposure_stop_ns, frames[i].exposure_start_ns + 5);
    EXPECT_EQ(frames[i].exposure_real_ns, 4);
    const std::vector<std::pair<std::string, MetaValue>> expected{
        {"temperature", 20.5}, {"step", static_cast<std::int64_t>(i / 2) - 1}, {"lamp", std::string("on")}};
    EXPECT_EQ(frames[i].metadata, expected);
  }
}

TEST(Client, AnAcknowledgementThatComesBeforeTheSendReturnsIsNotLost) {
  Receiver receiver;
  Series series(options_for(receiver.port));
  {
    penstock::testing::SlowSends slow(POLLIN);
    series.send(image_of(0));
  }
  series.wait_acknowledged(60'000);
  EXPECT_EQ(series.acknowledged(), 1u);
}

TEST(Client, ARecorderWhoseMachineIsGoneIsNoticed) {
  Receiver receiver;
  Series series(options_for(receiver.port));
  int clients = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (ntohs(address.sin_port) != receiver.port) continue;
    ++clients;
    const auto value_of = [&](int option) {
      int value = 0;
      socklen_t bytes = sizeof value;
      EXPECT_EQ(::getsockopt(descriptor, IPPROTO_TCP, option, &value, &bytes), 0);
      return value;
    };
    EXPECT_LE(value_of(TCP_KEEPIDLE) + value_of(TCP_KEEPINTVL) * value_of(TCP_KEEPCNT), 30);
  }
  EXPECT_EQ(clients, 1);
}

TEST(Client, WhatIsNotCopiedIsKeptUntilItIsAcknowledged) {
  Receiver receiver;
  receiver.sink.acknowledges = false;
  Series series(options_for(receiver.port));
  const auto owner = std::make_shared<const Image>(image_of(0));
  series.send(View(*owner), owner);
  series.send(image_of(1));
  ASSERT_TRUE(receiver.sink.wait_for_frames(2));
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(series.waiting(), 2u);
  receiver.sink.session("s")->safe_below("s", FrameNumber{2});
  series.wait_acknowledged(60'000);
  EXPECT_EQ(owner.use_count(), 1);
  // One that is not taken is let go at once.
  EXPECT_EQ(thrown_by([&] { series.send(View(owner->data(), 5), owner); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(owner.use_count(), 1);
  series.end();
  const auto frames = receiver.sink.frames();
  expect_image(frames.at(0), 0);
  expect_image(frames.at(1), 1);
}

TEST(Client, ALostConnectionCostsNothing) {
  auto receiver = std::make_unique<Receiver>();
  receiver->sink.acknowledges = false;
  const auto port = receiver->port;
  auto options = options_for(port);
  options.reconnect_timeout_ms = 20'000;
  Series series(options);
  for (std::uint64_t number = 0; number < 5; ++number) series.send(image_of(number));
  ASSERT_TRUE(receiver->sink.wait_for_frames(5));
  receiver->sink.session("s")->safe_below("s", FrameNumber{2});
  while (series.acknowledged() < 2) series.poll();
  cut_off(port);
  receiver.reset();

  // The next recorder knows nothing of it.
  penstock::test::RecordingSink sink;
  stream::TcpSourceOptions source_options;
  source_options.port = port;
  std::unique_ptr<Source> source;
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    source = stream::make_tcp_source(source_options).value();
    EXPECT_TRUE(source->start(sink).ok());
  });
  series.send(image_of(5));
  later.join();
  series.wait_acknowledged(60'000);
  series.end();
  EXPECT_EQ(series.acknowledged(), 6u);
  EXPECT_GE(series.resent(), 3u);
  EXPECT_GE(series.reconnects(), 1u);
  const auto frames = sink.frames();
  ASSERT_EQ(frames.size(), 4u) << "what was acknowledged is not sent again";
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(value(frames[i].number), i + 2);
    expect_image(frames[i], i + 2);
  }
}

TEST(Client, MemoryForResendingIsBounded) {
  Receiver receiver;
  receiver.sink.acknowledges = false;
  auto options = options_for(receiver.port);
  options.resend_bytes = 3 * rows * columns * 2;
  Series series(options);
  FrameInfo info;
  info.timeout_ms = 100;
  for (std::uint64_t number = 0; number < 3; ++number) series.send(View(image_of(number)), info);
  const auto [status, words] = thrown_by([&] { series.send(View(image_of(3)), info); });
  EXPECT_EQ(status, PENSTOCK_TIMEOUT);
  EXPECT_NE(words.find("3 frames of 7200 bytes"), std::string::npos) << words;
  EXPECT_EQ(series.sent(), 3u);
  ASSERT_TRUE(receiver.sink.wait_for_frames(3));
  receiver.sink.session("s")->safe_below("s", FrameNumber{1});
  info.timeout_ms = 10'000;
  series.send(View(image_of(3)), info);
  EXPECT_EQ(series.waiting(), 3u);
  receiver.sink.session("s")->safe_below("s", FrameNumber{4});
  series.wait_acknowledged(60'000);
  series.end();
  EXPECT_EQ(receiver.sink.frame_count(), 4u);
}

TEST(Client, RefusalsAndProblemsAreTold) {
  Receiver receiver;
  receiver.sink.on_put = [](const Frame& frame) {
    return value(frame.number) == 1 ? Result<void>(make_error(Errc::mismatch, "not this one")) : Result<void>();
  };
  Series series(options_for(receiver.port));
  for (std::uint64_t number = 0; number < 3; ++number) series.send(image_of(number));
  const auto [status, words] = thrown_by([&] { series.end(); });
  EXPECT_EQ(status, PENSTOCK_FRAMES_REFUSED);
  EXPECT_NE(words.find("1 of 3 frames"), std::string::npos) << words;
  ASSERT_EQ(series.refused().size(), 1u);
  EXPECT_EQ(series.refused()[0].number, 1u);
  EXPECT_EQ(series.refused()[0].reason, "not this one");
  EXPECT_EQ(series.waiting(), 0u);

  receiver.sink.set_problem("no space left");
  Series other(options_for(receiver.port, "t"));
  const auto problem = thrown_by([&] { other.end(); });
  EXPECT_EQ(problem.first, PENSTOCK_PROBLEM);
  EXPECT_NE(problem.second.find("no space left"), std::string::npos);
}

TEST(Client, ASeriesThatIsLeftIsNotEnded) {
  Receiver receiver;
  { Series(options_for(receiver.port)).send(image_of(0)); }
  ASSERT_TRUE(receiver.sink.wait_for_frames(1));
  auto options = options_for(receiver.port);
  EXPECT_EQ(thrown_by([&] { Series again(options); }).first, PENSTOCK_REFUSED);
  EXPECT_EQ(receiver.sink.ends().size(), 0u);
  options.resume = true;
  Series again(options);
  FrameInfo info;
  info.number = 4;
  again.send(View(image_of(4)), info);
  EXPECT_EQ(thrown_by([&] { again.send(View(image_of(4)), info); }).first, PENSTOCK_INVALID);
  again.end();
  EXPECT_EQ(receiver.sink.ends().size(), 1u);
  EXPECT_EQ(receiver.sink.frame_count(), 2u);
}

TEST(Client, ASeriesThatHadBeenClosedIsNamedSo) {
  Receiver receiver;
  auto options = options_for(receiver.port);
  Series first(options);
  first.send(image_of(0));
  first.end();
  options.resume = true;
  const auto [status, words] = thrown_by([&] {
    Series again(options);
    again.send(image_of(1));
  });
  EXPECT_EQ(status, PENSTOCK_PROBLEM);
  EXPECT_NE(words.find("had been closed already"), std::string::npos) << words;
}

TEST(Client, OneThatOthersCrowdOutConnectsAgain) {
  const auto listener = listen_on("127.0.0.1", 0, 0).value();
  const std::jthread receiver([&] {
    for (const auto* code : {"no_place", "timed_out", "refused"}) {
      pollfd more{listener.socket.descriptor(), POLLIN, 0};
      if (::poll(&more, 1, 20'000) != 1) return;
      Socket client(::accept4(more.fd, nullptr, nullptr, SOCK_CLOEXEC));
      std::array<std::byte, 4096> hello;
      (void)client.receive(hello, false);
      stream::TcpControl why;
      why.code = why.text = code;
      (void)client.send_all(stream::encode_control(stream::TcpKind::error, 0, why));
    }
  });
  const auto [status, text] = thrown_by([&] { Series series(options_for(listener.port)); });
  EXPECT_EQ(status, PENSTOCK_REFUSED);
  EXPECT_NE(text.find("refused"), std::string::npos) << text;
}

TEST(Client, WrongArgumentsAreSaidBeforeAnythingIsSent) {
  stream::TcpSourceOptions with_token;
  with_token.token = "secret";
  Receiver receiver(with_token);
  auto options = options_for(receiver.port);
  options.token = "wrong";
  EXPECT_EQ(thrown_by([&] { Series series(options); }).first, PENSTOCK_REFUSED);
  options.token = "secret";
  const auto without = [&](auto change) {
    auto changed = options;
    change(changed);
    return thrown_by([&] { Series series(changed); }).first;
  };
  EXPECT_EQ(without([](Options& each) { each.address = "nowhere"; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.address = "127.0.0.1:99999"; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.address = ":1"; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.name = ""; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.name = std::string(257, 'x'); }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.type = 11; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.shape = {5}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.shape = {5, 0}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.channels = {"a", "a"}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.element = Element{1, 2, 2}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.element = Element{1, 2, 1, {8}, {8}}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.element = Element{1, 2, 1, {}, {65536}}; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.resend_bytes = 0; }), PENSTOCK_INVALID);
  EXPECT_EQ(without([](Options& each) { each.address = "127.0.0.1:1", each.connect_timeout_ms = 100; }),
            PENSTOCK_DISCONNECTED);
  Map reserved;
  reserved.set("channels", "x");
  EXPECT_EQ(without([&](Options& each) { each.metadata = &reserved; }), PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { reserved.set("channels", "twice"); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { reserved.set("", 1); }).first, PENSTOCK_INVALID);

  Series series(options);
  EXPECT_EQ(thrown_by([&] { series.send(View(std::vector<std::int16_t>(rows * columns))); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { series.send(std::vector<std::uint16_t>(3)); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { series.send(std::vector<Pixels>()); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { series.send({Pixels{"b", "xx", 2, PENSTOCK_BSLZ4}}); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(thrown_by([&] { series.send({Pixels{"0", "xx", 2, 9}}); }).first, PENSTOCK_INVALID);
  FrameInfo info;
  info.start_time_ns = -2;
  EXPECT_EQ(thrown_by([&] { series.send(View(image_of(0)), info); }).first, PENSTOCK_INVALID);
  EXPECT_EQ(series.sent(), 0u);
  series.send(image_of(0));
  series.end();
  EXPECT_EQ(receiver.sink.frame_count(), 1u);
}

TEST(Client, NullHandlesAreErrors) {
  penstock_frame frame = PENSTOCK_FRAME_INIT;
  int released = 0;
  frame.release = [](void* count) { ++*static_cast<int*>(count); };
  frame.release_context = &released;
  EXPECT_EQ(penstock_send(nullptr, &frame), PENSTOCK_INVALID);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(penstock_begin(nullptr), PENSTOCK_INVALID);
  EXPECT_EQ(penstock_set_name(nullptr, "x"), PENSTOCK_INVALID);
  EXPECT_EQ(penstock_end(nullptr), PENSTOCK_INVALID);
  EXPECT_EQ(penstock_count(nullptr, PENSTOCK_COUNT_SENT), 0u);
  EXPECT_STRNE(penstock_error(nullptr), "");
  penstock_free(nullptr);
  penstock_map_free(nullptr);
  EXPECT_EQ(penstock_map_text(nullptr, "a", "b"), PENSTOCK_INVALID);
  EXPECT_EQ(penstock_version(), static_cast<std::uint32_t>(PENSTOCK_VERSION));
  EXPECT_STREQ(penstock_status_text(PENSTOCK_TIMEOUT), "timeout");
  EXPECT_STREQ(penstock_status_text(99), "unknown");
}

/// Several series at once, each on a thread of its own.
TEST(Client, DifferentSeriesAreIndependent) {
  Receiver receiver;
  receiver.sink.keeps_frames = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Series series(options_for(receiver.port, "series-" + std::to_string(i)));
      for (std::uint64_t number = 0; number < 200; ++number) series.send(image_of(number));
      series.end();
      EXPECT_EQ(series.acknowledged(), 200u);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(receiver.sink.frame_count(), 800u);
}

/// Rings a hundred times a second, and interrupts what waits.
class Alarm {
 public:
  Alarm() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++rings; };
    EXPECT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
    const itimerval often{{0, 10'000}, {0, 10'000}};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  }
  ~Alarm() {
    const itimerval never{};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
    EXPECT_EQ(::sigaction(SIGALRM, &before_, nullptr), 0);
  }
  static inline std::atomic<int> rings = 0;

 private:
  struct sigaction before_ = {};
};

/// Who listens and has no room for connections answers the next one when it has some again, a second later.
TEST(Client, SignalsDoNotEndTheWaitForAConnection) {
  const Socket busy(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(busy.descriptor(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(busy.descriptor(), 0), 0);
  ASSERT_EQ(::getsockname(busy.descriptor(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto port = std::to_string(ntohs(address.sin_port));
  std::array<char, 128> why = {};
  const auto first = pst_net_connect("127.0.0.1", port.c_str(), 1000, why.data(), why.size());
  ASSERT_NE(first, PST_NO_SOCKET) << why.data();
  pst_socket second = PST_NO_SOCKET;
  {
    const Alarm alarm;
    std::thread makes_room([&] {
      while (Alarm::rings <= 10) std::this_thread::sleep_for(10ms);
      ::close(::accept(busy.descriptor(), nullptr, nullptr));
    });
    second = pst_net_connect("127.0.0.1", port.c_str(), 10'000, why.data(), why.size());
    EXPECT_GT(Alarm::rings, 10) << "it had room at once";
    makes_room.join();
  }
  EXPECT_NE(second, PST_NO_SOCKET) << why.data();
  pst_net_close(first);
  if (second != PST_NO_SOCKET) pst_net_close(second);
}

}  // namespace
}  // namespace penstock::client
