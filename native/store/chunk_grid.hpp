/// How the chunks of a dataset lie side by side, and how they are numbered.
///
/// A dataset's first dimension grows; the others stand fast. Its chunks are numbered row by row through their
/// grid (the last dimension fastest), which has no end along the first dimension, so that a chunk keeps its
/// number while the dataset grows. Chunks at the far edges reach beyond the dataset.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace penstock::store {

class ChunkGrid {
 public:
  ChunkGrid() = default;
  /// `chunk` has all dimensions, `fixed` those behind the first. An error names the dimension that cannot be.
  static Result<ChunkGrid> of(std::vector<std::uint64_t> chunk, const std::vector<std::uint64_t>& fixed);

  const std::vector<std::uint64_t>& chunk() const { return chunk_; }
  /// Chunks at one place of the first dimension.
  std::uint64_t chunks_a_layer() const { return chunks_a_layer_; }
  /// The first element of chunk `number`; as many coordinates as the chunk has dimensions go into `into`.
  void offset_of(std::uint64_t number, std::span<std::uint64_t> into) const;
  /// How long the first dimension is so that all of chunk `number` lies within.
  std::uint64_t length_for(std::uint64_t number) const { return (number / chunks_a_layer_ + 1) * chunk_.front(); }
  /// The same where only some places of the first dimension within the chunk are in use: bit i is the ith.
  std::uint64_t length_for(std::uint64_t number, std::uint32_t places) const {
    return number / chunks_a_layer_ * chunk_.front() + static_cast<std::uint64_t>(std::bit_width(places));
  }

 private:
  std::vector<std::uint64_t> chunk_{1};
  std::vector<std::uint64_t> counts_;  ///< chunks along each dimension behind the first
  std::uint64_t chunks_a_layer_ = 1;
};

}  // namespace penstock::store
