#include "store/hdf5/growing.hpp"

namespace penstock::store::hdf5 {

Result<RowSelection> select_rows(const Growing& dataset, RowRun rows, std::uint64_t rows_count) {
  auto count = dataset.dimensions;
  count[0] = rows_count;
  std::vector<hsize_t> start(count.size(), 0), stride(count.size(), 1);
  start[0] = rows.first;
  stride[0] = rows.stride;
  RowSelection selection;
  PEN_ASSIGN(selection.in_memory, owned(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                                        H5Sclose, "make a dataspace"));
  PEN_ASSIGN(selection.in_file, owned(H5Dget_space(dataset.dataset.get()), H5Sclose, "get a dataspace"));
  PEN_TRY(done(
      H5Sselect_hyperslab(selection.in_file.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(), nullptr),
      "select rows"));
  return selection;
}

Result<void> write_rows(Growing& dataset, const Handle& type, RowRun rows, std::uint64_t count, Bytes data) {
  PEN_TRY(dataset.grow(rows.first + (count - 1) * rows.stride + 1));
  PEN_ASSIGN(const auto selection, select_rows(dataset, rows, count));
  return done(H5Dwrite(dataset.dataset.get(), type.get(), selection.in_memory.get(), selection.in_file.get(),
                       H5P_DEFAULT, data.data()),
              fmt::format("write rows of {}", dataset.path));
}

}  // namespace penstock::store::hdf5
