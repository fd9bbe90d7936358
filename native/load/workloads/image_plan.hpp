/// What image files a workload's frames are.
#pragma once

#include <cstdint>
#include <string>

#include "base/archive.hpp"

namespace penstock::load {

struct ImagePlan {
  std::string path;          ///< of a file with one frame; what each frame is but for its pixels
  std::uint64_t images = 1;  ///< in that file, of one size, one behind the other; of several none has pixels_bytes
  std::string suffix;
  std::uint64_t pixels_at = 0;     ///< the first byte of the pixels
  std::uint64_t pixels_bytes = 0;  ///< 0: frames are the images as they are
  /// Each byte of the pixels is a difference to the one before, as CBF has it: any value but 0x80, which announces a
  /// larger difference.
  bool differences = false;

  bool is_whole() const { return pixels_bytes == 0; }
};

void fields(Archive& archive, ImagePlan& plan);

}  // namespace penstock::load
