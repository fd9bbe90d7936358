/// What the store's tests share: a folder of their own, layouts, chunks with known content, and a
/// reader that knows nothing of the store (plain HDF5 with its default driver).
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "store/store.hpp"

namespace penstock::store::testing {

/// Bytes that depend on the frame's number, so that a chunk at a wrong place is noticed.
inline std::vector<std::byte> content_of(std::uint64_t frame, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::mt19937_64 random(frame * 0x9E3779B97F4A7C15u + 1);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const auto word = random();
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return data;
}

/// Members named m_….h5.
inline Members members_of(unsigned ranks, std::uint64_t frames = 0) {
  return {.stem = "m_", .suffix = ".h5", .frames = frames, .ranks = ranks};
}

/// Of 32 rows of 40 pixels.
inline constexpr std::uint64_t frame_bytes = 32 * 40 * 2;

inline FileLayout one_dataset(std::uint64_t rows, std::uint64_t columns, ElementType type = ElementType::u16) {
  FileLayout layout;
  layout.groups.push_back({"/entry", {{"NX_class", std::string("NXentry")}}});
  layout.groups.push_back({"/entry/data", {{"NX_class", std::string("NXdata")}, {"signal", std::string("data")}}});
  layout.values.push_back({"/entry/title", std::string("a test"), {}});
  layout.values.push_back({"/entry/distance", scalar(0.25), {{"units", std::string("m")}}});
  ChunkedNode data;
  data.path = "/entry/data/data";
  data.type = type;
  data.frame_shape = {rows, columns};
  layout.chunked.push_back(data);
  layout.columns.push_back({"/entry/number", ElementType::u64, {}, {}});
  layout.links.push_back({"/entry/same", "/entry/data/data"});
  return layout;
}

/// Remembers what the store told; may write a column of frame numbers.
class Recorder final : public Listener {
 public:
  void placed(std::span<const PlacedChunk> chunks, RowWriter& rows) override {
    for (const auto& chunk : chunks) {
      if (write_numbers) {
        const std::vector<std::uint64_t> row(numbers_a_row, chunk.head.index + 1000);
        EXPECT_TRUE(rows.put(ColumnId{0}, {chunk.head.index}, std::as_bytes(std::span(row))).ok());
      }
      std::lock_guard lock(mutex);
      placed_chunks.push_back(chunk);
    }
  }
  void lost(std::span<const PlacedChunk> chunks, const Error& why) override {
    std::lock_guard lock(mutex);
    lost_chunks.insert(lost_chunks.end(), chunks.begin(), chunks.end());
    reasons.push_back(why);
  }
  void tick(RowWriter&) override { ++ticks; }

  bool write_numbers = false;
  std::size_t numbers_a_row = 1;
  std::mutex mutex;
  std::vector<PlacedChunk> placed_chunks;
  std::vector<PlacedChunk> lost_chunks;
  std::vector<Error> reasons;
  std::atomic<int> ticks{0};
};

/// An open file and dataset of plain HDF5.
class PlainReader {
 public:
  explicit PlainReader(const std::string& path, unsigned flags = H5F_ACC_RDONLY) {
    file_ = H5Fopen(path.c_str(), flags, H5P_DEFAULT);
  }
  ~PlainReader() {
    if (file_ >= 0) H5Fclose(file_);
  }
  bool open() const { return file_ >= 0; }
  hid_t file() const { return file_; }

  std::vector<hsize_t> shape(const char* path) const {
    const auto dataset = H5Dopen2(file_, path, H5P_DEFAULT);
    if (dataset < 0) return {};
    const auto space = H5Dget_space(dataset);
    std::vector<hsize_t> dimensions(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, dimensions.data(), nullptr);
    H5Sclose(space);
    H5Dclose(dataset);
    return dimensions;
  }

  /// Frame `number` of a dataset with frames of two dimensions; empty on error.
  std::vector<std::byte> frame(const char* path, std::uint64_t number) const {
    const auto dimensions = shape(path);
    if (dimensions.size() != 3) return {};
    const auto dataset = H5Dopen2(file_, path, H5P_DEFAULT);
    const auto type = H5Dget_type(dataset);
    const auto space = H5Dget_space(dataset);
    const hsize_t start[] = {number, 0, 0};
    const hsize_t count[] = {1, dimensions[1], dimensions[2]};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
    const auto memory = H5Screate_simple(3, count, nullptr);
    std::vector<std::byte> data(dimensions[1] * dimensions[2] * H5Tget_size(type));
    if (H5Dread(dataset, type, memory, space, H5P_DEFAULT, data.data()) < 0) data.clear();
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return data;
  }

  std::vector<std::uint64_t> numbers(const char* path) const {
    const auto dimensions = shape(path);
    std::vector<std::uint64_t> values(dimensions.empty() ? 0 : dimensions[0]);
    const auto dataset = H5Dopen2(file_, path, H5P_DEFAULT);
    H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(dataset);
    return values;
  }

  std::string text(const char* path) const {
    const auto dataset = H5Dopen2(file_, path, H5P_DEFAULT);
    const auto type = H5Dget_type(dataset);
    char* words = nullptr;
    std::string value = "(unreadable)";
    if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &words) >= 0) {
      value = words;
      H5free_memory(words);
    }
    H5Tclose(type);
    H5Dclose(dataset);
    return value;
  }

  std::string text_attribute(const char* object, const char* name) const {
    const auto attribute = H5Aopen_by_name(file_, object, name, H5P_DEFAULT, H5P_DEFAULT);
    const auto type = H5Aget_type(attribute);
    char* words = nullptr;
    std::string value = "(unreadable)";
    if (H5Aread(attribute, type, &words) >= 0) {
      value = words;
      H5free_memory(words);
    }
    H5Tclose(type);
    H5Aclose(attribute);
    return value;
  }

 private:
  hid_t file_ = -1;
};

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "-" + info->name() + "-" + std::to_string(::getpid());
    for (auto& c : name)
      if (c == '/') c = '-';
    folder_ = std::filesystem::temp_directory_path() / ("penstock-" + name);
    std::filesystem::create_directories(folder_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0) << "HDF5 objects are still open";
  }
  std::string path(const char* name = "a.h5") const { return folder_ / name; }

  static StoreOptions small_options() {
    StoreOptions options;
    options.segment_bytes = 64 << 10;
    options.extent_bytes = 1 << 20;
    options.buffer_bytes = 4 << 20;
    options.write_threads = 2;
    options.flush_interval = std::chrono::milliseconds(20);
    options.sync_interval = std::chrono::milliseconds(20);
    return options;
  }

  static ChunkHead head_of(std::uint64_t frame, std::uint16_t dataset = 0) {
    return {DatasetId{dataset}, frame, 0, 1'700'000'000'000'000'000 + static_cast<std::int64_t>(frame), frame * 7};
  }

  std::filesystem::path folder_;
};

}  // namespace penstock::store::testing
