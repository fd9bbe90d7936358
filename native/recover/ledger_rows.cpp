#include "recover/ledger_rows.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "check/structures/scan_places.hpp"
#include "recover/completion.hpp"

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

std::uint8_t state_at(Bytes states, std::uint64_t frame) {
  return frame < states.size() ? std::to_integer<std::uint8_t>(states[frame]) : state_missing;
}

/// Frames whose state in the file is not what it should be, with the right one.
std::map<std::uint64_t, std::uint8_t> changed_states(const Frames& frames, Bytes before, Bytes standing) {
  std::map<std::uint64_t, std::uint8_t> changed;
  const auto note = [&](std::uint64_t frame, std::uint8_t state) {
    if (state != state_at(standing, frame))
      changed[frame] = state;
    else
      changed.erase(frame);
  };
  const auto is_among = [](const std::vector<std::uint64_t>& numbers, std::uint64_t frame) {
    return std::binary_search(numbers.begin(), numbers.end(), frame);
  };
  const auto is_whole = [&](std::uint64_t frame) { return is_among(frames.whole, frame); };
  auto next = frames.whole.begin();
  for (std::uint64_t frame = 0; frame < before.size(); ++frame) {
    if (next != frames.whole.end() && *next == frame) {
      ++next;
      continue;
    }
    const auto state = state_at(before, frame);
    const bool is_gone = state == state_received || (state == state_partial && !is_among(frames.begun, frame));
    if (state != state_missing && state < state_names.size()) note(frame, is_gone ? state_lost : state);
  }
  for (const auto frame : frames.whole) note(frame, state_received);
  for (const auto frame : frames.begun)
    if (state_at(before, frame) == state_missing && !is_whole(frame)) note(frame, state_partial);
  for (const auto frame : frames.damaged)
    if (!is_whole(frame)) note(frame, state_lost);
  return changed;
}

bool is_inside(const check::TreeDataset& dataset, std::uint64_t file_bytes) {
  return std::all_of(dataset.chunks.begin(), dataset.chunks.end(), [&](const auto& chunk) {
    return chunk.address <= file_bytes && chunk.size <= file_bytes - chunk.address;
  });
}

}  // namespace

FramesBefore frames_before(const check::Tree& tree, const store::format::Description& description,
                           std::uint64_t file_bytes) {
  FramesBefore before;
  const auto note = [&](const std::string& path) {
    const auto* dataset = tree.find(path);
    if (dataset != nullptr && !dataset->info.shape.empty())
      before.count = std::max(before.count, dataset->info.shape.front());
  };
  for (const auto& node : description.datasets)
    if (node.scan_shape.empty()) note(node.path);
  for (const auto& node : description.columns) note(node.path);
  const auto* column = tree.find(check::state_path);
  if (column == nullptr || !is_inside(*column, file_bytes)) return before;
  const auto states = states_of(tree);
  before.states.assign(states.begin(), states.end());
  return before;
}

std::uint64_t newly_lost(const Frames& frames, Bytes before) {
  const auto changed = changed_states(frames, before, before);
  return static_cast<std::uint64_t>(
      std::count_if(changed.begin(), changed.end(), [](const auto& each) { return each.second == state_lost; }));
}

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

Result<std::vector<std::pair<std::string, store::Attribute>>> write_rows(
    store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns, const Frames& frames, Bytes before,
    Bytes standing, const std::vector<ReceivedTime>& times, std::uint64_t frame_count) {
  std::vector<std::pair<std::string, store::Attribute>> attributes;
  if (const auto column = column_at(columns, received_path, ElementType::i64))
    PEN_TRY(put_runs(
        index, *column, times, [](const auto& row) { return row.frame; }, [](const auto& row) { return row.ns; }));
  const auto column = column_at(columns, check::state_path, ElementType::u8);
  if (!column) return attributes;
  const auto changed = changed_states(frames, before, standing);
  const std::vector<std::pair<std::uint64_t, std::uint8_t>> rows(changed.begin(), changed.end());
  PEN_TRY(put_runs(
      index, *column, rows, [](const auto& row) { return row.first; }, [](const auto& row) { return row.second; }));
  std::array<std::uint64_t, state_names.size()> counts{};
  for (std::uint64_t frame = 0; frame < standing.size(); ++frame)
    if (const auto state = state_at(standing, frame); state < counts.size() && !changed.contains(frame))
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
