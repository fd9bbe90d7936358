/// What tests of chunks of several frames share.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../support/fault_env.hpp"
#include "codec/codec.hpp"
#include "recorder/service/recorder.hpp"
#include "recorder_fixture.hpp"

namespace penstock::recorder::gathering {
using namespace std::chrono_literals;

inline std::uint64_t rows = 12, columns = 20;
inline std::uint64_t pixels_a_frame() { return rows * columns; }
constexpr std::uint16_t fill = 65535;

struct Acks : AckListener {
  explicit Acks(std::uint64_t window_of = 0) : window(window_of) {}
  void safe_below(const std::string&, FrameNumber below) override { safe = value(below); }
  void ask_again(const std::string&, const Error&) override { ++asked; }
  std::uint64_t window_frames() const override { return window; }
  bool has_ended() const override { return ended; }
  void closed(const std::string&, const std::string& text) override { problem = text; }
  const std::uint64_t window;
  std::atomic<bool> ended{false};
  std::atomic<std::uint64_t> safe{0};
  std::atomic<int> asked{0};
  std::string problem;
};

/// What is logged in the life of this object. Made before the recorder starts its threads, it outlives them.
class Log {
 public:
  Log() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~Log() { spdlog::set_default_logger(before_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const {
    std::string all;
    for (const auto& line : sink_->last_formatted()) all += line;
    return all;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
};

/// Logged where other clients were waited for in vain.
constexpr auto gave_up = "other clients have not sent frames for";

template <typename Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

class GatherTest : public RecorderFixture {
 protected:
  void SetUp() override {
    rows = 12;
    columns = 20;
    RecorderFixture::SetUp();
    config_ = small_config();
    config_.chunk.frames = 4;
  }

  std::unique_ptr<Recorder> start() {
    auto recorder = std::make_unique<Recorder>(env_, config_, *events_, team_);
    EXPECT_TRUE(recorder->start().ok());
    return recorder;
  }

  static Series series(std::uint64_t frames) {
    Series series;
    series.id = 1;
    series.unique_id = "s";
    series.frames = frames;
    series.channels = {"1"};
    series.frame = {ElementType::u16, {rows, columns}};
    return series;
  }

  static std::vector<std::uint16_t> pixels_of(std::uint64_t number, std::uint32_t channel = 0) {
    std::vector<std::uint16_t> pixels(pixels_a_frame());
    auto* const first = pixels.data();
    for (std::size_t i = 0, count = pixels.size(); i < count; ++i)
      first[i] = static_cast<std::uint16_t>(number * 331 + i + 7777 * channel);
    return pixels;
  }

  static Frame frame(std::uint64_t number, Session session = nullptr, std::uint32_t channel = 0) {
    auto content = std::make_shared<std::vector<std::uint16_t>>(pixels_of(number, channel));
    Frame frame;
    frame.series_unique_id = "s";
    frame.number = FrameNumber{number};
    frame.channel = channel;
    frame.spec = {ElementType::u16, {rows, columns}};
    frame.payload = std::as_bytes(std::span(*content));
    frame.owner = content;
    frame.received_ns = realtime_ns();
    frame.session = std::move(session);
    return frame;
  }

  /// Clients that put every nth frame, in threads of their own; the first one does not pause. How many
  /// frames were refused.
  static int deal_among(Recorder& recorder, std::uint64_t clients, std::uint64_t frames) {
    std::vector<std::shared_ptr<Acks>> sessions;
    for (std::uint64_t c = 0; c < clients; ++c) sessions.push_back(std::make_shared<Acks>());
    EXPECT_TRUE(recorder.begin(series(frames), sessions[0]).ok());
    for (auto& session : sessions) recorder.expect("s", session);
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (std::uint64_t c = 0; c < clients; ++c)
      threads.emplace_back([&, c] {
        for (std::uint64_t n = c; n < frames; n += clients) {
          if (c > 0) std::this_thread::sleep_for(20ms);
          if (!recorder.put(frame(n, sessions[c])).ok()) ++refused;
        }
        sessions[c]->ended = true;
      });
    for (auto& thread : threads) thread.join();
    return refused;
  }

  static void finish(Recorder& recorder) {
    EXPECT_TRUE(recorder.end({1, "s"}).ok());
    EXPECT_TRUE(recorder.wait_for_limit(60s));
    recorder.stop();
  }

  template <typename T>
  std::vector<T> read(const char* path, hid_t type, std::vector<hsize_t>* chunk = nullptr) const {
    const hid_t id = H5Fopen((folder_ / "s.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(id, 0);
    const hid_t dataset = H5Dopen2(id, path, H5P_DEFAULT), space = H5Dget_space(dataset);
    std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    if (chunk != nullptr) {
      const hid_t list = H5Dget_create_plist(dataset);
      chunk->resize(3);
      H5Pget_chunk(list, 3, chunk->data());
      H5Pclose(list);
    }
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(id);
    return values;
  }
  std::vector<std::uint8_t> states() const {
    return read<std::uint8_t>("/entry/penstock/frame_state", H5T_NATIVE_UINT8);
  }

  /// Each frame's pixels are right where its state says that it is there, and else the fill value.
  void expect_pixels(std::uint64_t frames, const char* path = "/entry/data/data", std::uint32_t channel = 0) const {
    std::vector<hsize_t> chunk;
    const auto found = read<std::uint16_t>(path, H5T_NATIVE_UINT16, &chunk);
    EXPECT_EQ(chunk.front(), config_.chunk.frames);
    const auto state = states();
    ASSERT_EQ(found.size(), frames * pixels_a_frame());
    ASSERT_EQ(state.size(), frames);
    const std::vector<std::uint16_t> absent(pixels_a_frame(), fill);
    for (std::uint64_t n = 0; n < frames; ++n) {
      const auto* first = found.data() + n * pixels_a_frame();
      const std::vector<std::uint16_t> pixels(first, first + pixels_a_frame());
      ASSERT_EQ(pixels, state[n] == 1 ? pixels_of(n, channel) : absent) << "frame " << n;
    }
  }

  Config config_;
  penstock::testing::FaultEnv env_;
};

}  // namespace penstock::recorder::gathering
