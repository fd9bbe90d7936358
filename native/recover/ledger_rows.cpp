#include "recover/ledger_rows.hpp"

#include <algorithm>
#include <array>

#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "check/structures/scan_places.hpp"
#include "recover/completion.hpp"

namespace penstock::recover {
namespace {

constexpr std::array state_names{"missing", "received", "damaged", "dropped", "lost", "partial"};
constexpr std::uint8_t state_missing = 0, state_received = 1, state_damaged = 2, state_dropped = 3, state_lost = 4,
                       state_partial = 5;

std::optional<store::ColumnId> column_at(const std::vector<store::ColumnNode>& columns, std::string_view path,
                                         ElementType type) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].path == path && columns[i].type == type && columns[i].text_bytes == 0)
      return store::ColumnId{static_cast<std::uint16_t>(i)};
  return std::nullopt;
}

/// Puts rows that come by rising number into a column: consecutive ones in one call.
template <typename Element>
class Runs {
 public:
  Runs(store::hdf5::IndexFile& index, store::ColumnId column) : index_(index), column_(column) {}

  Result<void> put(std::uint64_t number, Element value) {
    constexpr std::size_t run_max = 65536;
    if (number != end_ || run_.size() == run_max) PEN_TRY(flush());
    run_.push_back(value);
    end_ = number + 1;
    return {};
  }
  Result<void> flush() {
    if (run_.empty()) return {};
    PEN_TRY(index_.put_rows(column_, {end_ - run_.size()}, std::as_bytes(std::span(run_))));
    run_.clear();
    return {};
  }

 private:
  store::hdf5::IndexFile& index_;
  const store::ColumnId column_;
  std::vector<Element> run_;
  std::uint64_t end_ = 0;  ///< one past the last number in run_
};

std::uint8_t state_at(Bytes states, std::uint64_t frame) {
  return frame < states.size() ? std::to_integer<std::uint8_t>(states[frame]) : state_missing;
}

/// Answers for rising numbers whether they are in a rising list.
class Among {
 public:
  explicit Among(const std::vector<std::uint64_t>& numbers) : next_(numbers.begin()), end_(numbers.end()) {}
  bool has(std::uint64_t number) {
    while (next_ != end_ && *next_ < number) ++next_;
    return next_ != end_ && *next_ == number;
  }
  /// The first in the list from `number` on.
  std::optional<std::uint64_t> from(std::uint64_t number) {
    (void)has(number);
    return next_ == end_ ? std::nullopt : std::optional(*next_);
  }

 private:
  std::vector<std::uint64_t>::const_iterator next_, end_;
};

/// The states that frames get, by rising number, of all of which anything says something.
class StatesAfter {
 public:
  StatesAfter(const Frames& frames, Bytes before, Bytes standing)
      : before_(before),
        standing_(standing),
        known_end_(std::max(before.size(), standing.size())),
        whole_(frames.whole),
        begun_(frames.begun),
        damaged_(frames.damaged) {}

  struct FrameState {
    std::uint64_t frame = 0;
    std::uint8_t standing = state_missing;
    std::uint8_t right = state_missing;
  };
  std::optional<FrameState> next() {
    auto frame = next_;
    if (frame >= known_end_) {
      const auto after = {whole_.from(next_), begun_.from(next_), damaged_.from(next_)};
      std::optional<std::uint64_t> first;
      for (const auto& each : after)
        if (each && (!first || *each < *first)) first = each;
      if (!first) return std::nullopt;
      frame = *first;
    }
    next_ = frame + 1;
    return FrameState{frame, state_at(standing_, frame), right_state(frame)};
  }

 private:
  std::uint8_t right_state(std::uint64_t frame) {
    const auto before = state_at(before_, frame);
    const bool is_begun = begun_.has(frame), is_damaged = damaged_.has(frame);
    if (whole_.has(frame)) return state_received;
    if (is_damaged) return state_lost;
    if (before == state_missing) return is_begun ? state_partial : state_at(standing_, frame);
    if (before >= state_names.size()) return state_at(standing_, frame);
    const bool is_gone = before == state_received || (before == state_partial && !is_begun);
    return is_gone ? state_lost : before;
  }

  Bytes before_, standing_;
  std::uint64_t known_end_;
  Among whole_, begun_, damaged_;
  std::uint64_t next_ = 0;
};

bool is_inside(const check::TreeDataset& dataset, std::uint64_t file_bytes) {
  return std::all_of(dataset.chunks.begin(), dataset.chunks.end(), [&](const auto& chunk) {
    return chunk.address <= file_bytes && chunk.size <= file_bytes - chunk.address;
  });
}

}  // namespace

FramesBefore frames_before(const check::Tree& tree, const store::format::Description& description,
                           std::uint64_t file_bytes) {
  FramesBefore before;
  before.ended_by = ended_by(tree);
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
  const auto& attributes = column->info.attributes;
  before.assumed = std::any_of(attributes.begin(), attributes.end(),
                               [](const auto& each) { return each.name == check::lost_or_never_came; });
  return before;
}

StateCounts count_states(const Frames& frames, Bytes before, Bytes standing) {
  StateCounts counts;
  StatesAfter states(frames, before, standing);
  while (const auto each = states.next()) {
    if (each->right == state_damaged) ++counts.damaged;
    if (each->right == state_dropped) ++counts.dropped;
    if (each->right == state_lost) ++counts.lost;
    if (each->right == state_partial) ++counts.partial;
  }
  return counts;
}

std::uint64_t newly_lost(const Frames& frames, Bytes before) {
  std::uint64_t count = 0;
  StatesAfter states(frames, before, before);
  while (const auto each = states.next())
    if (each->right == state_lost && each->standing != state_lost) ++count;
  return count;
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
  if (const auto column = column_at(columns, received_path, ElementType::i64)) {
    Runs<std::int64_t> rows(index, *column);
    for (const auto& time : times) PEN_TRY(rows.put(time.frame, time.ns));
    PEN_TRY(rows.flush());
  }
  const auto column = column_at(columns, check::state_path, ElementType::u8);
  if (!column) return attributes;
  std::array<std::uint64_t, state_names.size()> counts{};
  Runs<std::uint8_t> rows(index, *column);
  StatesAfter states(frames, before, standing);
  while (const auto each = states.next()) {
    if (each->right != each->standing) PEN_TRY(rows.put(each->frame, each->right));
    if (each->right < counts.size()) ++counts[each->right];
  }
  PEN_TRY(rows.flush());
  counts[0] = frame_count - std::min<std::uint64_t>(frame_count, frames.whole.size());
  for (std::size_t state = 0; state < counts.size(); ++state)
    attributes.emplace_back(check::state_path, store::Attribute{state_names[state], store::scalar(counts[state])});
  return attributes;
}

Result<void> write_places(store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns,
                          const std::vector<FramePlace>& places) {
  const auto column = column_at(columns, check::places_path, ElementType::i64);
  if (!column) return {};
  Runs<std::int64_t> rows(index, *column);
  for (const auto& each : places) PEN_TRY(rows.put(each.frame, static_cast<std::int64_t>(each.place)));
  return rows.flush();
}

}  // namespace penstock::recover
