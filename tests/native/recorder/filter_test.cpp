/// A series through a filter plug-in that refuses some of its frames: they are stored as they are, and say so.

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../support/last_event.hpp"
#include "base/time/clock.hpp"
#include "recorder/service/recorder.hpp"
#include "recorder_fixture.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t rows = 16, columns = 32, frames = 6;
// What the plug-in does, by its parameter (tests/native/support/test_filter.cpp).
constexpr unsigned inverts = 0, refuses_odd = 1, two_meet = 7, eight_meet = 9;

std::vector<std::uint8_t> pixels_of(std::uint64_t number, std::uint32_t channel) {
  std::vector<std::uint8_t> pixels(rows * columns);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(number + 100 * channel + i);
  return pixels;
}

class FilterTest : public RecorderFixture {
 protected:
  static json filter(unsigned mode, const std::string& channel = {}) {
    return {{"id", 311}, {"values", {mode}}, {"folders", {PENSTOCK_TEST_FILTERS}}, {"channel", channel}};
  }
  Config config(const json& filters) const {
    const auto config = Config::from_json({{"folder", folder_.string()},
                                           {"sources", {{{"kind", "tcp"}}}},
                                           {"pool_bytes", 64 << 20},
                                           {"series_limit", 1},
                                           {"end_timeout_s", 0.2},
                                           {"codec", {{"encoding", "none"}, {"filters", filters}}}});
    EXPECT_TRUE(config.ok()) << config.error().message();
    return *config;
  }

  static Series series(std::vector<std::string> channels) {
    Series series;
    series.id = 1;
    series.unique_id = "s1";
    series.frames = frames;
    series.channels = std::move(channels);
    series.frame = {ElementType::u8, {rows, columns}};
    return series;
  }

  static Frame frame(std::uint64_t number, std::uint32_t channel) {
    auto pixels = std::make_shared<std::vector<std::uint8_t>>(pixels_of(number, channel));
    Frame frame;
    frame.series_unique_id = "s1";
    frame.number = FrameNumber{number};
    frame.channel = channel;
    frame.spec = {ElementType::u8, {rows, columns}};
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    frame.received_ns = realtime_ns();
    return frame;
  }

  /// All frames of a series; its last event.
  json record(const json& filters, const std::vector<std::string>& channels) {
    return record(config(filters), series(channels));
  }
  json record(const Config& config, const Series& series) {
    const auto& channels = series.channels;
    Recorder recorder(posix_env(), config, *events_, team_);
    EXPECT_TRUE(recorder.start().ok());
    EXPECT_TRUE(recorder.begin(series, nullptr).ok());
    for (std::uint64_t n = 0; n < series.frames; ++n)
      for (std::uint32_t channel = 0; channel < channels.size(); ++channel)
        EXPECT_TRUE(recorder.put(frame(n, channel)).ok());
    EXPECT_TRUE(recorder.end({1, "s1"}).ok());
    EXPECT_TRUE(recorder.wait_for_limit(60s));
    recorder.stop();
    return series_end();
  }

  json series_end() const { return last_event(out_, "series_end"); }
};

/// The parameters that the dataset declares for the test's filter.
std::vector<unsigned> declared(hid_t dataset) {
  const hid_t list = H5Dget_create_plist(dataset);
  unsigned flags = 0, values[8] = {};
  std::size_t count = 8;
  EXPECT_EQ(H5Pget_filter2(list, 0, &flags, &count, values, 0, nullptr, nullptr), 311);
  EXPECT_EQ(flags & H5Z_FLAG_OPTIONAL, static_cast<unsigned>(H5Z_FLAG_OPTIONAL));
  H5Pclose(list);
  return {values, values + count};
}

