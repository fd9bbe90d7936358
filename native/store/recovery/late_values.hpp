/// Late columns (format/rows.hpp), from the segments of their frames into the file that is being closed. HDF5 takes no
/// new datasets while readers may have the file open, so the segments are where these values are until then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "store/format/segment.hpp"
#include "store/layout.hpp"

namespace penstock::store {

/// Of a file: its late columns, and those that the first frame brings.
constexpr std::size_t late_columns_max = 1024;

/// A segment of chunks that has values of its frames.
struct ValuesSegment {
  std::uint64_t sequence = 0;
  std::uint64_t address = 0;
};

/// One file, and its segments that have values, by rising sequence.
struct LateSource {
  std::string path;
  std::function<Result<std::shared_ptr<File>>()> open;
  std::vector<ValuesSegment> segments;
};

/// Where the values go. Only while the file is being closed.
class LateColumnSink {
 public:
  virtual ~LateColumnSink() = default;
  /// Makes the column if it is not there. False if another object is in its place, or none can be.
  virtual Result<bool> prepare(const ColumnNode& column) = 0;
  /// Puts rows from `first` on into a column for which prepare() returned true.
  virtual Result<void> put(const ColumnNode& column, std::uint64_t first, Bytes rows) = 0;
  virtual Result<void> mark(const ColumnNode& column, const Attribute& attribute) = 0;
};

/// Of a column, or of a source, of which something is not stored, and why.
using LateProblem = std::function<void(const std::string& path, const std::string& why)>;

/// Copies the values of frames for which `has_frame` is true. Of two values of a frame the later segment's counts, and
/// of two definitions of a column the earliest. Returns how many segments are damaged: their values are
/// left out; `io` where the storage does not give them. Memory: some 32 MiB.
Result<std::uint64_t> copy_late_values(const std::vector<LateSource>& sources,
                                       const std::function<bool(std::uint64_t frame)>& has_frame,
                                       const LateProblem& problem, LateColumnSink& out);

/// The segments of `file` that have values, by rising sequence; without `id` the first segment's counts. Memory: 16
/// bytes for each.
Result<std::vector<ValuesSegment>> find_values(File& file, const std::optional<format::FileId>& id);

}  // namespace penstock::store
