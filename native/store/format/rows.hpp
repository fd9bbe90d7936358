/// Values of frames as a segment of chunks has them: what goes into the file's columns, next to the pixels that it
/// belongs to. docs/reference/format.md is the specification; this is its only encoder and its only decoder.
///
/// A frame's row has the frame's number and some columns' values. A value has the bytes of the column's row without
/// zeros at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store::format {

constexpr std::size_t row_head_bytes = 12;
constexpr std::size_t value_head_bytes = 4;
/// Of one value. No column is as wide.
constexpr std::size_t value_bytes_max = 65535;

/// Most that one frame's row takes with a value in each of `columns`.
std::uint64_t row_bytes_max(const std::vector<ColumnNode>& columns);

/// Appends one frame's row to `rows`, which outlives it: a row without a value is left out.
class RowAppender {
 public:
  RowAppender(std::vector<std::byte>& rows, std::uint64_t frame);
  ~RowAppender();
  RowAppender(const RowAppender&) = delete;
  RowAppender& operator=(const RowAppender&) = delete;

  /// At most value_bytes_max bytes.
  void add(std::uint16_t column, Bytes value);

 private:
  std::vector<std::byte>& rows_;
  const std::size_t begin_;
};

/// One column's value of one frame.
struct RowValue {
  std::uint64_t frame = 0;
  std::uint16_t column = 0;  ///< position in the description's `columns`
  Bytes bytes;               ///< a view; zeros follow up to the column's width
};

/// Reads the values one after another. `rows` outlives it and what it returns.
class RowReader {
 public:
  explicit RowReader(Bytes rows) : rest_(rows) {}
  /// The next value, nothing behind the last one. `malformed` where a length reaches beyond the end.
  Result<std::optional<RowValue>> next();

 private:
  Bytes rest_;
  Bytes of_frame_;
  std::uint64_t frame_ = 0;
};

}  // namespace penstock::store::format
