/// HDF5's index of the chunks of a dataset that grows along its first dimension, read without HDF5: an extensible array
/// (HDF5 File Format Specification 3.0, VII.D, "The Extensible Array Index").
///
/// HDF5 1.10 returns the location of one chunk per call; here whole blocks are read. The results are those of the file,
/// without the blocks' checksums: the caller compares it with what HDF5 itself finds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/files/env.hpp"
#include "store/hdf5/reading/reader.hpp"

namespace penstock::store::hdf5 {

/// The chunks of the dataset whose object header stands at `header`, by rising number, also those beyond its extent.
/// Nothing where anything is not as this reader knows it, where a block does not lie in the file, or where there are
/// more than `chunks_max`. Memory: 24 bytes a chunk, and a block of at most 8 MiB.
std::optional<std::vector<IndexedChunk>> read_extensible_array(File& file, std::uint64_t file_bytes,
                                                               std::uint64_t header, const DatasetInfo& info,
                                                               std::uint64_t chunks_max);

}  // namespace penstock::store::hdf5
