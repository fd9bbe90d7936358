/// Files to check: made by the store as the recorder would, or by plain HDF5 as others would.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "../support/whole_file.hpp"
#include "check/check.hpp"
#include "codec/codec.hpp"
#include "detector/simulation.hpp"
#include "store/store.hpp"

namespace penstock::check::testing {

constexpr std::uint64_t rows = 24;
constexpr std::uint64_t columns = 32;
constexpr std::uint64_t frame_bytes = rows * columns * 2;

constexpr const char* series_name = "simulated";

inline const char* simulation_json() {
  return R"({"type": "uint16", "rows": 24, "columns": 32, "background_mean": 2.0, "seed": 7, "stamp": true})";
}

inline std::vector<std::byte> simulated(std::uint64_t frame) {
  static const auto simulation = detector::Simulation::from_json(simulation_json());
  EXPECT_TRUE(simulation.ok()) << simulation.error().message();
  std::vector<std::byte> pixels(frame_bytes);
  simulation->make(frame, pixels);
  return pixels;
}

struct FileSpec {
  std::uint64_t frames = 40;
  std::uint64_t announced = 40;
  std::vector<std::uint64_t> absent{};    ///< never written
  std::vector<std::uint64_t> lost{};      ///< of the absent ones: marked as lost
  std::vector<std::uint64_t> twice{};     ///< written twice, the second time at the end
  std::vector<std::uint64_t> unmarked{};  ///< written, but not marked as received
  std::uint64_t miscounted = 0;           ///< more are said to be received than are
  std::uint64_t ends_at = 0;              ///< frames that the datasets end with, if more than `frames`
  std::size_t zero_tail = 0;              ///< bytes of zeros at the end of each frame
  Encoding encoding = Encoding::bitshuffle_lz4;
  bool finish = true;
  std::chrono::milliseconds flush_interval{1000};
};

inline store::FileLayout layout_of(const FileSpec& spec) {
  store::FileLayout layout;
  store::ChunkedNode data;
  data.path = "/entry/data/data";
  data.frame_shape = {rows, columns};
  data.frames_max = spec.announced;
  data.filters = filters_of({.encoding = spec.encoding}, 2);
  layout.chunked.push_back(data);
  layout.values.push_back({"/entry/penstock/frames_announced", store::scalar(spec.announced), {}});
  layout.values.push_back({"/entry/penstock/series_unique_id", std::string(series_name), {}});
  const auto user_data = nlohmann::json{{"penstock", {{"simulation", nlohmann::json::parse(simulation_json())}}}};
  layout.values.push_back({"/entry/penstock/user_data", user_data.dump(), {}});
  layout.columns.push_back({"/entry/penstock/frame_state", ElementType::u8, {}, {}});
  layout.links.push_back({"/entry/instrument/detector/data", "/entry/data/data"});
  return layout;
}

class StateListener final : public store::Listener {
 public:
  explicit StateListener(const FileSpec& spec) : spec_(spec) {}
  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows_out) override {
    const std::uint8_t received = 1;
    for (const auto& chunk : chunks) {
      const bool marked =
          std::find(spec_.unmarked.begin(), spec_.unmarked.end(), chunk.head.index) == spec_.unmarked.end();
      if (!marked) continue;
      EXPECT_TRUE(rows_out.put(store::ColumnId{0}, {chunk.head.index}, std::as_bytes(std::span(&received, 1))).ok());
    }
    const std::uint8_t lost = 4;
    for (const auto frame : spec_.lost)
      EXPECT_TRUE(rows_out.put(store::ColumnId{0}, {frame}, std::as_bytes(std::span(&lost, 1))).ok());
    placed_ += chunks.size();
    placed_.notify_all();
  }
  void wait_for(std::uint64_t chunks) const {
    for (auto now = placed_.load(); now < chunks; now = placed_.load()) placed_.wait(now);
  }
  void lost(std::span<const store::PlacedChunk>, const Error& why) override { ADD_FAILURE() << why.message(); }
  void already_there(std::span<const store::PlacedChunk>) override {}
  void tick(store::RowWriter&) override {}

