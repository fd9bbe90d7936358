/// Values of frames as a segment of chunks has them: what goes into the file's columns, next to the pixels that it
/// belongs to. docs/reference/format.md is the specification; this is its only encoder and its only decoder.
///
/// A frame's row has the frame's number and some columns' values. A value has the bytes of the column's row without
/// zeros at its end. A late column is one that the description does not have, because no value of it was known when the
/// file was made. Each of its values says which column it belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store::format {

constexpr std::size_t row_head_bytes = 12;
constexpr std::size_t value_head_bytes = 4;
/// Of one value. No column is as wide.
constexpr std::size_t value_bytes_max = 65535;

/// In place of the column's position: a value of a late column.
constexpr std::uint16_t late_column = 65535;
constexpr std::size_t late_path_bytes_max = 1024;

/// A late column's value.
struct LateValue {
  ColumnNode column;       ///< path, type, text_bytes and shape, and the fill value that follows from the type
  bool unfitting = false;  ///< it is not stored as it was sent
  Bytes bytes;             ///< a view; zeros follow up to the column's width
};

/// `column` has the fill value that every late column of its type has.
ColumnNode make_late_column(std::string path, ElementType type, std::size_t text_bytes,
                            std::vector<std::uint64_t> shape);
/// Whether a late column may have this path, and values of this width.
bool can_be_late(const ColumnNode& column);
/// Most that a value of it takes in a row.
std::size_t late_bytes_max(const ColumnNode& column);
/// `malformed` unless the bytes of a value of `late_column` are right.
Result<LateValue> decode_late(Bytes bytes);

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
  /// `column` can_be_late().
  void add_late(const LateValue& value);
  /// Of this row, so far.
  std::size_t size() const { return rows_.size() - begin_; }

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
