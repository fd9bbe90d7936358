/// Finds the segments of a file without its index.
///
/// Walks in steps of 4096 bytes where no header stands, passes over holes where the file system knows them, and
/// jumps by a segment's length where a valid one does (and asks for the next ones at the same distance meanwhile); a
/// damaged header costs its own segment only. The bytes are hostile: what decode_header and decode_records refuse is
/// reported as damage, and memory is bounded by one header region.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "store/format/segment.hpp"

namespace penstock::store {

/// A place where a header stands but is not right.
struct DamagedHeader {
  std::uint64_t address = 0;
  std::string why;
};

struct ScanOptions {
  std::uint64_t begin = 0;
  std::uint64_t end = ~std::uint64_t{0};  ///< where the walk stops; the file's end if that comes first
  std::optional<format::FileId> file_id;  ///< other files' segments are counted and walked over
  std::function<bool()> cancelled;        ///< asked before each read; may be empty
};

/// Iterates over the segments of a file by rising address. One thread; the file outlives it.
class SegmentScanner {
 public:
  static Result<SegmentScanner> create(File& file, ScanOptions options);

  /// The next segment's header; nothing at the end (or once cancelled). Where no file id was given,
  /// that of the first segment found becomes the file's.
  Result<std::optional<format::SegmentHeader>> next();

  /// How far the scan is, for progress.
  std::uint64_t position() const { return position_; }
  const std::optional<format::FileId>& file_id() const { return options_.file_id; }
  /// Headers that are damaged, the first thousand of them.
  const std::vector<DamagedHeader>& damaged() const { return damaged_; }
  std::uint64_t damaged_count() const { return damaged_count_; }
  /// Headers with another file's id: left over on the storage from before.
  std::uint64_t foreign_count() const { return foreign_count_; }
  /// The id of the first of these that describes a file.
  const std::optional<format::FileId>& described_elsewhere() const { return described_elsewhere_; }

 private:
  SegmentScanner(File& file, ScanOptions options, std::uint64_t end, std::uint64_t file_bytes);
  Result<Bytes> header_bytes();
  void ask_ahead(const format::SegmentHeader& last);

  File* file_;
  ScanOptions options_;
  std::uint64_t end_;
  std::uint64_t file_bytes_;
  std::uint64_t position_;
  std::vector<std::byte> window_;
  std::uint64_t window_at_ = 0;
  std::size_t window_size_ = 0;    // bytes of window_ that hold the file's
  std::size_t read_size_;          // of the next read; grows while walking
  std::uint64_t stride_ = 0;       // length of the segment before
  std::uint64_t asked_until_ = 0;  // headers at equal distances were asked for up to here
  std::vector<DamagedHeader> damaged_;
  std::uint64_t damaged_count_ = 0;
  std::uint64_t foreign_count_ = 0;
  std::optional<format::FileId> described_elsewhere_;
};

/// Reads and decodes the records of a segment of chunks, by rising offset. `corrupt` where two chunks
/// overlap.
Result<std::vector<format::ChunkRecord>> read_records(File& file, const format::SegmentHeader& header);

/// Reads the values of the frames of a segment of chunks, for RowReader; empty if there are none.
Result<std::vector<std::byte>> read_rows(File& file, const format::SegmentHeader& header);

/// Reads the stretches of a segment of values or a seal.
Result<std::vector<format::Stretch>> read_stretches(File& file, const format::SegmentHeader& header);

/// Reads the text of a description segment.
Result<std::string> read_description(File& file, const format::SegmentHeader& header);

}  // namespace penstock::store
