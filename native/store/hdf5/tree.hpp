/// Creates the tree of a FileLayout, with its chunked datasets and columns empty. Only for files in
/// this folder.
#pragma once

#include "store/hdf5/driver.hpp"
#include "store/hdf5/handles.hpp"
#include "store/layout.hpp"

namespace penstock::store::hdf5 {

/// Maximum number of rows in a chunk of a column, fewer of long text, and fewer where a file has many columns: the
/// chunk that each of them is filling is in memory.
constexpr hsize_t column_chunk_rows = 4096;
constexpr std::size_t column_chunk_bytes(std::size_t columns) {
  return column_chunk_rows * sizeof(double) / (columns > 512 ? 4 : columns > 256 ? 2 : 1);
}

/// `context` is that of the file's driver: large values lie at the address that their node has.
Result<void> make_tree(hid_t file, const FileLayout& layout, DriverContext& context);
Result<void> make_chunked(hid_t file, const ChunkedNode& node);
/// Makes a column without rows, of a file that has so many columns.
Result<void> make_column(hid_t file, const ColumnNode& node, std::size_t columns);
/// Sets the fill value of a dataset to be made; an empty one is 0.
Result<void> declare_fill(hid_t properties, ElementType type, const std::vector<std::byte>& fill);

/// Opens one of the layout's chunked datasets for its index alone: no chunk cache.
Result<Handle> open_chunked(hid_t file, const std::string& path);
/// Opens a column with a cache for the chunks that are being filled.
Result<Handle> open_column(hid_t file, const std::string& path, std::size_t cache_bytes);

}  // namespace penstock::store::hdf5
