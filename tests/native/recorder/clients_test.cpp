/// The client library and the recorder in one process, with a storage that does as it is told.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include "../support/full_disk.hpp"
#include "../support/slow_sends.hpp"
#include "base/net/socket.hpp"
#include "client/penstock.hpp"
#include "recorder_fixture.hpp"
#include "stream/tcp/tcp.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

/// Passes one connection after the other on to a recorder; each ends for the client alone, and the recorder does not
/// notice.
class Relay {
 public:
  explicit Relay(const std::string& address)
      : to_(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)))),
        listener_(listen_on("127.0.0.1", 0, 0).value()),
        thread_([this] { run(); }) {}
  ~Relay() {
    over_ = true;
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(listener_.port); }
  /// Returns once the client's end is closed.
  void cut() {
    cut_ = true;
    while (cut_) std::this_thread::sleep_for(1ms);
  }
  int passed() const { return passed_; }
  /// From now on nothing of the recorder reaches the client of this connection.
  void mute() { muted_ = true; }
  /// From now on nothing of the client reaches the recorder by this connection.
  void hold() {
    held_ = true;
    for (const int turn = turns_; turns_ < turn + 2;) std::this_thread::sleep_for(1ms);
  }

 private:
  void run() {
    for (; !over_; cut_ = muted_ = held_ = false) {
      if (!listener_.socket.readable(50ms).value()) continue;
      Socket client(::accept(listener_.socket.descriptor(), nullptr, nullptr));
      left_.push_back(connect_to("127.0.0.1", to_, 5s).value());
      ++passed_;
      while (!over_ && !cut_ && (held_ || pass(client, left_.back())) && (muted_ || pass(left_.back(), client))) {
        ++turns_;
      }
    }
  }
  static bool pass(Socket& from, Socket& to) {
    std::array<std::byte, 65536> piece;
    if (!from.readable(5ms).value()) return true;
    const auto got = from.receive_now(piece);
    return got.ok() && to.send_all(Bytes(piece).first(*got)).ok();
  }

  const std::uint16_t to_;
  Listener listener_;
  std::vector<Socket> left_;  ///< the recorder's ends
  std::atomic<bool> over_{false}, cut_{false}, muted_{false}, held_{false};
  std::atomic<int> passed_{0}, turns_{0};
  std::thread thread_;
};

class ClientsTest : public RecorderFixture {
 protected:
  void start(Env& env) { start(env, small_config()); }
  void start(Env& env, const Config& config) {
    recorder_ = std::make_unique<Recorder>(env, config, *events_, team_);
    ASSERT_TRUE(recorder_->start().ok());
    stream::TcpSourceOptions options;
    options.port = 0;
    source_ = stream::make_tcp_source(options).value();
    ASSERT_TRUE(source_->start(*recorder_).ok());
  }
  void stop() {
    source_->stop();
    recorder_->stop();
  }
  /// As when the recorder's process ends.
  void vanish() {
    stop();
    source_.reset();
  }
  void TearDown() override {
    source_.reset();
    recorder_.reset();
    RecorderFixture::TearDown();
  }

  client::Options options() const {
    const auto address = source_->address();
    return {address.substr(address.find("//") + 2), "s", client::type_of<std::uint16_t>(), {40, 50}};
  }
  static std::vector<std::uint16_t> image(std::uint64_t number) {
    return std::vector<std::uint16_t>(40 * 50, static_cast<std::uint16_t>(number + 1));
  }

  static stream::TcpSenderOptions sending_to(const std::string& address) {
    stream::TcpSenderOptions sending;
    sending.port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    return sending;
  }
  stream::TcpSenderOptions sending(std::function<void(const stream::SenderWait&)> on_wait = {}) const {
    auto sending = sending_to(source_->address());
    sending.on_wait = std::move(on_wait);
    return sending;
  }
  static Series series_of_three() {
    Series series;
    series.unique_id = "s";
    series.frames = 3;
    series.channels = {"data"};
    series.frame = {ElementType::u16, {40, 50}};
    return series;
  }
  static Frame frame(std::uint64_t number) {
    const auto pixels = std::make_shared<std::vector<std::uint16_t>>(image(number));
    Frame frame;
    frame.number = FrameNumber{number};
    frame.spec = series_of_three().frame;
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    return frame;
  }

  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Source> source_;
};

