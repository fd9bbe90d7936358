/// Memory for making chunks.
#pragma once

#include <cstddef>
#include <vector>

#include "codec/scratch.hpp"
#include "store/hdf5/plugins/filter_plugin.hpp"

namespace penstock::recorder {

/// Used again for each chunk. Belongs to a worker and not to a series: there are many more of these.
struct ChunkScratch {
  CodecScratch codec;
  store::FilterScratch filtered;
  std::vector<std::byte> frame;  ///< expanded, of one that came otherwise than the file has it
  std::vector<std::byte> tile;
  std::vector<std::byte> rows;  ///< values of the frames of a chunk, for its segment

  /// Once they are in the segment. Those of some frames take much memory.
  void drop_rows() {
    constexpr std::size_t kept_bytes = 256 << 10;
    if (rows.capacity() > kept_bytes) rows = {};
    rows.clear();
  }
};

}  // namespace penstock::recorder
