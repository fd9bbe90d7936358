#include "recorder/series/accounting/rows.hpp"

#include <algorithm>
#include <utility>

#include "recorder/series/accounting/late_columns.hpp"
#include "store/format/rows.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t remarks_max = 64;
constexpr std::size_t rows_a_batch = 8192;

/// One past the last of the numbers from `first` on that stand at equal distances, with that distance. `number_of`
/// gives the number at a position below `count`; they rise.
template <typename NumberOf>
std::pair<std::size_t, std::uint64_t> run_from(std::size_t first, std::size_t count, NumberOf number_of) {
  if (first + 1 >= count) return {count, 1};
  const auto stride = number_of(first + 1) - number_of(first);
  std::size_t last = first + 2;
  while (last < count && number_of(last) - number_of(last - 1) == stride) ++last;
  return {last, stride};
}

bool has_exposure(const Row& row) {
  return row.exposure_start_ns >= 0 || row.exposure_stop_ns >= 0 || row.exposure_real_ns >= 0;
}

/// Null if it was not sent. Sources send the same names in the same order, so the column's own position is tried first.
const MetaValue* value_of(const Metadata& metadata, const std::string& name, std::size_t position) {
  if (position < metadata.size() && metadata[position].first == name) return &metadata[position].second;
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& m) { return m.first == name; });
  return found == metadata.end() ? nullptr : &found->second;
}

/// Makes one row of those of a frame's parts, which stand together: what a later one tells counts, and the last times.
void merge_parts(std::vector<Row>& rows) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept == 0 || rows[kept - 1].number != rows[i].number) {
      if (kept != i) rows[kept] = std::move(rows[i]);
      ++kept;
      continue;
    }
    auto& into = rows[kept - 1];
    auto& row = rows[i];
    if (has_exposure(row)) {
      into.exposure_start_ns = row.exposure_start_ns;
      into.exposure_stop_ns = row.exposure_stop_ns;
      into.exposure_real_ns = row.exposure_real_ns;
    }
    into.received_ns = std::max(into.received_ns, row.received_ns);
    into.encoded_ns = std::max(into.encoded_ns, row.encoded_ns);
    into.written_ns = std::max(into.written_ns, row.written_ns);
    into.place = std::max(into.place, row.place);
    into.whole = row.whole;
    for (auto& told : row.metadata) {
      const auto same = std::find_if(into.metadata.begin(), into.metadata.end(),
                                     [&](const auto& known) { return known.first == told.first; });
      if (same == into.metadata.end())
        into.metadata.push_back(std::move(told));
      else
        same->second = std::move(told.second);
    }
  }
  rows.resize(kept);
}

}  // namespace

void append_values(const Row& row, const std::vector<MetaColumn>& columns, LateColumns& late,
                   std::vector<std::byte>& rows) {
  store::format::RowAppender appender(rows, row.number);
  if (has_exposure(row)) {
    const auto add = [&](Column column, std::int64_t ns) {
      appender.add(static_cast<std::uint16_t>(column), std::as_bytes(std::span(&ns, 1)));
    };
    add(Column::exposure_start, row.exposure_start_ns);
    add(Column::exposure_stop, row.exposure_stop_ns);
    add(Column::exposure_real, row.exposure_real_ns);
  }
  std::vector<std::byte> encoded;
  std::size_t with_column = 0;
  for (std::size_t position = 0; position < columns.size(); ++position) {
    const auto& column = columns[position];
    const auto* value = value_of(row.metadata, column.name, position);
    if (value == nullptr) continue;
    ++with_column;
    encoded.resize(column.row_bytes());
    (void)encode_value(value, column, encoded.data());  // what does not fit is counted when the column is written
    appender.add(static_cast<std::uint16_t>(fixed_columns + position), encoded);
  }
  if (with_column < row.metadata.size()) late.append(row, appender);
}

std::uint64_t RowSlots::put(Row row, std::uint64_t chunks) {
  std::lock_guard lock(mutex_);
  Slot taken{{std::move(row), WriteOutcome::already_there}, chunks};
  if (free_.empty()) {
    slots_.push_back(std::move(taken));
    return slots_.size() - 1;
  }
  const auto slot = free_.back();
  free_.pop_back();
  slots_[slot] = std::move(taken);
  return slot;
}

const Row& RowSlots::row(std::uint64_t slot) {
  std::lock_guard lock(mutex_);
  return slots_[slot].frame.row;
}

std::optional<RowSlots::Settled> RowSlots::settle(std::uint64_t slot, WriteOutcome outcome, std::uint64_t chunks,
                                                  std::int64_t encoded_ns, std::int64_t written_ns) {
  std::lock_guard lock(mutex_);
  auto& taken = slots_[slot];
  taken.frame.outcome = std::max(taken.frame.outcome, outcome);
  auto& row = taken.frame.row;
  row.encoded_ns = std::max(row.encoded_ns, encoded_ns);
  row.written_ns = std::max(row.written_ns, written_ns);
  taken.chunks -= chunks;
  if (taken.chunks > 0) return std::nullopt;
  free_.push_back(slot);
  return std::move(taken.frame);
}

