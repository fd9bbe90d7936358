/// The late columns of a file that is being closed: made, filled, and given as many rows as the others have. One is
/// open at a time.
///
/// Calls need the library's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "store/hdf5/growing.hpp"
#include "store/layout.hpp"

namespace penstock::store::hdf5 {

class LateColumns {
 public:
  /// Makes the column, with `rows` rows, if it is not there. False if another object is there.
  Result<bool> prepare(hid_t file, const ColumnNode& column, std::uint64_t rows);
  Result<void> put(hid_t file, const ColumnNode& column, std::uint64_t first, Bytes rows);
  /// Before the file is closed.
  Result<void> close();

 private:
  struct Column : Growing {
    Handle type = {};
  };

  static Result<std::optional<Column>> open_if_same(hid_t file, const ColumnNode& column);
  Result<void> open(hid_t file, const ColumnNode& column);

  std::optional<Column> open_;
};

}  // namespace penstock::store::hdf5
