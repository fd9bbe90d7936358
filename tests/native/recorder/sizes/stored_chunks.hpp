/// The chunks of a dataset of frames as plain HDF5 hands them out, decoded.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "codec/codec.hpp"

namespace penstock::recorder::sizes {

/// A frame in three dimensions, those that it lacks in front.
using Extent = std::array<std::uint64_t, 3>;

struct StoredChunk {
  std::uint64_t frame = 0;   ///< the first one that it has a part of
  std::uint64_t frames = 1;  ///< of which it has parts
  Extent first{};            ///< in the frame
  Extent extent{};           ///< may reach beyond the frame
  Bytes pixels;
};

class StoredFrames {
 public:
  /// `type` is that of HDF5.
  StoredFrames(const std::string& file, const std::string& dataset, hid_t type) {
    file_ = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(file_, 0) << file;
    dataset_ = H5Dopen2(file_, dataset.c_str(), H5P_DEFAULT);
    EXPECT_GE(dataset_, 0) << file << " " << dataset;
    if (dataset_ < 0) return;
    read_shape(type);
    read_encoding();
  }
  ~StoredFrames() {
    if (dataset_ >= 0) H5Dclose(dataset_);
    if (file_ >= 0) H5Fclose(file_);
  }
  StoredFrames(const StoredFrames&) = delete;
  StoredFrames& operator=(const StoredFrames&) = delete;

  std::uint64_t frames() const { return frames_; }
  const Extent& frame() const { return frame_; }

  /// Calls `use` with each chunk; false if one cannot be read.
  bool each_chunk(const std::function<void(const StoredChunk&)>& use) {
    StoredChunk chunk{.frames = chunk_frames_, .extent = chunk_, .pixels = {}};
    for (chunk.frame = 0; chunk.frame < frames_; chunk.frame += chunk_frames_)
      for (chunk.first[0] = 0; chunk.first[0] < frame_[0]; chunk.first[0] += chunk_[0])
        for (chunk.first[1] = 0; chunk.first[1] < frame_[1]; chunk.first[1] += chunk_[1])
          for (chunk.first[2] = 0; chunk.first[2] < frame_[2]; chunk.first[2] += chunk_[2]) {
            if (!read(chunk)) return false;
            use(chunk);
          }
    return true;
  }

 private:
  void read_shape(hid_t expected) {
    const hid_t space = H5Dget_space(dataset_), list = H5Dget_create_plist(dataset_), type = H5Dget_type(dataset_);
    hsize_t shape[4] = {}, chunk[4] = {};
    const int rank = H5Sget_simple_extent_dims(space, shape, nullptr);
    EXPECT_EQ(H5Pget_chunk(list, 4, chunk), rank);
    EXPECT_GT(H5Tequal(type, expected), 0);
    element_bytes_ = H5Tget_size(type);
    frames_ = shape[0];
    chunk_frames_ = chunk[0];
    dimensions_ = static_cast<std::size_t>(rank) - 1;
    for (std::size_t i = 0; i < dimensions_; ++i) {
      frame_[3 - dimensions_ + i] = shape[1 + i];
      chunk_[3 - dimensions_ + i] = chunk[1 + i];
    }
    H5Tclose(type);
    H5Pclose(list);
    H5Sclose(space);
  }

  void read_encoding() {
    const hid_t list = H5Dget_create_plist(dataset_);
    EXPECT_LE(H5Pget_nfilters(list), 1);
    if (H5Pget_nfilters(list) == 1) {
      unsigned flags = 0, config = 0, values[8] = {};
      std::size_t count = 8;
      switch (H5Pget_filter2(list, 0, &flags, &count, values, 0, nullptr, &config)) {
        case 1: encoding_ = Encoding::deflate; break;
        case 32004: encoding_ = Encoding::lz4; break;
        case 32015: encoding_ = Encoding::zstd; break;
        case 32008: encoding_ = values[4] == 2 ? Encoding::bitshuffle_lz4 : Encoding::bitshuffle_zstd; break;
        default: ADD_FAILURE() << "an unknown filter";
      }
    }
    H5Pclose(list);
  }

  bool read(StoredChunk& chunk) {
    hsize_t at[4] = {chunk.frame};
    for (std::size_t i = 0; i < dimensions_; ++i) at[1 + i] = chunk.first[3 - dimensions_ + i];
    hsize_t size = 0;
    std::uint32_t skipped = 0;
    if (H5Dget_chunk_storage_size(dataset_, at, &size) < 0 || size == 0) return false;
    stored_.resize(size);
    if (H5Dread_chunk(dataset_, H5P_DEFAULT, at, &skipped, stored_.data()) < 0) return false;
    decoded_.resize(chunk_frames_ * chunk_[0] * chunk_[1] * chunk_[2] * element_bytes_);
    const auto encoding = (skipped & 1) != 0 ? Encoding::none : encoding_;
    const auto decoded = decode(encoding, stored_, element_bytes_, decoded_, scratch_);
    EXPECT_TRUE(decoded.ok()) << decoded.error().message();
    chunk.pixels = decoded_;
    return decoded.ok();
  }

  hid_t file_ = -1;
  hid_t dataset_ = -1;
  std::size_t element_bytes_ = 1;
  std::size_t dimensions_ = 0;  ///< of a frame
  std::uint64_t frames_ = 0;
  std::uint64_t chunk_frames_ = 1;
  Extent frame_{1, 1, 1};
  Extent chunk_{1, 1, 1};
  Encoding encoding_ = Encoding::none;
  std::vector<std::byte> stored_;
  std::vector<std::byte> decoded_;
  CodecScratch scratch_;
};

}  // namespace penstock::recorder::sizes
