#include "recover/ledger_rows.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "check/structures/scan_places.hpp"

namespace penstock::recover {
namespace {

constexpr std::array state_names{"missing", "received", "damaged", "dropped", "lost", "partial"};
constexpr std::uint8_t state_missing = 0, state_received = 1, state_lost = 4, state_partial = 5;

std::optional<store::ColumnId> column_at(const std::vector<store::ColumnNode>& columns, std::string_view path,
                                         ElementType type) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].path == path && columns[i].type == type && columns[i].text_bytes == 0)
      return store::ColumnId{static_cast<std::uint16_t>(i)};
  return std::nullopt;
}

/// Consecutive rows go in one call.
template <typename Row, typename Number, typename Value>
Result<void> put_runs(store::hdf5::IndexFile& index, store::ColumnId column, const std::vector<Row>& rows,
                      Number number, Value value) {
  using Element = decltype(value(rows.front()));
  constexpr std::size_t run_max = 65536;
  std::vector<Element> run;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    run.push_back(value(rows[i]));
    const bool ends = i + 1 == rows.size() || number(rows[i + 1]) != number(rows[i]) + 1 || run.size() == run_max;
    if (!ends) continue;
    PEN_TRY(index.put_rows(column, {number(rows[i]) + 1 - run.size()}, std::as_bytes(std::span(run))));
    run.clear();
  }
  return {};
}

/// Frames whose state is not what it should be, with the right one.
std::map<std::uint64_t, std::uint8_t> changed_states(const Frames& frames, Bytes states) {
  const auto state_of = [&](std::uint64_t frame) {
    return frame < states.size() ? std::to_integer<std::uint8_t>(states[frame]) : std::uint8_t{0};
  };
  std::map<std::uint64_t, std::uint8_t> changed;
  for (const auto frame : frames.whole)
    if (state_of(frame) != state_received) changed[frame] = state_received;
  const auto is_whole = [&](std::uint64_t frame) {
    return std::binary_search(frames.whole.begin(), frames.whole.end(), frame);
  };
  for (const auto frame : frames.begun)
    if (state_of(frame) == state_missing && !is_whole(frame)) changed[frame] = state_partial;
  for (const auto frame : frames.damaged)
    if (!is_whole(frame)) changed[frame] = state_lost;
  for (std::uint64_t frame = 0; frame < states.size(); ++frame)
    if (state_of(frame) == state_received && !is_whole(frame)) changed[frame] = state_lost;
  return changed;
}

}  // namespace

std::int64_t last_received_ns(const check::Tree& tree, const std::vector<ReceivedTime>& times) {
  const auto now_ns = realtime_ns();
  std::int64_t last_ns = 0;
  const auto note = [&](std::int64_t ns) {
    if (ns > last_ns && ns <= now_ns) last_ns = ns;
  };
  for (const auto& time : times) note(time.ns);
  const auto* column = tree.find(received_path);
  const auto* array = column != nullptr && column->value ? std::get_if<store::ArrayValue>(&*column->value) : nullptr;
  if (array == nullptr || array->spec.type != ElementType::i64) return last_ns;
  for (std::size_t at = 0; at + sizeof(std::int64_t) <= array->data.size(); at += sizeof(std::int64_t))
    note(load_le<std::int64_t>(array->data.data() + at));
  return last_ns;
}

Result<std::vector<std::pair<std::string, store::Attribute>>> write_rows(store::hdf5::IndexFile& index,
                                                                         const std::vector<store::ColumnNode>& columns,
                                                                         const Frames& frames, Bytes states,
                                                                         const std::vector<ReceivedTime>& times,
                                                                         std::uint64_t frame_count) {
  std::vector<std::pair<std::string, store::Attribute>> attributes;
  if (const auto column = column_at(columns, received_path, ElementType::i64))
    PEN_TRY(put_runs(
        index, *column, times, [](const auto& row) { return row.frame; }, [](const auto& row) { return row.ns; }));
  const auto column = column_at(columns, check::state_path, ElementType::u8);
  if (!column) return attributes;
  const auto changed = changed_states(frames, states);
  const std::vector<std::pair<std::uint64_t, std::uint8_t>> rows(changed.begin(), changed.end());
  PEN_TRY(put_runs(
      index, *column, rows, [](const auto& row) { return row.first; }, [](const auto& row) { return row.second; }));
  std::array<std::uint64_t, state_names.size()> counts{};
  for (std::uint64_t frame = 0; frame < states.size(); ++frame)
    if (const auto state = std::to_integer<std::uint8_t>(states[frame]);
        state < counts.size() && !changed.contains(frame))
      ++counts[state];
  for (const auto& [frame, state] : changed) ++counts[state];
  counts[0] = frame_count - std::min<std::uint64_t>(frame_count, frames.whole.size());
  for (std::size_t state = 0; state < counts.size(); ++state)
    attributes.emplace_back(check::state_path, store::Attribute{state_names[state], store::scalar(counts[state])});
  return attributes;
}

Result<void> write_places(store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns,
                          const std::vector<FramePlace>& places) {
  const auto column = column_at(columns, check::places_path, ElementType::i64);
  if (!column) return {};
  return put_runs(
      index, *column, places, [](const auto& row) { return row.frame; }, [](const auto& row) { return row.place; });
}

}  // namespace penstock::recover
