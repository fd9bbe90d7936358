/// A dataset that grows in its first dimension. Only for files in this folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/hdf5/handles.hpp"
#include "store/store.hpp"

namespace penstock::store::hdf5 {

struct Growing {
  std::string path;
  std::vector<hsize_t> dimensions = {};
  Handle dataset = {};

  Result<void> measure() {
    PEN_ASSIGN(const auto space, owned(H5Dget_space(dataset.get()), H5Sclose, "get a dataspace"));
    dimensions.resize(H5S_MAX_RANK);
    const int rank = H5Sget_simple_extent_dims(space.get(), dimensions.data(), nullptr);
    if (rank < 1) return make_error(Errc::malformed, "{} has no rows", path);
    dimensions.resize(static_cast<std::size_t>(rank));
    return {};
  }

  Result<void> grow(std::uint64_t rows) {
    if (rows <= dimensions[0]) return {};
    auto wanted = dimensions;
    wanted[0] = rows;
    PEN_TRY(done(H5Dset_extent(dataset.get(), wanted.data()), fmt::format("give {} {} rows", path, rows)));
    dimensions = std::move(wanted);
    return {};
  }
};

/// Of rows in a file, and of as many in memory.
struct RowSelection {
  Handle in_memory;
  Handle in_file;
};

/// Rows may be arrays, of which each is taken as a whole.
Result<RowSelection> select_rows(const Growing& dataset, RowRun rows, std::uint64_t count);
/// Writes `count` rows in the dataset's type, which is open, and lengthens it where they lie behind its end.
Result<void> write_rows(Growing& dataset, const Handle& type, RowRun rows, std::uint64_t count, Bytes data);

}  // namespace penstock::store::hdf5
