/// The columns of one open file.
///
/// HDF5 takes tens of kilobytes for each dataset that is open. The columns stay open if ColumnMemory has room for all
/// of them. Otherwise each is open only while it is written, which takes longer. Closing a dataset, HDF5 looks at all
/// that is changed in the file, which would be much if some columns stayed open.
///
/// Calls need the library's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "store/hdf5/column_memory.hpp"
#include "store/hdf5/growing.hpp"
#include "store/layout.hpp"
#include "store/store.hpp"

namespace penstock::store::hdf5 {

class Columns {
 public:
  void add(const ColumnNode& node);
  /// Opens the columns of a file that was opened, and gives each `rows` rows if it has fewer.
  Result<void> open(hid_t file, std::uint64_t rows);
  Result<void> put(hid_t file, ColumnId column, RowRun rows, Bytes data);
  /// Nothing behind the last one.
  Result<std::optional<std::vector<std::byte>>> row(hid_t file, ColumnId column, std::uint64_t number);
  /// From row `first` on at most `count`, and fewer where the column ends.
  Result<std::vector<std::byte>> rows(hid_t file, ColumnId column, std::uint64_t first, std::uint64_t count);
  /// Before the file is closed, and after it was flushed, because only a flush reports errors.
  void close();

 private:
  struct Column : Growing {
    std::size_t row_bytes = 0;
    Handle type = {};
  };

  Result<Column*> find(ColumnId column);
  std::uint64_t cache_bytes() const;
  static Result<void> open(hid_t file, Column& column, std::uint64_t cache_bytes);
  static Result<void> close(Column& column);
  static Result<std::vector<std::byte>> read(const Column& column, std::uint64_t first, std::uint64_t count);

  std::vector<Column> columns_;
  ColumnMemory memory_;  ///< of the columns if they stay open
};

}  // namespace penstock::store::hdf5
