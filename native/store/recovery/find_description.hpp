/// The description of a file, from whichever copy is whole.
#pragma once

#include "store/format/description.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::store {

struct FoundDescription {
  format::SegmentHeader header;
  format::Description description;
};

/// Looks through the segments that `options` names until it finds a description that is whole. `not_found` where the
/// file has none; the error of the first one where all are damaged.
Result<FoundDescription> find_description(File& file, ScanOptions options);

/// Why no recorder can go on in such a file; empty if one can.
std::string obstacle_to_resume(const format::Description& description);

/// Whether its recorder was killed before it had written the description: all but large values, and a part of the
/// description, is zeros. No frame can be in it, and nothing of HDF5's.
Result<bool> is_only_begun(File& file);

}  // namespace penstock::store
