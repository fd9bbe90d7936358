/// A frame between admission and its segment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "frame/frame.hpp"

namespace penstock::recorder {

struct Block;  // recorder/blocks.hpp

struct Task {
  Frame frame;
  std::uint64_t slot = 0;
  std::uint64_t place = 0;           ///< in the dataset: the frame's number, or its place in the scan
  std::optional<std::uint32_t> crc;  ///< of the payload as it came
  // Where a chunk has several frames.
  std::shared_ptr<Block> block = {};             ///< that the frame belongs to
  std::vector<std::shared_ptr<Block>> due = {};  ///< to be written first, as this frame had to have their place
};

}  // namespace penstock::recorder