 private:
  const FileSpec& spec_;
  std::atomic<std::uint64_t> placed_{0};
};

inline std::vector<char> bytes_of(const std::string& path) {
  const auto text = whole_file(path);
  return {text.begin(), text.end()};
}

inline void write_bytes(const std::string& path, std::span<const char> bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A recorded file, with the pixels of the simulation.
inline void write_recorded(const std::string& path, const FileSpec& spec) {
  StateListener listener(spec);
  store::StoreOptions options;
  options.segment_bytes = 8 << 10;
  options.extent_bytes = 64 << 10;
  options.buffer_bytes = 1 << 20;
  options.write_threads = 1;
  options.flush_interval = spec.flush_interval;
  auto made = store::Store::create(posix_env(), path, layout_of(spec), options, &listener);
  ASSERT_TRUE(made.ok()) << made.error().message();
  auto& store = **made;
  {
    auto writer = store.make_writer();
    CodecScratch scratch;
    const CodecSpec codec{.encoding = spec.encoding};
    std::vector<std::uint64_t> order;
    for (std::uint64_t frame = 0; frame < spec.frames; ++frame)
      if (std::find(spec.absent.begin(), spec.absent.end(), frame) == spec.absent.end()) order.push_back(frame);
    order.insert(order.end(), spec.twice.begin(), spec.twice.end());
    for (const auto frame : order) {
      auto into = writer->reserve(encoded_bound(codec, frame_bytes, 2));
      ASSERT_TRUE(into.ok());
      auto pixels = simulated(frame);
      std::fill_n(pixels.rbegin(), spec.zero_tail, std::byte{0});
      const auto size = encode(codec, pixels, 2, *into, scratch);
      ASSERT_TRUE(size.ok());
      ASSERT_TRUE(writer->commit({store::DatasetId{0}, frame, 0, 1, frame}, *size).ok());
    }
    ASSERT_TRUE(writer->flush().ok());
  }
  if (!spec.finish) {
    // What a recorder's death would leave: the file as it is now, copied before anything is closed. While the index is
    // written, a copy has its changes in part, in another order.
    listener.wait_for(spec.frames - spec.absent.size());
    auto bytes = bytes_of(path);
    for (auto again = bytes_of(path); again != bytes; again = bytes_of(path)) bytes = std::move(again);
    made = make_error(Errc::cancelled, "gone");
    write_bytes(path, bytes);
    return;
  }
  store::FinalValues values;
  values.frames = std::max(spec.frames, spec.ends_at);
  const auto received = spec.frames - spec.absent.size() - spec.unmarked.size();
  const auto count = [&](const char* name, std::uint64_t number) {
    values.attributes.emplace_back("/entry/penstock/frame_state", store::Attribute{name, store::scalar(number)});
  };
  count("received", received + spec.miscounted);
  count("missing", values.frames - received);
  for (const auto* name : {"damaged", "dropped"}) count(name, 0);
  count("lost", spec.lost.size());
  const auto finished = store.finish(values);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
}

class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("penstock-check-" + std::string(info->name()) + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name = "a.h5") const { return folder_ / name; }

  Report check(const std::string& file, nlohmann::json more = nlohmann::json::object()) const {
    more["file"] = file;
    if (!more.contains("index_timeout_s")) more["index_timeout_s"] = 20;
    const auto plan = CheckPlan::from_json(more);
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return run_check(
        posix_env(), *plan, [](auto, auto, const auto&) {}, [] { return false; });
  }

  static bool has(const Report& report, std::string_view what) {
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [&](const auto& finding) { return finding.what == what; });
  }
  static std::string text(const Report& report) { return to_json(report).dump(1); }

  std::filesystem::path folder_;
};

}  // namespace penstock::check::testing
