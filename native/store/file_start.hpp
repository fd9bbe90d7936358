/// What a file has before its HDF5 structures: the description of all that they will hold, and the large values.
#pragma once

#include <functional>

#include "base/files/env.hpp"
#include "store/format/segment.hpp"
#include "store/layout.hpp"
#include "store/seal.hpp"
#include "store/space/space.hpp"

namespace penstock::store {

struct FileStart {
  std::uint64_t description_address = 0;
  std::vector<Extent> headers;  ///< header regions, whose loss only a seal reveals
};

/// Writes the segment of large values and the description, in front of everything but HDF5's first structures.
/// Between the two `lay_out` gives frames their fixed places. The values that lie outside get their place in `layout`.
Result<FileStart> write_start(File& file, Space& space, const format::FileId& id, FileLayout& layout,
                              const std::function<void(FileLayout&)>& lay_out);

/// Writes the description once more, so that one that is damaged costs nothing. Returns where it is.
Result<Extent> write_description_again(File& file, Space& space, const format::FileId& id, const FileLayout& layout);

}  // namespace penstock::store
