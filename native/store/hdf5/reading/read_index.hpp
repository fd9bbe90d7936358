/// Lists the chunks that a dataset's index names, in one look-up for each place.
#pragma once

#include <hdf5.h>

#include "base/result.hpp"
#include "store/hdf5/reading/read_driver.hpp"
#include "store/hdf5/reading/reader.hpp"

namespace penstock::store::hdf5 {

/// Tells `visitor` every chunk of `dataset`, which was opened through the driver of `state`, and nothing now and then
/// while there is none, as a sign of life. Returns one past the number of the last chunk. `too_large` where the chunks
/// are too few for all the places between them. `blocks`: ReadTreeOptions::index_blocks.
Result<std::uint64_t> read_index(hid_t dataset, const DatasetInfo& info, ReadDriverState& state, bool blocks,
                                 TreeVisitor& visitor);

}  // namespace penstock::store::hdf5
