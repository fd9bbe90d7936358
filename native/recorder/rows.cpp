#include "recorder/rows.hpp"

#include <algorithm>
#include <utility>

namespace penstock::recorder {
namespace {

constexpr std::size_t remarks_max = 64;

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

}  // namespace

std::uint64_t RowSlots::put(Row row, std::uint64_t chunks) {
  std::lock_guard lock(mutex_);
  Slot taken{{std::move(row), Fate::already_there}, chunks};
  if (free_.empty()) {
    slots_.push_back(std::move(taken));
    return slots_.size() - 1;
  }
  const auto slot = free_.back();
  free_.pop_back();
  slots_[slot] = std::move(taken);
  return slot;
}

std::optional<RowSlots::Settled> RowSlots::settle(std::uint64_t slot, Fate fate, std::uint64_t chunks,
                                                  std::int64_t encoded_ns, std::int64_t written_ns) {
  std::lock_guard lock(mutex_);
  auto& taken = slots_[slot];
  taken.frame.fate = std::max(taken.frame.fate, fate);
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

Result<void> RowBatch::write(store::RowWriter& out) {
  std::vector<Row> rows;
  rows.swap(rows_);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.number < b.number; });
  // Of several rows for one frame (its parts) the last one stands.
  const auto last =
      std::unique(rows.rbegin(), rows.rend(), [](const Row& a, const Row& b) { return a.number == b.number; });
  rows.erase(rows.begin(), last.base());
  rows_.swap(rows);
  for (const auto& row : rows_) remark_unknown(row.metadata);
  Result<void> result;
  for (std::size_t first = 0; first < rows_.size() && result.ok();) {
    const auto [last_of_run, stride] = run_from(first, rows_.size(), [&](std::size_t i) { return rows_[i].number; });
    result = write_run({first, last_of_run, {rows_[first].number, stride}}, out);
    first = last_of_run;
  }
  rows_.clear();
  return result;
}

Result<void> RowBatch::write_run(const Run& run, store::RowWriter& out) {
  const auto count = run.last - run.first;
  if (states_ == States::written) {
    std::vector<std::uint8_t> states;
    states.reserve(count);
    for (auto i = run.first; i < run.last; ++i)
      states.push_back(static_cast<std::uint8_t>(rows_[i].whole ? FrameState::received : FrameState::missing));
    PEN_TRY(out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, run.rows,
                    std::as_bytes(std::span(states))));
  }
  std::vector<std::int64_t> values(count);
  const auto put_at = [&](std::size_t column, std::int64_t Row::*member) {
    for (std::size_t i = 0; i < count; ++i) values[i] = rows_[run.first + i].*member;
    return out.put(store::ColumnId{static_cast<std::uint16_t>(column)}, run.rows, std::as_bytes(std::span(values)));
  };
  const auto put = [&](Column column, std::int64_t Row::*member) {
    return put_at(static_cast<std::size_t>(column), member);
  };
  PEN_TRY(put(Column::exposure_start, &Row::exposure_start_ns));
  PEN_TRY(put(Column::exposure_stop, &Row::exposure_stop_ns));
  PEN_TRY(put(Column::exposure_real, &Row::exposure_real_ns));
  PEN_TRY(put(Column::received, &Row::received_ns));
  PEN_TRY(put(Column::encoded, &Row::encoded_ns));
  PEN_TRY(put(Column::written, &Row::written_ns));
  for (std::size_t column = 0; column < columns_.size(); ++column) PEN_TRY(write_metadata(run, column, out));
  if (places_ == Places::written) return put_at(fixed_columns + columns_.size(), &Row::place);
  return {};
}

Result<void> RowBatch::write_metadata(const Run& run, std::size_t position, store::RowWriter& out) {
  const auto& column = columns_[position];
  const auto row_bytes = column.row_bytes();
  std::vector<std::byte> values((run.last - run.first) * row_bytes);
  for (auto i = run.first; i < run.last; ++i) {
    const auto* value = value_of(rows_[i].metadata, position);
    if (!encode_value(value, column, values.data() + (i - run.first) * row_bytes))
      remark(column.name, "does not fit the type or the length of its first value everywhere");
  }
  return out.put(store::ColumnId{static_cast<std::uint16_t>(fixed_columns + position)}, run.rows, values);
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
    const auto [last, stride] = run_from(first, frames.size(), [&](std::size_t i) { return value(frames[i]); });
    const std::vector<std::byte> states(last - first, static_cast<std::byte>(state));
    PEN_TRY(
        out.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, {value(frames[first]), stride}, states));
    first = last;
  }
  return {};
}

}  // namespace penstock::recorder
