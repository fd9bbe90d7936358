#include "recover/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "recover/layout.hpp"
#include "store/seal.hpp"

namespace penstock::recover {
namespace {

constexpr const char* end_time_path = "/entry/end_time";
constexpr const char* end_time_place_path = "/entry/penstock/layout/end_time";
constexpr const char* ended_by_path = "/entry/penstock/ended_by";
constexpr const char* last_rows_path = "/entry/penstock/layout/last_rows";

const std::string* text_of(const check::Tree& tree, const std::string& path) {
  const auto* node = tree.find(path);
  return node != nullptr && node->value ? std::get_if<std::string>(&*node->value) : nullptr;
}

/// Where the time goes that tells a complete file: a file whose layout is a user's names the place.
std::string end_time_place(const check::Tree& tree, const Segments& segments) {
  const auto* place = text_of(tree, end_time_place_path);
  if (place == nullptr) place = described_text(segments.description, end_time_place_path);
  return place != nullptr && place->starts_with("/") ? *place : end_time_path;
}

store::Value value_of(const store::ColumnNode& column, std::vector<std::byte> row) {
  if (column.text_bytes == 0) return store::ArrayValue{{column.type, column.shape}, std::move(row)};
  const std::string text(as_text(row));
  return text.substr(0, text.find('\0'));
}

}  // namespace

void replace_value(const store::format::Description& description, const std::string& path, store::Value value,
                   store::FinalValues& values) {
  store::ValueNode node{path, std::move(value), {}};
  for (const auto& first : description.values)
    if (first.path == path) node.attributes = first.attributes;
  values.values.push_back(std::move(node));
  for (const auto& link : description.links)
    if (link.target == path) values.links.push_back(link);
}

Result<void> lock_when_free(File& file) {
  constexpr auto step = std::chrono::milliseconds(50);
  auto locked = file.lock(true);
  for (int tries = 0; tries < 40 && !locked.ok() && locked.error().code() == Errc::locked; ++tries) {
    std::this_thread::sleep_for(step);
    locked = file.lock(true);
  }
  return locked;
}

bool has_final_counts(const check::Tree& tree) {
  const auto* column = tree.find(check::state_path);
  if (column == nullptr) return false;
  const auto& attributes = column->info.attributes;
  return std::any_of(attributes.begin(), attributes.end(), [](const auto& each) { return each.name == "received"; });
}

bool was_completed(const check::Tree& tree) {
  return tree.find(check::state_path) == nullptr || has_final_counts(tree);
}

Bytes states_of(const check::Tree& tree) {
  const auto* column = tree.find(check::state_path);
  const auto* array = column != nullptr && column->value ? std::get_if<store::ArrayValue>(&*column->value) : nullptr;
  return array != nullptr && array->spec.type == ElementType::u8 ? Bytes(array->data) : Bytes();
}

void add_end_time(const check::Tree& tree, const Segments& segments, const std::vector<ReceivedTime>& times,
                  store::FinalValues& values) {
  const auto path = end_time_place(tree, segments);
  const auto last_ns = last_received_ns(tree, times);
  const auto end = iso_time(last_ns > 0 ? last_ns : segments.last_ns);
  const auto* before = text_of(tree, path);
  if (tree.find(path) == nullptr || (last_ns > 0 && before != nullptr && *before < end))
    values.values.push_back({path, end, {}});
}

std::string ended_by(const check::Tree& tree) {
  const auto* text = text_of(tree, ended_by_path);
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return text != nullptr && std::all_of(text->begin(), text->end(), is_plain) ? *text : std::string();
}

void add_ended_by(const std::string& known, store::FinalValues& values) {
  values.values.push_back({ended_by_path,
                           known.empty() ? std::string("recover") : known,
                           {{"description", std::string("why the series ended; recover: its recorder did not close the "
                                                        "file, or its structures were rebuilt")}}});
}

std::optional<std::uint64_t> last_received(Bytes states) {
  constexpr auto received = std::byte{1};
  const auto last = std::find(states.rbegin(), states.rend(), received);
  if (last == states.rend()) return std::nullopt;
  return static_cast<std::uint64_t>(states.rend() - last) - 1;
}

std::vector<LastRow> last_rows_of(const store::format::Description& description) {
  std::vector<LastRow> rows;
  for (const auto& node : description.values) {
    const auto* lines = node.path == last_rows_path ? std::get_if<std::vector<std::string>>(&node.value) : nullptr;
    if (lines == nullptr) continue;
    for (const auto& line : *lines) {
      const auto first = line.find('\t'), second = line.find('\t', std::min(first, line.size() - 1) + 1);
      if (first == std::string::npos || first + 1 == line.size()) continue;
      rows.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1),
                      second == std::string::npos ? "" : line.substr(second + 1)});
    }
  }
  return rows;
}

Result<void> add_last_rows(store::hdf5::IndexFile& index, const Segments& segments, const LastKnown& known,
                           const Frames& frames, const std::function<bool(const std::string&)>& is_there,
                           check::Findings& findings, store::FinalValues& values) {
  const auto& description = segments.description;
  const auto& columns = description.columns;
  const LastRow* behind = nullptr;
  const auto rows = last_rows_of(description);
  for (const auto& wanted : rows) {
    const auto column =
        std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.path == wanted.column; });
    if (column == columns.end() || !is_there(wanted.path)) continue;
    const auto number = static_cast<std::uint16_t>(column - columns.begin());
    if (!column->in_segments) behind = &wanted;
    const auto frame = column->in_segments ? known.in_segments.at(number) : known.in_columns;
    if (!frame) continue;
    PEN_ASSIGN(auto row, index.row(store::ColumnId{number}, *frame), "{}", wanted.column);
    if (!row) continue;
    auto value = value_of(*column, std::move(*row));
    if (wanted.attribute.empty())
      replace_value(description, wanted.path, std::move(value), values);
    else
      values.attributes.emplace_back(wanted.path, store::Attribute{wanted.attribute, std::move(value)});
  }
  if (behind != nullptr && known.in_columns && !frames.whole.empty() && frames.whole.back() > *known.in_columns)
    findings.add({check::Level::warning, "values of the last frame are lost", behind->path,
                  fmt::format("those of frame {}", frames.whole.back()),
                  fmt::format("those of frame {}", *known.in_columns),
                  "the recorder was killed before it had stored them"});
  return {};
}

Result<void> seal(File& file, const Segments& segments, std::uint64_t end) {
  auto guarded = store::fixed_extents(file, segments.description.datasets, end);
  guarded.insert(guarded.end(), segments.guarded.begin(), segments.guarded.end());
  PEN_ASSIGN(const auto file_bytes, file.size());
  auto extents = store::outside(file, std::move(guarded), std::min(end, file_bytes));
  return store::write_seal(file, segments.file_id, std::move(extents), end);
}

}  // namespace penstock::recover