/// Every chunk: inverted, or as it came where `unfiltered` says so, and then with its mask.
void expect_chunks(hid_t dataset, std::uint32_t channel, bool (*unfiltered)(std::uint8_t first_pixel)) {
  for (std::uint64_t n = 0; n < frames; ++n) {
    const hsize_t at[] = {n, 0, 0};
    unsigned mask = 0;
    std::vector<std::uint8_t> stored(rows * columns);
    ASSERT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, at, &mask, stored.data()), 0);
    const auto expected = pixels_of(n, channel);
    const bool plain = unfiltered(expected.front());
    EXPECT_EQ(mask, plain ? 1 : 0) << "frame " << n;
    if (!plain)
      for (auto& byte : stored) byte = static_cast<std::uint8_t>(~byte);
    EXPECT_EQ(stored, expected) << "frame " << n;
  }
}

TEST_F(FilterTest, ChunksThatThePlugInRefusesAreStoredPlainWithTheirMask) {
  const auto end = record(json::array({filter(refuses_odd)}), {"1"});
  EXPECT_EQ(end["unfiltered"], frames / 2);
  EXPECT_EQ(end["frames_written"], frames);
  EXPECT_TRUE(end["problem"].is_null()) << end;

  const hid_t file = H5Fopen((folder_ / "s1.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "/entry/data/data", H5P_DEFAULT);
  EXPECT_EQ(declared(dataset), (std::vector<unsigned>{1, refuses_odd}));
  EXPECT_GT(H5Aexists(dataset, "lossy_filter"), 0) << "nobody vouches for this one";
  expect_chunks(dataset, 0, [](std::uint8_t first) { return first % 2 == 1; });
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST_F(FilterTest, EachChannelsDatasetHasItsOwnFilter) {
  const auto end = record(json::array({filter(inverts), filter(refuses_odd, "high")}), {"low", "high"});
  EXPECT_EQ(end["unfiltered"], frames / 2);
  const hid_t file = H5Fopen((folder_ / "s1.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t low = H5Dopen2(file, "/entry/data/data", H5P_DEFAULT);
  const hid_t high = H5Dopen2(file, "/entry/data/channel_1_high", H5P_DEFAULT);
  EXPECT_EQ(declared(low), (std::vector<unsigned>{1, inverts}));
  EXPECT_EQ(declared(high), (std::vector<unsigned>{1, refuses_odd}));
  expect_chunks(low, 0, [](std::uint8_t) { return false; });
  expect_chunks(high, 1, [](std::uint8_t first) { return first % 2 == 1; });
  H5Dclose(low);
  H5Dclose(high);
  H5Fclose(file);
}

TEST_F(FilterTest, WorkersAreInThePlugInAtOnce) {
  // It fails on a chunk unless another call comes in before the first one is back.
  EXPECT_EQ(record(json::array({filter(two_meet)}), {"1"})["unfiltered"], 0);
}

TEST_F(FilterTest, MoreWorkersThanSegmentsInMemoryEndAllTheSame) {
  auto crowded = config(json::array({filter(eight_meet)}));
  crowded.threads = 8;  // each with a chunk for a segment of its own, of which the pool has two
  auto eight = series({"1"});
  eight.frames = 8;
  const auto end = record(crowded, eight);
  EXPECT_EQ(end["frames_written"], 8) << end;
  EXPECT_EQ(end["unfiltered"], 0) << end;
}

TEST_F(FilterTest, ParametersThatThePlugInRefusesAreAnErrorOfTheSeriesBeforeThereIsAFile) {
  auto wrong = filter(inverts);
  wrong["values"] = {0U, 1U, 2U};
  Recorder recorder(posix_env(), config(json::array({wrong})), *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  const auto begun = recorder.begin(series({"1"}), nullptr);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message().find("[0, 1, 2]"), std::string::npos) << begun.error().message();
  recorder.stop();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s1.h5"));
}

TEST_F(FilterTest, AnAbsentPlugInIsAnErrorOfTheStart) {
  auto absent = filter(inverts, "2");
  absent["id"] = 312;
  Recorder recorder(posix_env(), config(json::array({filter(inverts), absent})), *events_, team_);
  const auto started = recorder.start();
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("HDF5_PLUGIN_PATH"), std::string::npos) << started.error().message();
}

}  // namespace
}  // namespace penstock::recorder
