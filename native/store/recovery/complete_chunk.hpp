/// Tells a segment that was being written when its recorder died from one that was damaged afterwards.
#pragma once

#include "base/files/env.hpp"
#include "store/format/segment.hpp"

namespace penstock::store {

/// Returns whether a chunk of the segment is complete, by its checksum. Without one the segment was being written when
/// the recorder died, and none of its frames needs its values. False if the records cannot be read.
bool has_complete_chunk(File& file, const format::SegmentHeader& segment);

}  // namespace penstock::store
