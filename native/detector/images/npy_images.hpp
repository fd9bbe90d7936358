/// Images from a .npy file: an array of (frames, rows, columns) in C order, little-endian.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "frame/array.hpp"

namespace penstock::detector {

/// A mapped file; constant, so that threads may share it.
class NpyImages {
 public:
  static Result<std::shared_ptr<const NpyImages>> open(const std::string& path);
  ~NpyImages();
  NpyImages(const NpyImages&) = delete;
  NpyImages& operator=(const NpyImages&) = delete;

  std::uint64_t count() const { return count_; }
  const ArraySpec& frame() const { return frame_; }
  /// Alive as long as this object.
  Bytes image(std::uint64_t index) const { return mapping_.subspan(file_offset(index), frame_bytes_); }
  /// The file, open as long as this object, and where an image begins in it.
  int descriptor() const { return descriptor_; }
  std::uint64_t file_offset(std::uint64_t index) const { return offset_ + index * frame_bytes_; }

 private:
  NpyImages(int descriptor, Bytes mapping) : descriptor_(descriptor), mapping_(mapping) {}

  int descriptor_;
  Bytes mapping_;
  std::size_t offset_ = 0;
  std::size_t frame_bytes_ = 0;
  std::uint64_t count_ = 0;
  ArraySpec frame_;
};

}  // namespace penstock::detector
