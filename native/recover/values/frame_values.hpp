/// The values that frames brought along, from the segments of their chunks into the columns of a recovered file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "recover/candidates.hpp"
#include "store/hdf5/index_file.hpp"

namespace penstock::recover {

/// One file, and its segments that have values.
struct ValuesSource {
  std::string path;
  std::vector<ValuesSegment> segments;
};

/// The number of the last frame that brought a value for each column; without one where none did.
using LastFrames = std::vector<std::optional<std::uint64_t>>;

struct WrittenValues {
  LastFrames last_frames;
  bool has_late = false;  ///< there are values of late columns as well
};

/// Writes the values of the frames in `present` (rising), whatever the columns have: the index may lag behind, and so
/// may any part of a column after a loss of power. Of two values for a frame the one of the later segment counts.
/// `columns` are the description's, and values only go into those that say `in_segments`. What cannot be read becomes a
/// finding, unless none of the segment's chunks is complete. `sources` are sorted. Memory: some 32 MiB.
Result<WrittenValues> write_values(Env& env, std::vector<ValuesSource>& sources, store::hdf5::IndexFile& index,
                                   const std::vector<store::ColumnNode>& columns,
                                   const std::vector<std::uint64_t>& present, check::Findings& findings);

/// The same for late columns, of `sources` that write_values() has seen, while the file is being closed.
Result<void> write_late_values(Env& env, const std::vector<ValuesSource>& sources,
                               const std::vector<std::uint64_t>& present, check::Findings& findings,
                               store::LateColumnSink& out);

}  // namespace penstock::recover
