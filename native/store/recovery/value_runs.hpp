/// Values of frames on their way from segments into columns: gathered, so that a column gets long runs of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::store {

class ValueRuns {
 public:
  /// Puts rows from frame `first` on into the column.
  using Put = std::function<Result<void>(std::uint16_t column, std::uint64_t first, Bytes rows)>;
  using RowBytes = std::function<std::size_t(std::uint16_t column)>;

  /// Of two values of a frame in one column the one that was added later counts.
  void add(std::uint64_t frame, std::uint16_t column, Bytes value);
  /// Enough has gathered to be written: some 16 MiB.
  bool is_full() const;
  /// Puts what was gathered, column by column, and forgets it. A value gets zeros behind it up to the row's width.
  Result<void> write(const RowBytes& row_bytes, const Put& put);

 private:
  struct Value {
    std::uint64_t frame;
    std::size_t at;  ///< in bytes_
    std::uint16_t column;
    std::uint16_t bytes;
  };
  std::size_t gather_run(std::size_t first, std::size_t row_bytes);

  std::vector<Value> values_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> run_;
};

}  // namespace penstock::store
