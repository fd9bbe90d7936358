#include "recorder/rows.hpp"

#include <algorithm>
#include <utility>

namespace penstock::recorder {
namespace {

constexpr std::size_t remarks_max = 64;

}  // namespace

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
  for (const auto& row : rows_) remark_unknown(row.metadata);
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
  if (states_ == States::written) {
    std::vector<std::uint8_t> states;
    states.reserve(last - first);
    for (auto i = first; i < last; ++i)
      states.push_back(static_cast<std::uint8_t>(rows_[i].whole ? FrameState::received : FrameState::missing));
    PEN_TRY(
        out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, number, std::as_bytes(std::span(states))));
  }
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

Result<void> RowBatch::write_metadata(std::size_t first, std::size_t last, std::size_t position,
                                      store::RowWriter& out) {
  const auto& column = columns_[position];
  const auto row_bytes = column.row_bytes();
  std::vector<std::byte> values((last - first) * row_bytes);
  for (std::size_t i = first; i < last; ++i) {
    const auto* value = value_of(rows_[i].metadata, position);
    if (!encode_value(value, column, values.data() + (i - first) * row_bytes))
      remark(column.name, "does not fit the type or the length of its first value everywhere");
  }
  return out.put(store::ColumnId{static_cast<std::uint16_t>(fixed_columns + position)}, rows_[first].number, values);
}

/// Sources send the same names in the same order, so the column's own position is tried first.
const MetaValue* RowBatch::value_of(const Metadata& metadata, std::size_t position) const {
  const auto& name = columns_[position].name;
  if (position < metadata.size() && metadata[position].first == name) return &metadata[position].second;
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& m) { return m.first == name; });
  return found == metadata.end() ? nullptr : &found->second;
}

/// Names that the first frame did not have, or that no column can have.
void RowBatch::remark_unknown(const Metadata& metadata) {
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto& name = metadata[i].first;
    if (i < columns_.size() && columns_[i].name == name) continue;
    if (std::none_of(columns_.begin(), columns_.end(), [&](const auto& c) { return c.name == name; }))
      remark(name, "is not stored: the first frame did not have it, or it is no name of a column");
  }
}

void RowBatch::remark(const std::string& name, const char* what) {
  if (!remark_ || remarked_.size() >= remarks_max || !remarked_.insert(name).second) return;
  remark_(name, what);
}

Result<void> write_states(std::vector<FrameNumber>& frames, FrameState state, store::RowWriter& out) {
  std::sort(frames.begin(), frames.end());
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  for (std::size_t first = 0; first < frames.size();) {
    std::size_t end = first + 1;
    while (end < frames.size() && value(frames[end]) == value(frames[end - 1]) + 1) ++end;
    const std::vector<std::byte> states(end - first, static_cast<std::byte>(state));
    PEN_TRY(out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, value(frames[first]), states));
    first = end;
  }
  return {};
}

}  // namespace penstock::recorder