bool PartialFrames::add(FrameNumber number, std::uint32_t part, std::uint64_t chunk) {
  if (chunks_ == 1) return true;
  const std::pair key(number, part);
  auto& parts = frames_[key];
  parts.there.resize(chunks_);
  if (parts.there[chunk]) return false;
  parts.there[chunk] = true;
  if (++parts.count < chunks_) return false;
  frames_.erase(key);
  return true;
}

template <typename Write>
Result<void> RowBatch::for_runs(const Rows& rows, Write write) {
  for (std::size_t first = 0; first < rows.size();) {
    const auto [last, stride] = run_from(first, rows.size(), [&](std::size_t i) { return rows[i]->number; });
    PEN_TRY(write({std::span(rows).subspan(first, last - first), {rows[first]->number, stride}}));
    first = last;
  }
  return {};
}

bool RowBatch::is_full(std::uint64_t values_bytes_max) const {
  return rows_.size() >= rows_a_batch || values_bytes_ >= values_bytes_max;
}

Result<void> RowBatch::write(store::RowWriter& out) {
  std::vector<Row> rows;
  rows.swap(rows_);
  values_bytes_ = 0;
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.number < b.number; });
  merge_parts(rows);
  Rows all, whole, exposed;
  for (const auto& row : rows) {
    remark_unstorable(row.metadata);
    all.push_back(&row);
    if (row.whole) whole.push_back(&row);
    if (has_exposure(row)) exposed.push_back(&row);
  }
  // Rows without such values leave the columns as they are: another part of the frame may have brought them before.
  PEN_TRY(for_runs(all, [&](const Run& run) { return write_progress(run, out); }));
  PEN_TRY(for_runs(exposed, [&](const Run& run) { return write_exposures(run, out); }));
  // A frame of which a part is missing may have another state by now, which is not this one's to change.
  if (states_ == States::written) PEN_TRY(for_runs(whole, [&](const Run& run) { return write_received(run, out); }));
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    Rows described;
    for (const auto& row : rows)
      if (value_of(row.metadata, columns_[column].name, column) != nullptr) described.push_back(&row);
    PEN_TRY(for_runs(described, [&](const Run& run) { return write_metadata(run, column, out); }));
  }
  return {};
}

Result<void> RowBatch::put(const Run& run, std::size_t column, std::int64_t Row::*member, store::RowWriter& out) {
  std::vector<std::int64_t> values;
  values.reserve(run.rows.size());
  for (const auto* row : run.rows) values.push_back(row->*member);
  return out.put(store::ColumnId{static_cast<std::uint16_t>(column)}, run.place, std::as_bytes(std::span(values)));
}

Result<void> RowBatch::write_received(const Run& run, store::RowWriter& out) {
  const std::vector<std::uint8_t> states(run.rows.size(), static_cast<std::uint8_t>(FrameState::received));
  return out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, run.place,
                 std::as_bytes(std::span(states)));
}

Result<void> RowBatch::write_progress(const Run& run, store::RowWriter& out) {
  PEN_TRY(put(run, static_cast<std::size_t>(Column::received), &Row::received_ns, out));
  PEN_TRY(put(run, static_cast<std::size_t>(Column::encoded), &Row::encoded_ns, out));
  PEN_TRY(put(run, static_cast<std::size_t>(Column::written), &Row::written_ns, out));
  if (places_ == Places::written) return put(run, fixed_columns + columns_.size(), &Row::place, out);
  return {};
}

Result<void> RowBatch::write_exposures(const Run& run, store::RowWriter& out) {
  PEN_TRY(put(run, static_cast<std::size_t>(Column::exposure_start), &Row::exposure_start_ns, out));
  PEN_TRY(put(run, static_cast<std::size_t>(Column::exposure_stop), &Row::exposure_stop_ns, out));
  return put(run, static_cast<std::size_t>(Column::exposure_real), &Row::exposure_real_ns, out);
}

Result<void> RowBatch::write_metadata(const Run& run, std::size_t position, store::RowWriter& out) {
  const auto& column = columns_[position];
  const auto row_bytes = column.row_bytes();
  std::vector<std::byte> values(run.rows.size() * row_bytes);
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const auto* value = value_of(run.rows[i]->metadata, column.name, position);
    if (encode_value(value, column, values.data() + i * row_bytes)) continue;
    ++unfitting_[position];
    remark(column.name, "does not always have the type or length of its first value");
  }
  return out.put(store::ColumnId{static_cast<std::uint16_t>(fixed_columns + position)}, run.place, values);
}

/// Names that no column can have.
void RowBatch::remark_unstorable(const Metadata& metadata) {
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto& name = metadata[i].first;
    if (i < columns_.size() && columns_[i].name == name) continue;
    if (!can_be_column(name)) remark(name, "is not stored: it is not a valid column name");
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
    const auto [last, stride] = run_from(first, frames.size(), [&](std::size_t i) { return value(frames[i]); });
    const std::vector<std::byte> states(last - first, static_cast<std::byte>(state));
    PEN_TRY(
        out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, {value(frames[first]), stride}, states));
    first = last;
  }
  return {};
}

}  // namespace penstock::recorder
