/// HDF5's way to the bytes of a file that is being examined: read-only, through `Env`, and able to
/// return the location of a chunk without reading it.
///
/// HDF5 1.10 finds the address of the n-th chunk by walking over all chunks before it. Reading a
/// chunk directly is a single look-up in the index, after which HDF5 asks its driver for the chunk's
/// bytes: this driver notes the address instead and reads nothing.
///
/// It reports an end of file far beyond the real one, so that a truncated file opens and what is left
/// of it can be seen; a read beyond the real end fails.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/files/env.hpp"
#include "base/result.hpp"

namespace penstock::store::hdf5 {

/// Where HDF5 wanted to read raw data. Belongs to one thread, as all of HDF5 does.
struct RawRead {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

struct ReadDriverState {
  std::shared_ptr<File> file;
  std::uint64_t size = 0;
  bool capturing = false;  ///< raw data is noted in `captured` and not read
  std::optional<RawRead> captured;
  std::optional<Error> storage_error;  ///< the first time that bytes which should be there could not be read
};

/// A file access list whose files are read through `state`, which outlives every such file.
/// The caller closes the list.
Result<hid_t> make_read_access(ReadDriverState& state);

}  // namespace penstock::store::hdf5
