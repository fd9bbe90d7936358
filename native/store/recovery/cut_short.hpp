/// Tells a write that never reached its end from bytes that changed afterwards.
#pragma once

#include <cstdint>

#include "base/files/env.hpp"

namespace penstock::store {

/// The bytes of a chunk in its segment.
struct ChunkInSegment {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t segment_end = 0;
};

/// Returns whether the write of the segment ended before the end of this chunk, as after a recorder's death: from the
/// chunk's last sector to the end of the segment the file has only zeros, or ends. Space is written once, and reads as
/// zeros before. False if the storage cannot be read. A chunk that ends with a sector of zeros, at the end of its
/// segment, cannot be told from one whose last sector was not written.
bool was_cut_short(File& file, const ChunkInSegment& chunk);

}  // namespace penstock::store
