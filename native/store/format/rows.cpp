#include "store/format/rows.hpp"

#include "base/invariant.hpp"

namespace penstock::store::format {

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
