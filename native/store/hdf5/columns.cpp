#include "store/hdf5/columns.hpp"

#include <algorithm>
#include <utility>

#include "store/hdf5/tree.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr std::uint64_t rows_max = std::uint64_t{1} << 40;
/// Of chunk caches, of all columns of a file.
constexpr std::uint64_t caches_bytes_max = 16 << 20;
/// What HDF5 1.10 was measured to take for an open dataset, without its chunk cache.
constexpr std::uint64_t dataset_bytes = 20 << 10;

}  // namespace

void Columns::add(const ColumnNode& node) { columns_.push_back({{node.path}, node.row_bytes()}); }

/// For the chunks that are being filled, as far as all columns together may have some.
std::uint64_t Columns::cache_bytes() const {
  const std::uint64_t chunk = column_chunk_bytes(columns_.size());
  return std::clamp(caches_bytes_max / columns_.size(), chunk, 4 * chunk);
}

Result<void> Columns::open(hid_t file, Column& column, std::uint64_t cache_bytes) {
  PEN_ASSIGN(column.dataset, open_column(file, column.path, cache_bytes));
  PEN_ASSIGN(column.type, owned(H5Dget_type(column.dataset.get()), H5Tclose, "get a column's type"));
  return {};
}

Result<void> Columns::close(Column& column) {
  (void)column.type.close();
  return column.dataset.close() ? Result<void>{} : library_error(fmt::format("close {}", column.path));
}

Result<void> Columns::open(hid_t file, std::uint64_t rows) {
  if (columns_.empty()) return {};
  const bool stay = memory_.take(columns_.size() * (dataset_bytes + cache_bytes()));
  for (auto& column : columns_) {
    PEN_TRY(open(file, column, stay ? cache_bytes() : 0));
    PEN_TRY(column.measure());
    PEN_TRY(column.grow(rows));
    if (!stay) PEN_TRY(close(column));
  }
  return {};
}

void Columns::close() {
  for (auto& column : columns_) (void)close(column);
  memory_.give_back();
}

Result<Columns::Column*> Columns::find(ColumnId column) {
  const auto position = static_cast<std::size_t>(column);
  if (position >= columns_.size())
    return make_error(Errc::invalid_argument, "column {} of {}", position, columns_.size());
  return &columns_[position];
}

Result<void> Columns::put(hid_t file, ColumnId column_id, RowRun rows, Bytes data) {
  PEN_ASSIGN(auto* const found, find(column_id));
  auto& column = *found;
  const auto count = data.size() / column.row_bytes;
  if (data.size() % column.row_bytes != 0 || rows.first > rows_max || rows.stride == 0 ||
      rows.stride > rows_max / std::max<hsize_t>(count, 1))
    return make_error(Errc::invalid_argument, "{} bytes for every {}th row from {} of {}", data.size(), rows.stride,
                      rows.first, column.path);
  if (count == 0) return {};
  if (column.dataset) return write_rows(column, column.type, rows, count, data);
  // Without a cache HDF5 writes only these rows, and rows that are apart one by one.
  PEN_TRY(open(file, column, rows.stride > 1 ? column_chunk_bytes(columns_.size()) : 0));
  auto written = write_rows(column, column.type, rows, count, data);
  auto closed = close(column);
  PEN_TRY(written);
  return closed;
}

Result<std::optional<std::vector<std::byte>>> Columns::row(hid_t file, ColumnId column_id, std::uint64_t number) {
  PEN_ASSIGN(auto bytes, rows(file, column_id, number, 1));
  return bytes.empty() ? std::nullopt : std::optional(std::move(bytes));
}

Result<std::vector<std::byte>> Columns::rows(hid_t file, ColumnId column_id, std::uint64_t first, std::uint64_t count) {
  PEN_ASSIGN(auto* const column, find(column_id));
  const std::uint64_t length = column->dimensions[0];
  if (first >= length || count == 0) return std::vector<std::byte>();
  const bool is_open = static_cast<bool>(column->dataset);
  if (!is_open) PEN_TRY(open(file, *column, 0));
  auto bytes = read(*column, first, std::min(count, length - first));
  if (!is_open) PEN_TRY(close(*column));
  return bytes;
}

Result<std::vector<std::byte>> Columns::read(const Column& column, std::uint64_t first, std::uint64_t count) {
  PEN_ASSIGN(const auto selection, select_rows(column, {first}, count));
  std::vector<std::byte> bytes(count * column.row_bytes);
  PEN_TRY(done(H5Dread(column.dataset.get(), column.type.get(), selection.in_memory.get(), selection.in_file.get(),
                       H5P_DEFAULT, bytes.data()),
               fmt::format("read rows of {}", column.path)));
  return bytes;
}

}  // namespace penstock::store::hdf5