TEST_F(ClientsTest, AStorageThatWasFullIsNoProblemOnceAllFramesAreThere) {
  penstock::testing::FullDisk disk(false);
  auto config = small_config();
  config.end_timeout_s = 60;  // the series must not be closed before the client ends it
  start(disk.env(), config);
  auto wanted = options();
  wanted.frames = 20;
  client::Series series(wanted);
  series.send(image(0));
  series.wait_acknowledged(60'000);
  disk.fill();
  for (std::uint64_t number = 1; number < 20; ++number) series.send(image(number));
  for (int i = 0; i < 1200 && series.state().empty(); ++i) {
    std::this_thread::sleep_for(50ms);
    series.poll();
  }
  EXPECT_NE(series.state().find("storage full"), std::string::npos) << series.state();
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    disk.make_room();
  });
  EXPECT_NO_THROW(series.wait_acknowledged(60'000));
  later.join();
  EXPECT_NO_THROW(series.end());
  EXPECT_EQ(series.acknowledged(), 20u);
  EXPECT_GT(series.resent(), 0u) << "the storage was full";
  stop();
  EXPECT_EQ(recorder_->failed_series(), 0u);
  EXPECT_EQ(recorder_->snapshot().complete_series, 1u);
}

TEST_F(ClientsTest, FramesAreAcknowledgedThoughTheSeriesIsClosedWhenTheClientLooks) {
  auto config = small_config();
  config.end_timeout_s = 0;
  start(posix_env(), config);
  auto wanted = options();
  wanted.frames = 3;
  client::Series series(wanted);
  for (std::uint64_t number = 0; number < 3; ++number) series.send(image(number));
  for (int i = 0; i < 1200 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_NO_THROW(series.wait_acknowledged(60'000));
  EXPECT_NO_THROW(series.end());
  EXPECT_EQ(series.acknowledged(), 3u);
  stop();
}

TEST_F(ClientsTest, ARecorderThatIsGoneOnceTheSeriesIsWholeIsNoProblem) {
  auto config = small_config();
  config.end_timeout_s = 0;
  for (const bool polls : {true, false}) {
    start(posix_env(), config);
    auto wanted = options();
    wanted.name = polls ? "polls" : "waits";
    wanted.frames = 3;
    client::Series series(wanted);
    for (std::uint64_t number = 0; number < 3; ++number) series.send(image(number));
    for (int i = 0; i < 1200 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
    vanish();
    if (polls) {
      EXPECT_NO_THROW(series.poll());
    }
    EXPECT_NO_THROW(series.wait_acknowledged(60'000));
    EXPECT_NO_THROW(series.end());
    EXPECT_EQ(series.acknowledged(), 3u);
  }
}

TEST_F(ClientsTest, ASenderNeedsNoRecorderOnceTheSeriesIsWhole) {
  auto config = small_config();
  config.end_timeout_s = 0;
  start(posix_env(), config);
  auto sender = stream::TcpSender::open(sending()).value();
  ASSERT_TRUE(sender->begin(series_of_three()).ok());
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(sender->put(frame(number)).ok());
  std::thread later([&] {
    for (int i = 0; i < 1200 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
    vanish();
  });
  {
    penstock::testing::SlowSends slow(POLLRDHUP);
    EXPECT_TRUE(sender->flush().ok());
  }
  later.join();
  EXPECT_TRUE(sender->flush().ok());
  EXPECT_EQ(sender->receipt().safe_below, 3u);
}

TEST_F(ClientsTest, AClientWhoseConnectionIsLostLearnsThatTheClosedSeriesIsComplete) {
  auto config = small_config();
  config.end_timeout_s = 0;
  start(posix_env(), config);
  Relay relay(options().address);
  auto wanted = options();
  wanted.address = relay.address();
  wanted.frames = 3;
  client::Series series(wanted);
  relay.mute();
  for (std::uint64_t number = 0; number < 3; ++number) series.send(image(number));
  for (int i = 0; i < 1200 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  relay.cut();
  EXPECT_NO_THROW(series.end());
  EXPECT_EQ(series.acknowledged(), 3u);
  EXPECT_EQ(series.resent(), 0u);
  EXPECT_EQ(relay.passed(), 2);
  stop();
}

TEST_F(ClientsTest, ASenderWhoseConnectionIsLostLearnsThatTheClosedSeriesIsComplete) {
  auto config = small_config();
  config.end_timeout_s = 0;
  start(posix_env(), config);
  Relay relay(options().address);
  auto sender = stream::TcpSender::open(sending_to(relay.address())).value();
  ASSERT_TRUE(sender->begin(series_of_three()).ok());
  relay.mute();
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(sender->put(frame(number)).ok());
  ASSERT_TRUE(sender->flush().ok());
  for (int i = 0; i < 1200 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  relay.cut();
  ASSERT_TRUE(sender->end().ok());
  const auto receipt = sender->finish(60s);
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();
  EXPECT_EQ(receipt->safe_below, 3u);
  EXPECT_EQ(receipt->refused, 0u) << receipt->first_refusal;
  stop();
}

/// The recorder does not read the last frame any more.
TEST_F(ClientsTest, ASenderReportsFramesThatTheRecorderDidNotKeep) {
  start(posix_env());
  Relay relay(options().address);
  auto sender = stream::TcpSender::open(sending_to(relay.address())).value();
  ASSERT_TRUE(sender->begin(series_of_three()).ok());
  for (std::uint64_t number = 0; number < 2; ++number) ASSERT_TRUE(sender->put(frame(number)).ok());
  ASSERT_TRUE(sender->flush().ok());
  for (int i = 0; i < 1200 && recorder_->snapshot().meters.frames_written < 2; ++i) std::this_thread::sleep_for(50ms);
  relay.hold();
  ASSERT_TRUE(sender->put(frame(2)).ok());
  ASSERT_TRUE(sender->flush().ok());
  stop();
  const auto receipt = sender->finish(60s);
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();
  EXPECT_EQ(receipt->safe_below, 2u);
  EXPECT_EQ(receipt->unacknowledged, 1u);
}

/// The storage keeps the series from closing until the client is back and has sent all of its frames again.
TEST_F(ClientsTest, AClientThatComesBackWhileItsSeriesClosesIsNotRefused) {
  penstock::testing::FaultEnv device;
  std::atomic<bool> stalls{false}, stalled{false};
  device.faults->on_write = [&](auto, auto) {
    while (stalls && recorder_->snapshot().meters.frames_written == 3) {
      stalled = true;
      std::this_thread::sleep_for(5ms);
    }
    return Result<void>{};
  };
  auto config = small_config();
  config.end_timeout_s = 0;
  start(device, config);
  Relay relay(options().address);
  auto wanted = options();
  wanted.address = relay.address();
  wanted.frames = 3;
  client::Series series(wanted);
  relay.mute();
  stalls = true;
  for (std::uint64_t number = 0; number < 3; ++number) series.send(image(number));
  for (int i = 0; i < 1200 && !stalled; ++i) std::this_thread::sleep_for(50ms);
  std::thread later([&] {
    std::this_thread::sleep_for(1s);
    stalls = false;
  });
  relay.cut();
  EXPECT_NO_THROW(series.end());
  later.join();
  EXPECT_EQ(series.acknowledged(), 3u);
  EXPECT_EQ(recorder_->snapshot().rejected, 0u);
  stop();
}

/// It is given less time for a new connection than that takes.
TEST_F(ClientsTest, ASenderThatComesBackWhileItsSeriesClosesWaitsForThat) {
  penstock::testing::FaultEnv device;
  std::atomic<bool> stalls{false}, stalled{false};
  device.faults->on_write = [&](auto, auto) {
    while (stalls && recorder_->snapshot().meters.frames_written == 3) {
      stalled = true;
      std::this_thread::sleep_for(5ms);
    }
    return Result<void>{};
  };
  auto config = small_config();
  config.end_timeout_s = 0;
  start(device, config);
  Relay relay(options().address);
  auto to = sending_to(relay.address());
  to.reconnect_timeout = 500ms;
  auto sender = stream::TcpSender::open(to).value();
  ASSERT_TRUE(sender->begin(series_of_three()).ok());
  relay.mute();
  stalls = true;
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(sender->put(frame(number)).ok());
  ASSERT_TRUE(sender->flush().ok());
  for (int i = 0; i < 1200 && !stalled; ++i) std::this_thread::sleep_for(50ms);
  std::thread later([&] {
    std::this_thread::sleep_for(2s);
    stalls = false;
  });
  relay.cut();
  EXPECT_TRUE(sender->end().ok());
  const auto receipt = sender->finish(60s);
  later.join();
  ASSERT_TRUE(receipt.ok()) << receipt.error().message();
  EXPECT_EQ(receipt->safe_below, 3u);
  stop();
}

/// Nothing would end it: --end-after counts from the first frame on.
TEST_F(ClientsTest, ASeriesWhoseOnlySenderVanishesBeforeItsFirstFrameIsClosed) {
  auto config = small_config();
  config.idle_timeout_s = 1;
  start(posix_env(), config);
  { client::Series series(options()); }
  for (int i = 0; i < 600 && recorder_->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(recorder_->snapshot().complete_series, 1u);
  stop();
}

TEST_F(ClientsTest, AClientIsToldThatTheStorageIsFull) {
  penstock::testing::FullDisk disk(false);
  start(disk.env());
  client::Series series(options());
  series.send(image(0));
  series.wait_acknowledged(60'000);
  EXPECT_EQ(series.state(), "");
  disk.fill();
  series.send(image(1));
  for (int i = 0; i < 600 && series.state().empty(); ++i) {
    std::this_thread::sleep_for(50ms);
    series.poll();
  }
  EXPECT_NE(series.state().find("storage full: waiting"), std::string::npos) << series.state();
  try {
    series.wait_acknowledged(1);
    ADD_FAILURE() << "the storage is full";
  } catch (const client::Error& error) {
    EXPECT_EQ(error.status(), PENSTOCK_TIMEOUT);
    EXPECT_NE(std::string(error.what()).find("storage full: waiting"), std::string::npos) << error.what();
  }
  disk.make_room();
  EXPECT_NO_THROW(series.end());
  EXPECT_EQ(series.state(), "") << "frames are taken again";
  stop();
}

TEST_F(ClientsTest, AStorageThatFailsForGoodClosesTheSeriesWithinBounds) {
  penstock::testing::FaultEnv device;
  std::atomic<bool> fails{false};
  device.faults->on_write = [&](auto, auto) {
    return fails ? Result<void>(make_error(Errc::io, "the device is gone")) : Result<void>{};
  };
  auto config = small_config();
  config.idle_timeout_s = 2;
  start(device, config);
  client::Series series(options());
  series.send(image(0));
  series.wait_acknowledged(60'000);
  fails = true;
  try {
    for (std::uint64_t number = 1; number < 2000; ++number) {
      series.send(image(number));
      series.poll();
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << "the series goes on, though nothing can be written";
  } catch (const client::Error& error) {
    EXPECT_EQ(error.status(), PENSTOCK_PROBLEM);
    EXPECT_NE(std::string(error.what()).find("the device is gone"), std::string::npos) << error.what();
  }
  EXPECT_EQ(series.acknowledged(), 1u);
  stop();
  EXPECT_EQ(recorder_->failed_series(), 1u);
}

TEST_F(ClientsTest, ARecorderThatIsStoppedIsNotWaitedFor) {
  start(posix_env());
  auto wanted = options();
  wanted.reconnect_timeout_ms = 200'000;
  client::Series series(wanted);
  series.send(image(0));
  series.wait_acknowledged(60'000);
  stop();
  source_.reset();
  const auto began = std::chrono::steady_clock::now();
  for (int call = 0; call < 2; ++call) try {
      for (int i = 0; i < 100; ++i) series.send(image(1));
      ADD_FAILURE() << "nobody takes frames";
    } catch (const client::Error& error) {
      EXPECT_NE(std::string(error.what()).find("the recorder was stopped"), std::string::npos) << error.what();
    }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 100s) << "the recorder is waited for";
}

/// Nothing that is sent after it was noticed is acknowledged, in the file that shows a series or in one of several.
TEST_F(ClientsTest, FramesForARemovedFileAreNotAcknowledged) {
  for (const bool split : {false, true}) {
    auto config = small_config();
    if (split) config.files = {Files::split, 1000};
    start(posix_env(), config);
    auto wanted = options();
    wanted.name = split ? "split" : "one";
    wanted.frames = 100'000;
    client::Series series(wanted);
    series.send(image(0));
    series.wait_acknowledged(60'000);
    const auto victim = [&]() -> std::filesystem::path {
      for (const auto& file : std::filesystem::directory_iterator(folder_))
        if (const auto name = file.path().filename().string();
            split ? name.starts_with("split") && name != "split.h5" : name == "one.h5")
          return file.path();
      return {};
    }();
    ASSERT_FALSE(victim.empty());
    std::filesystem::remove(victim);
    std::uint64_t number = 1;
    try {
      for (; number < 900; ++number) {
        series.send(image(number));
        series.poll();
        std::this_thread::sleep_for(20ms);
      }
      ADD_FAILURE() << "frames are taken for a file that is not there: " << series.acknowledged();
    } catch (const client::Error& error) {
      EXPECT_EQ(error.status(), PENSTOCK_PROBLEM);
      EXPECT_NE(std::string(error.what()).find("removed or replaced"), std::string::npos) << error.what();
    }
    EXPECT_LT(series.acknowledged(), number);
    stop();
    EXPECT_EQ(recorder_->failed_series(), 1u);
    source_.reset();
    recorder_.reset();
  }
}

/// The recorder has not noticed that the connection before is lost: the client's name tells that it is the same one.
TEST_F(ClientsTest, ASenderOfAnElementComesBackAndAnotherOneIsRefused) {
  start(posix_env());
  Relay relay(options().address);
  auto upper = options();
  upper.address = relay.address();
  upper.element = client::Element{2, 1, 0};
  client::Series series(upper);
  series.send(image(0));
  series.wait_acknowledged(60'000);
  auto wrong = upper;
  wrong.address = options().address;
  wrong.resume = true;
  try {
    client::Series other(wrong);
    ADD_FAILURE() << "two senders of one element";
  } catch (const client::Error& error) {
    EXPECT_EQ(error.status(), PENSTOCK_REFUSED);
    EXPECT_NE(std::string(error.what()).find("claims the same element"), std::string::npos) << error.what();
  }
  relay.cut();
  series.send(image(1));
  EXPECT_NO_THROW(series.wait_acknowledged(60'000));
  EXPECT_EQ(series.reconnects(), 1u);
  EXPECT_EQ(relay.passed(), 2);
  EXPECT_EQ(recorder_->refused_series(), 1u);
  stop();
}

TEST_F(ClientsTest, ADetectorsElementComesBackBeforeItsLossWasNoticed) {
  start(posix_env());
  Relay relay(options().address);
  auto sender = stream::TcpSender::open(sending_to(relay.address())).value();
  Series series;
  series.id = 1;
  series.unique_id = "s";
  series.channels = {"1"};
  series.frame = {ElementType::u16, {40, 50}};
  series.element = ElementPlace{1, 2, 1};
  series.user_data_json = R"({"penstock": {"element": {"grid": [1, 2], "number": 1}}})";
  ASSERT_TRUE(sender->begin(series).ok());
  const auto pixels = std::make_shared<std::vector<std::uint16_t>>(image(0));
  Frame frame;
  frame.series_unique_id = "s";
  frame.spec = series.frame;
  frame.payload = std::as_bytes(std::span(*pixels));
  frame.owner = pixels;
  for (std::uint64_t number = 0; number < 4; ++number) {
    frame.number = FrameNumber{number};
    ASSERT_TRUE(sender->put(frame).ok());
    ASSERT_TRUE(sender->flush().ok());
    if (number == 1) relay.cut();
  }
  for (int i = 0; i < 500 && relay.passed() < 2; ++i) {
    std::this_thread::sleep_for(20ms);
    ASSERT_TRUE(sender->flush().ok());
  }
  EXPECT_EQ(relay.passed(), 2);
  EXPECT_EQ(sender->receipt().refused, 0u) << sender->receipt().first_refusal;
  EXPECT_EQ(recorder_->refused_series(), 0u);
  sender.reset();
  stop();
}

/// The receiver's reason reaches the user once, not each time that the connection is closed.
TEST_F(ClientsTest, ASenderReportsThatTheStorageIsFullOnce) {
  penstock::testing::FullDisk disk(false);
  start(disk.env());
  std::vector<stream::SenderWait> waits;
  auto sender =
      stream::TcpSender::open(sending([&](const stream::SenderWait& wait) { waits.push_back(wait); })).value();
  ASSERT_TRUE(sender->begin(series_of_three()).ok());
  disk.fill();
  for (std::uint64_t number = 0; number < 2; ++number) ASSERT_TRUE(sender->put(frame(number)).ok());
  ASSERT_TRUE(sender->flush().ok());
  EXPECT_FALSE(sender->finish(8s).ok());  // the receiver has closed two connections by now
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].reason, "storage full: waiting");
  EXPECT_FALSE(waits[0].over);
  disk.make_room();
  ASSERT_TRUE(sender->end().ok());
  EXPECT_TRUE(sender->finish(60s).ok());
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_TRUE(waits[1].over);
  sender.reset();
  stop();
}

}  // namespace
}  // namespace penstock::recorder
