#include "store/hdf5/late_columns.hpp"

#include <fmt/format.h>

#include <utility>

#include "store/hdf5/tree.hpp"
#include "store/hdf5/values.hpp"
#include "store/recovery/late_values.hpp"

namespace penstock::store::hdf5 {
namespace {

/// Whether `path` is free for a new object: neither a link is there, nor anything but a group above it that HDF5 could
/// tell. A dataset where a group is needed only shows when the object is made.
bool is_free(hid_t file, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (H5Lexists(file, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return true;
    if (end == std::string::npos) return false;
  }
}

/// A missing group becomes one of those whose content NeXus leaves to the writer.
Result<void> make_collection(hid_t file, const std::string& path) {
  const auto group = path.substr(0, path.rfind('/'));
  if (group.empty() || !is_free(file, group)) return {};
  PEN_TRY(make_group(file, group));
  const Attribute collection{"NX_class", std::string("NXcollection")};
  return write_attributes(file, group, std::span(&collection, 1));
}

bool is_same_type(const Handle& type, const ColumnNode& column) {
  if (column.text_bytes == 0) return H5Tequal(type.get(), type_of(column.type)) > 0;
  return H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0 &&
         H5Tget_size(type.get()) == column.text_bytes;
}

bool may_grow(const Handle& dataset) {
  const auto space = owned(H5Dget_space(dataset.get()), H5Sclose, "get a dataspace");
  hsize_t most[H5S_MAX_RANK] = {};
  return space.ok() && H5Sget_simple_extent_dims(space->get(), nullptr, most) > 0 && most[0] == H5S_UNLIMITED;
}

}  // namespace

/// Nothing where another object is there.
Result<std::optional<LateColumns::Column>> LateColumns::open_if_same(hid_t file, const ColumnNode& node) {
  const auto object = owned(H5Oopen(file, node.path.c_str(), H5P_DEFAULT), H5Oclose, "open an object");
  if (!object.ok() || H5Iget_type(object->get()) != H5I_DATASET) return std::optional<Column>();
  Column column{{node.path}};
  PEN_ASSIGN(column.dataset, open_column(file, node.path, column_chunk_bytes(late_columns_max)));
  PEN_ASSIGN(column.type, owned(H5Dget_type(column.dataset.get()), H5Tclose, "get a column's type"));
  if (!may_grow(column.dataset) || !is_same_type(column.type, node)) return std::optional<Column>();
  PEN_TRY(column.measure());
  if (!std::equal(column.dimensions.begin() + 1, column.dimensions.end(), node.shape.begin(), node.shape.end()))
    return std::optional<Column>();
  return std::optional(std::move(column));
}

Result<bool> LateColumns::prepare(hid_t file, const ColumnNode& node, std::uint64_t rows) {
  PEN_TRY(close());
  if (is_free(file, node.path)) {
    // Another kind of object may stand where a group is needed.
    if (!make_collection(file, node.path).ok() || !make_column(file, node, late_columns_max).ok()) return false;
  }
  PEN_ASSIGN(open_, open_if_same(file, node));
  if (!open_) return false;
  PEN_TRY(open_->grow(rows));
  return true;
}

Result<void> LateColumns::open(hid_t file, const ColumnNode& node) {
  if (open_ && open_->path == node.path) return {};
  PEN_TRY(close());
  PEN_ASSIGN(open_, open_if_same(file, node));
  return open_ ? Result<void>{} : make_error(Errc::internal, "{} is not a late column", node.path);
}

Result<void> LateColumns::put(hid_t file, const ColumnNode& node, std::uint64_t first, Bytes rows) {
  PEN_TRY(open(file, node));
  return write_rows(*open_, open_->type, {first}, rows.size() / node.row_bytes(), rows);
}

Result<void> LateColumns::close() {
  if (!open_) return {};
  auto closing = std::exchange(open_, std::nullopt);
  return closing->dataset.close() ? Result<void>{} : library_error(fmt::format("close {}", closing->path));
}

}  // namespace penstock::store::hdf5
