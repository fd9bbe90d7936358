#include "store/recovery/late_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "store/format/rows.hpp"
#include "store/recovery/scan.hpp"
#include "store/recovery/value_runs.hpp"

namespace penstock::store {
namespace {

using format::LateValue;

class Copy {
 public:
  Copy(const std::function<bool(std::uint64_t)>& has_frame, const LateProblem& problem, LateColumnSink& out)
      : has_frame_(has_frame), problem_(problem), out_(out) {}

  /// Values of later calls count before those of earlier ones. What is malformed ends the segment's.
  Result<void> add(Bytes rows) {
    format::RowReader reader(rows);
    while (true) {
      const auto value = reader.next();
      if (!value.ok() || !*value) break;
      if ((*value)->column != format::late_column || !has_frame_((*value)->frame)) continue;
      auto late = format::decode_late((*value)->bytes);
      if (!late.ok()) break;
      PEN_TRY(add((*value)->frame, *late));
      if (runs_.is_full()) PEN_TRY(write());
    }
    return {};
  }

  Result<void> finish() {
    PEN_TRY(write());
    for (const auto& [node, usable, unfitting] : columns_) {
      if (!usable || unfitting == 0) continue;
      PEN_TRY(out_.mark(node, {"unfitting", scalar(unfitting)}));
    }
    return {};
  }

 private:
  struct Column {
    ColumnNode node;
    bool usable = true;
    std::uint64_t unfitting = 0;  ///< values that are not stored as they were sent
  };

  Result<void> add(std::uint64_t frame, LateValue& late) {
    PEN_ASSIGN(auto* const column, find(late.column));
    if (column == nullptr || !column->usable) return {};
    const bool fits = make_fit(late, column->node);
    if (late.unfitting || !fits) ++column->unfitting;
    if (fits || column->node.text_bytes > 0)
      runs_.add(frame, static_cast<std::uint16_t>(column - columns_.data()), late.bytes);
    return {};
  }

  /// Null if the file has as many late columns as it may have.
  Result<Column*> find(const ColumnNode& wanted) {
    if (const auto known = by_path_.find(wanted.path); known != by_path_.end()) return &columns_[known->second];
    if (columns_.size() == late_columns_max) {
      if (left_out_.size() < late_columns_max && left_out_.insert(wanted.path).second)
        problem_(wanted.path, fmt::format("a file has at most {} late columns", late_columns_max));
      return static_cast<Column*>(nullptr);
    }
    PEN_ASSIGN(const bool usable, out_.prepare(wanted));
    if (!usable) problem_(wanted.path, "another object is in its place");
    by_path_.emplace(wanted.path, columns_.size());
    columns_.push_back({wanted, usable});
    return &columns_.back();
  }

  /// Texts may have another width; false if something of the value is lost by that, or it has another type.
  static bool make_fit(LateValue& late, const ColumnNode& column) {
    if ((late.column.text_bytes > 0) != (column.text_bytes > 0)) {
      late.bytes = {};
      return false;
    }
    if (column.text_bytes == 0) return late.column.type == column.type && late.column.shape == column.shape;
    if (late.bytes.size() <= column.text_bytes) return true;
    auto size = column.text_bytes;
    while (size > 0 && (late.bytes[size] & std::byte{0xC0}) == std::byte{0x80}) --size;
    late.bytes = late.bytes.first(size);
    return false;
  }

  Result<void> write() {
    return runs_.write([&](std::uint16_t column) { return columns_[column].node.row_bytes(); },
                       [&](std::uint16_t column, std::uint64_t first, Bytes rows) {
                         return out_.put(columns_[column].node, first, rows);
                       });
  }

  const std::function<bool(std::uint64_t)>& has_frame_;
  const LateProblem& problem_;
  LateColumnSink& out_;
  std::vector<Column> columns_;
  std::map<std::string, std::size_t> by_path_;
  std::set<std::string> left_out_;
  ValueRuns runs_;
};

Result<std::vector<std::byte>> rows_of(File& file, std::uint64_t address) {
  std::array<std::byte, format::header_size_bytes> bytes{};
  PEN_ASSIGN(const auto count, file.read_at(bytes, address));
  PEN_ASSIGN(const auto header, format::decode_header(Bytes(bytes).first(count), address));
  return read_rows(file, header);
}

/// What is damaged stays so. An error of the storage may pass, and whoever comes then finds the values.
bool is_damage(const Error& error) {
  return error.code() == Errc::corrupt || error.code() == Errc::malformed || error.code() == Errc::truncated;
}

}  // namespace

Result<std::uint64_t> copy_late_values(const std::vector<LateSource>& sources,
                                       const std::function<bool(std::uint64_t frame)>& has_frame,
                                       const LateProblem& problem, LateColumnSink& out) {
  Copy copy(has_frame, problem, out);
  std::uint64_t damaged = 0;
  for (const auto& source : sources) {
    if (source.segments.empty()) continue;
    const auto file = source.open();
    // What the other sources have is better than nothing.
    if (!file.ok()) {
      problem(source.path, file.error().message());
      continue;
    }
    for (const auto& segment : source.segments) {
      const auto rows = rows_of(**file, segment.address);
      if (!rows.ok() && !is_damage(rows.error())) return rows.error();
      if (rows.ok())
        PEN_TRY(copy.add(*rows));
      else
        ++damaged;
    }
  }
  PEN_TRY(copy.finish());
  return damaged;
}

Result<std::vector<ValuesSegment>> find_values(File& file, const std::optional<format::FileId>& id) {
  ScanOptions options;
  options.file_id = id;
  PEN_ASSIGN(auto scanner, SegmentScanner::create(file, std::move(options)));
  std::vector<ValuesSegment> found;
  while (true) {
    PEN_ASSIGN(const auto header, scanner.next());
    if (!header) break;
    if (header->row_bytes > 0) found.push_back({header->sequence, header->address});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return found;
}

}  // namespace penstock::store
