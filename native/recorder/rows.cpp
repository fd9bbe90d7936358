#include "recorder/rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace penstock::recorder {

std::uint64_t RowSlots::put(Row row) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    slots_.push_back(std::move(row));
    return slots_.size() - 1;
  }
  const auto slot = free_.back();
  free_.pop_back();
  slots_[slot] = std::move(row);
  return slot;
}

Row RowSlots::take(std::uint64_t slot) {
  std::lock_guard lock(mutex_);
  free_.push_back(slot);
  return std::move(slots_[slot]);
}

Result<void> RowBatch::write(store::RowWriter& out) {
  std::vector<Row> rows;
  rows.swap(rows_);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.number < b.number; });
  // Of several rows for one frame (its channels) the last one stands.
  const auto last =
      std::unique(rows.rbegin(), rows.rend(), [](const Row& a, const Row& b) { return a.number == b.number; });
  rows.erase(rows.begin(), last.base());
  rows_.swap(rows);
  Result<void> result;
  for (std::size_t first = 0; first < rows_.size() && result.ok();) {
    std::size_t end = first + 1;
    while (end < rows_.size() && rows_[end].number == rows_[end - 1].number + 1) ++end;
    result = write_run(first, end, out);
    first = end;
  }
  rows_.clear();
  return result;
}

Result<void> RowBatch::write_run(std::size_t first, std::size_t last, store::RowWriter& out) {
  const auto number = rows_[first].number;
  const std::vector<std::uint8_t> states(last - first, static_cast<std::uint8_t>(FrameState::received));
  PEN_TRY(
      out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, number, std::as_bytes(std::span(states))));
  std::vector<std::int64_t> values(last - first);
  const auto put = [&](Column column, std::int64_t Row::*member) {
    for (std::size_t i = first; i < last; ++i) values[i - first] = rows_[i].*member;
    return out.put(store::ColumnId{static_cast<std::uint16_t>(column)}, number, std::as_bytes(std::span(values)));
  };
  PEN_TRY(put(Column::exposure_start, &Row::exposure_start_ns));
  PEN_TRY(put(Column::exposure_stop, &Row::exposure_stop_ns));
  PEN_TRY(put(Column::exposure_real, &Row::exposure_real_ns));
  PEN_TRY(put(Column::received, &Row::received_ns));
  PEN_TRY(put(Column::encoded, &Row::encoded_ns));
  PEN_TRY(put(Column::written, &Row::written_ns));
  for (std::size_t column = 0; column < columns_.size(); ++column) PEN_TRY(write_metadata(first, last, column, out));
  return {};
}

namespace {

/// A value that a column has where the sender told none.
std::uint64_t not_told(ElementType type) {
  return type == ElementType::f64 ? std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()) : 0;
}

template <typename Integer, typename Number>
bool fits(Number number) {
  if constexpr (std::is_integral_v<Number>) {
    return std::in_range<Integer>(number);
  } else {
    // Both bounds are powers of two, which a double has exactly.
    constexpr double end = 2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
    return number >= static_cast<double>(std::numeric_limits<Integer>::min()) && number < end;
  }
}

/// The eight bytes of `value` as the column's type; what does not fit or is no number is not told.
std::uint64_t bits_of(const MetaValue& value, ElementType type) {
  return std::visit(
      [&](const auto& v) -> std::uint64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>) {
          return not_told(type);
        } else if (type == ElementType::f64) {
          return std::bit_cast<std::uint64_t>(static_cast<double>(v));
        } else if (type == ElementType::i64) {
          return fits<std::int64_t>(v) ? std::bit_cast<std::uint64_t>(static_cast<std::int64_t>(v)) : not_told(type);
        } else {
          return fits<std::uint64_t>(v) ? static_cast<std::uint64_t>(v) : not_told(type);
        }
      },
      value);
}

}  // namespace

Result<void> RowBatch::write_metadata(std::size_t first, std::size_t last, std::size_t column, store::RowWriter& out) {
  const auto& [name, type] = columns_[column];
  std::vector<std::uint64_t> values(last - first);
  for (std::size_t i = first; i < last; ++i) {
    const auto& metadata = rows_[i].metadata;
    // Sources send the same names in the same order, so the column's own position is tried first.
    auto found =
        column < metadata.size() && metadata[column].first == name
            ? metadata.begin() + static_cast<std::ptrdiff_t>(column)
            : std::find_if(metadata.begin(), metadata.end(), [&name = name](const auto& m) { return m.first == name; });
    values[i - first] = found == metadata.end() ? not_told(type) : bits_of(found->second, type);
  }
  return out.put(store::ColumnId{static_cast<std::uint16_t>(fixed_columns + column)}, rows_[first].number,
                 std::as_bytes(std::span(values)));
}

}  // namespace penstock::recorder
