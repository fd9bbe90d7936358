#include "recorder/series/accounting/late_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "store/format/segment.hpp"
#include "store/recovery/late_values.hpp"

namespace penstock::recorder {
namespace {

/// The log names no more than these of each kind.
constexpr std::size_t left_out_max = 64;
constexpr std::ptrdiff_t remarked_columns_max = 64;
constexpr std::size_t remarked_frames_max = 64;
/// Far below what a segment takes of one chunk's frames.
constexpr std::size_t row_bytes_in_log = 4 << 20;

/// A slot has room for a row with all known columns, up to the end of the page.
std::size_t row_bytes_in_slot(const std::vector<MetaColumn>& known) {
  std::vector<store::ColumnNode> columns(3, {.path = {}, .type = ElementType::i64});  // times of the exposure
  for (const auto& column : known)
    columns.push_back({.path = {}, .type = column.type, .text_bytes = column.text_bytes, .shape = column.shape});
  constexpr auto record = store::format::record_size_bytes;
  return store::format::header_region_bytes(record + store::format::row_bytes_max(columns)) - record -
         store::format::header_size_bytes;
}

}  // namespace

LateColumns::LateColumns(const std::vector<MetaColumn>& known, PathOf path_of, Remark remark, bool in_slots)
    : path_of_(std::move(path_of)),
      remark_(std::move(remark)),
      row_bytes_max_(in_slots ? row_bytes_in_slot(known) : row_bytes_in_log) {
  for (const auto& column : known) known_.push_back(column.name);
  std::sort(known_.begin(), known_.end());
}

bool LateColumns::is_known(const std::string& name) const {
  return std::binary_search(known_.begin(), known_.end(), name);
}

void LateColumns::append(const Row& row, store::format::RowAppender& appender) {
  const MutexLock lock(mutex_);
  const auto before = columns_.size();
  const std::string* first_new = nullptr;
  for (const auto& [name, value] : row.metadata) {
    auto* const column = find(name, value);
    if (column == nullptr) continue;
    if (first_new == nullptr && columns_.size() > before) first_new = &name;
    append(*column, value, appender);
  }
  if (first_new != nullptr) remark_new(*first_new, columns_.size() - before, row.number);
}

/// One line for all that a frame brings first.
void LateColumns::remark_new(const std::string& name, std::size_t count, std::uint64_t frame) {
  if (++remarked_frames_ > remarked_frames_max) return;
  remark_(name, count == 1
                    ? fmt::format("comes from frame {} on: its column is made when the series is closed", frame)
                    : fmt::format("comes from frame {} on, as the first of {} new values: their columns are made when "
                                  "the series is closed",
                                  frame, count));
}

/// Null where the name has a column in the file, or can have none.
LateColumns::Column* LateColumns::find(const std::string& name, const MetaValue& value) {
  if (const auto found = columns_.find(name); found != columns_.end()) return &found->second;
  return left_out_.contains(name) || is_known(name) ? nullptr : make(name, value);
}

LateColumns::Column* LateColumns::make(const std::string& name, const MetaValue& value) {
  auto meta = meta_columns({{name, value}});
  if (meta.empty()) return nullptr;  // the rows' batch reports it
  const auto leave_out = [&](const std::string& why) PEN_REQUIRES(mutex_) {
    if (left_out_.size() < left_out_max && left_out_.insert(name).second)
      remark_(name, fmt::format("is not stored: the first frame lacks it, and {}", why));
    return nullptr;
  };
  if (known_.size() + columns_.size() >= store::late_columns_max)
    return leave_out(fmt::format("a file has at most {} columns for such values", store::late_columns_max));
  auto node =
      store::format::make_late_column(path_of_(name), meta.front().type, meta.front().text_bytes, meta.front().shape);
  if (!store::format::can_be_late(node)) return leave_out(fmt::format("{} cannot be added to the file", node.path));
  return &columns_.emplace(name, Column{std::move(meta.front()), std::move(node)}).first->second;
}

void LateColumns::append(Column& column, const MetaValue& value, store::format::RowAppender& appender) {
  std::vector<std::byte> encoded(column.meta.row_bytes());
  const bool fits = encode_value(&value, column.meta, encoded.data());
  const store::format::LateValue late{column.node, !fits, encoded};
  const bool has_room = appender.size() + store::format::late_bytes_max(column.node) <= row_bytes_max_;
  if (has_room) appender.add_late(late);
  if ((fits && has_room) || column.remarked) return;
  column.remarked = true;
  const auto remarked =
      std::count_if(columns_.begin(), columns_.end(), [](const auto& c) { return c.second.remarked; });
  if (remarked > remarked_columns_max) return;
  remark_(column.meta.name, has_room ? "does not always have the type or length of its first value"
                                     : "is not always stored: a slot has no room for it (store.placement)");
}

bool LateColumns::any() const {
  const MutexLock lock(mutex_);
  return !columns_.empty();
}

}  // namespace penstock::recorder
