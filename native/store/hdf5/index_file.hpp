/// The HDF5 side of a store's file: its tree, its chunk index and its columns.
///
/// Calls come from one thread at a time. The File and the Space outlive it. Destroying it closes
/// what is open and ignores errors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "store/format/segment.hpp"
#include "store/recovery/late_values.hpp"
#include "store/space/space.hpp"
#include "store/store.hpp"

namespace penstock::store::hdf5 {

/// Puts the values of late columns into a file that is being closed.
using FillLate = std::function<Result<void>(LateColumnSink&)>;

class IndexFile {
 public:
  virtual ~IndexFile() = default;

  /// Writes a new HDF5 file with `layout` in it. Its first bytes are at 0; whatever else `file` holds, the
  /// space keeps clear of.
  static Result<std::unique_ptr<IndexFile>> create(std::shared_ptr<File> file, Space& space, const FileLayout& layout,
                                                   const format::FileId& id);

  /// Opens the file that a recorder left, whatever mark stands on it. `layout` names its chunked
  /// datasets and columns.
  static Result<std::unique_ptr<IndexFile>> open(std::shared_ptr<File> file, Space& space, const FileLayout& layout);

  /// The same, in one step: what was in the file stays as it is until finish() has written all that needs space.
  /// Then it calls `before_changes` and makes the changes. If the storage is full, calls fail with `no_space`, and what
  /// was in the file is as before. Only where more than some ten megabytes of it change are the first of these made
  /// earlier.
  static Result<std::unique_ptr<IndexFile>> open_to_complete(std::shared_ptr<File> file, Space& space,
                                                             const FileLayout& layout,
                                                             std::function<Result<void>()> before_changes);

  /// Ends the making of objects: from here on chunks and rows can be put. With `swmr` readers may
  /// open the file from now on.
  virtual Result<void> start(bool swmr) = 0;

  /// `no_space` while so much of the index waits for room that no more chunks may be put, until a flush() finds room.
  /// Chunks of members take none.
  virtual Result<void> admit_chunks() const = 0;
  /// Grows the datasets and enters the chunks into their index. Returns the positions of those that were refused,
  /// because a chunk with their index and their size is there already.
  virtual Result<std::vector<std::size_t>> put_chunks(std::span<const PlacedChunk> chunks) = 0;
  virtual Result<void> put_rows(ColumnId column, RowRun rows, Bytes data) = 0;
  /// Readers see what was put, unless the storage is full.
  virtual Result<void> flush() = 0;
  /// Whether a part of the index is in memory until the storage has room; flush() looks for it.
  virtual bool waits() const = 0;
  /// Ends SWMR, writes the values, lets `fill_late` add columns, and closes. Nothing can be put after it.
  /// `no_space` where the index found no room to the end: a recovery completes the file.
  virtual Result<void> finish(const FinalValues& values, const FillLate& fill_late = {}) = 0;
  /// Of a column, between start() and finish(); nothing where it is shorter.
  virtual Result<std::optional<std::vector<std::byte>>> row(ColumnId column, std::uint64_t number) = 0;
};

}  // namespace penstock::store::hdf5
