#include "store/format/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/invariant.hpp"

namespace penstock::store::format {
namespace {

constexpr std::size_t late_head_bytes = 8;
constexpr std::size_t late_dimensions_max = 8;
/// Of a row; wider values come from no recorder.
constexpr std::uint64_t late_row_bytes_max = 16 << 10;
constexpr std::byte unfitting_flag{1};

std::string type_text(const ColumnNode& column) {
  return column.text_bytes > 0 ? fmt::format("S{}", column.text_bytes) : std::string(name(column.type));
}

/// The type as the description has it.
bool parse_type(std::string_view text, ColumnNode& column) {
  if (!text.starts_with('S')) {
    const auto type = element_type_of(text);
    column.type = type.value_or(ElementType::u8);
    return type.has_value();
  }
  const auto* end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data() + 1, end, column.text_bytes);
  column.type = ElementType::u8;
  return error == std::errc() && read_to == end && column.text_bytes > 0;
}

bool is_object_path(std::string_view path) {
  const bool absolute = path.size() > 1 && path.size() <= late_path_bytes_max && path.front() == '/' &&
                        path.back() != '/' && path.find("//") == std::string_view::npos;
  return absolute &&
         std::none_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

}  // namespace

ColumnNode make_late_column(std::string path, ElementType type, std::size_t text_bytes,
                            std::vector<std::uint64_t> shape) {
  ColumnNode column{
      .path = std::move(path), .type = type, .text_bytes = text_bytes, .shape = std::move(shape), .in_segments = true};
  if (text_bytes > 0 || (type != ElementType::f32 && type != ElementType::f64)) return column;
  column.fill.resize(size_of(type));
  if (type == ElementType::f32) store_le(column.fill.data(), std::numeric_limits<float>::quiet_NaN());
  if (type == ElementType::f64) store_le(column.fill.data(), std::numeric_limits<double>::quiet_NaN());
  return column;
}

bool can_be_late(const ColumnNode& column) {
  if (!is_object_path(column.path) || column.shape.size() > late_dimensions_max) return false;
  if (column.text_bytes > 0) return column.shape.empty() && column.text_bytes <= late_row_bytes_max;
  std::uint64_t bytes = size_of(column.type);
  for (const auto extent : column.shape) {
    if (extent == 0 || extent > late_row_bytes_max / bytes) return false;
    bytes *= extent;
  }
  return true;
}

std::size_t late_bytes_max(const ColumnNode& column) {
  return value_head_bytes + late_head_bytes + 4 * column.shape.size() + type_text(column).size() + column.path.size() +
         column.row_bytes();
}

Result<LateValue> decode_late(Bytes bytes) {
  const auto bad = [](std::string_view what) {
    return make_error(Errc::malformed, "a value of a late column {}", what);
  };
  if (bytes.size() < late_head_bytes) return bad("has no head");
  const std::size_t path_bytes = load_le<std::uint16_t>(bytes.data());
  const auto type_bytes = std::to_integer<std::size_t>(bytes[2]);
  const auto dimensions = std::to_integer<std::size_t>(bytes[3]);
  LateValue value;
  value.unfitting = (bytes[4] & unfitting_flag) != std::byte{0};
  bytes = bytes.subspan(late_head_bytes);
  if (dimensions > late_dimensions_max || 4 * dimensions + type_bytes + path_bytes > bytes.size())
    return bad("is shorter than its head says");
  for (std::size_t i = 0; i < dimensions; ++i)
    value.column.shape.push_back(load_le<std::uint32_t>(bytes.data() + 4 * i));
  bytes = bytes.subspan(4 * dimensions);
  const bool known = parse_type(as_text(bytes.first(type_bytes)), value.column);
  bytes = bytes.subspan(type_bytes);
  value.column.path = as_text(bytes.first(path_bytes));
  value.bytes = bytes.subspan(path_bytes);
  if (!known || !can_be_late(value.column)) return bad("has an impossible type, shape or path");
  if (value.bytes.size() > value.column.row_bytes()) return bad("is wider than its column");
  auto& column = value.column;
  column = make_late_column(std::move(column.path), column.type, column.text_bytes, std::move(column.shape));
  return value;
}

std::uint64_t row_bytes_max(const std::vector<ColumnNode>& columns) {
  std::uint64_t bytes = row_head_bytes;
  for (const auto& column : columns) bytes += value_head_bytes + column.row_bytes();
  return bytes;
}

RowAppender::RowAppender(std::vector<std::byte>& rows, std::uint64_t frame) : rows_(rows), begin_(rows.size()) {
  rows_.resize(begin_ + row_head_bytes);
  store_le(rows_.data() + begin_, frame);
}

RowAppender::~RowAppender() {
  const auto bytes = rows_.size() - begin_ - row_head_bytes;
  if (bytes == 0)
    rows_.resize(begin_);
  else
    store_le(rows_.data() + begin_ + 8, static_cast<std::uint32_t>(bytes));
}

void RowAppender::add(std::uint16_t column, Bytes value) {
  PEN_INVARIANT(value.size() <= value_bytes_max);
  while (!value.empty() && value.back() == std::byte{0}) value = value.first(value.size() - 1);
  const auto at = rows_.size();
  rows_.resize(at + value_head_bytes);
  store_le(rows_.data() + at, column);
  store_le(rows_.data() + at + 2, static_cast<std::uint16_t>(value.size()));
  rows_.insert(rows_.end(), value.begin(), value.end());
}

void RowAppender::add_late(const LateValue& value) {
  const auto& column = value.column;
  PEN_INVARIANT(can_be_late(column));
  const auto type = type_text(column);
  std::vector<std::byte> bytes(late_head_bytes + 4 * column.shape.size());
  store_le(bytes.data(), static_cast<std::uint16_t>(column.path.size()));
  bytes[2] = static_cast<std::byte>(type.size());
  bytes[3] = static_cast<std::byte>(column.shape.size());
  bytes[4] = value.unfitting ? unfitting_flag : std::byte{0};
  for (std::size_t i = 0; i < column.shape.size(); ++i)
    store_le(bytes.data() + late_head_bytes + 4 * i, static_cast<std::uint32_t>(column.shape[i]));
  for (const std::string_view text : {std::string_view(type), std::string_view(column.path)}) {
    const auto more = std::as_bytes(std::span(text));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  bytes.insert(bytes.end(), value.bytes.begin(), value.bytes.end());
  add(late_column, bytes);
}

Result<std::optional<RowValue>> RowReader::next() {
  const auto short_of = [](std::string_view what, std::size_t wanted, std::size_t left) {
    return make_error(Errc::malformed, "{} has {} bytes, and {} are left", what, wanted, left);
  };
  while (of_frame_.empty()) {
    if (rest_.empty()) return std::optional<RowValue>();
    if (rest_.size() < row_head_bytes) return short_of("the head of a frame's values", row_head_bytes, rest_.size());
    frame_ = load_le<std::uint64_t>(rest_.data());
    const std::size_t bytes = load_le<std::uint32_t>(rest_.data() + 8);
    rest_ = rest_.subspan(row_head_bytes);
    if (bytes > rest_.size()) return short_of("a frame's values", bytes, rest_.size());
    of_frame_ = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
  }
  if (of_frame_.size() < value_head_bytes) return short_of("the head of a value", value_head_bytes, of_frame_.size());
  const auto column = load_le<std::uint16_t>(of_frame_.data());
  const std::size_t bytes = load_le<std::uint16_t>(of_frame_.data() + 2);
  of_frame_ = of_frame_.subspan(value_head_bytes);
  if (bytes > of_frame_.size()) return short_of("a value", bytes, of_frame_.size());
  const RowValue value{frame_, column, of_frame_.first(bytes)};
  of_frame_ = of_frame_.subspan(bytes);
  return std::optional(value);
}

}  // namespace penstock::store::format
