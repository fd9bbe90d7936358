/// Small series of one channel, straight into a recorder's sink, and their files as plain HDF5 reads them.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../support/last_event.hpp"
#include "base/time/clock.hpp"
#include "recorder_fixture.hpp"

namespace penstock::recorder {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t rows = 16, columns = 32;

class RecorderTest : public RecorderFixture {
 protected:
  void SetUp() override {
    RecorderFixture::SetUp();
    config_ = small_config();
  }

  std::unique_ptr<Recorder> start() {
    auto recorder = std::make_unique<Recorder>(posix_env(), config_, *events_, team_);
    EXPECT_TRUE(recorder->start().ok());
    return recorder;
  }

  static Series series(std::uint64_t frames, const std::string& unique_id = "s1") {
    Series series;
    series.id = 1;
    series.unique_id = unique_id;
    series.frames = frames;
    series.channels = {"1"};
    series.frame = {ElementType::u16, {rows, columns}};
    return series;
  }

  static Frame frame(std::uint64_t number, const std::string& unique_id = "s1") {
    auto pixels = std::make_shared<std::vector<std::uint16_t>>(rows * columns);
    for (std::size_t i = 0; i < pixels->size(); ++i) (*pixels)[i] = static_cast<std::uint16_t>(number * 1000 + i);
    Frame frame;
    frame.series_unique_id = unique_id;
    frame.number = FrameNumber{number};
    frame.spec = {ElementType::u16, {rows, columns}};
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    frame.received_ns = realtime_ns();
    return frame;
  }

  /// `answered` of a series that a client began.
  void finish(Recorder& recorder, const std::string& unique_id = "s1", bool answered = false) {
    EXPECT_TRUE(recorder.end({.id = 1, .unique_id = unique_id, .answered = answered}).ok());
    EXPECT_TRUE(recorder.wait_for_limit(60s));
    recorder.stop();
  }

  json event(const std::string& name) const { return last_event(out_, name); }

  template <typename T>
  std::vector<T> read(const std::string& file, const char* path, hid_t type) const {
    const hid_t id = H5Fopen((folder_ / file).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(id, 0);
    const hid_t dataset = H5Dopen2(id, path, H5P_DEFAULT), space = H5Dget_space(dataset);
    std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(id);
    return values;
  }
  std::vector<std::uint16_t> pixels(const std::string& file = "s1.h5") const {
    return read<std::uint16_t>(file, "/entry/data/data", H5T_NATIVE_UINT16);
  }
  std::vector<std::uint8_t> states(const std::string& file = "s1.h5") const {
    return read<std::uint8_t>(file, "/entry/penstock/frame_state", H5T_NATIVE_UINT8);
  }

  Config config_;
};

struct Acks : AckListener {
  void safe_below(const std::string&, FrameNumber below) override { safe = value(below); }
  void ask_again(const std::string&, const Error&) override { ++asked; }
  void closed(const std::string&, const std::string& text) override {
    problem = text;
    is_closed = true;
  }
  std::atomic<std::uint64_t> safe{0};
  std::atomic<int> asked{0};
  std::string problem;
  std::atomic<bool> is_closed{false};
};

}  // namespace penstock::recorder
