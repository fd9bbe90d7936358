/// Virtual datasets that show those frames that a value of theirs chose. Only for files in this folder.
///
/// HDF5 cannot change a virtual dataset, and must not create one while readers have the file open: they are empty until
/// the file is finished.
#pragma once

#include <string>
#include <vector>

#include "store/hdf5/columns.hpp"
#include "store/hdf5/handles.hpp"
#include "store/layout.hpp"

namespace penstock::store::hdf5 {

class Subsets {
 public:
  /// Of a layout that has some.
  explicit Subsets(const FileLayout& layout);

  /// All of them empty.
  Result<void> make(hid_t file) const;
  /// As the columns say, which are open and complete. May be repeated.
  Result<void> complete(hid_t file, Columns& columns) const;

 private:
  struct Found;

  Result<Found> find_frames(hid_t file, Columns& columns) const;

  FrameSubsets subsets_;
  ChunkedNode frames_;  ///< of which they show some
  std::vector<LinkNode> links_;
  std::vector<ColumnNode> columns_;
};

}  // namespace penstock::store::hdf5
