/// Lists the chunks that a dataset's index names, in one look-up each.
#pragma once

#include <hdf5.h>

#include "base/result.hpp"
#include "store/hdf5/read_driver.hpp"
#include "store/hdf5/reader.hpp"

namespace penstock::store::hdf5 {

/// Tells `visitor` every chunk of `dataset`, which was opened through the driver of `state`.
Result<void> read_index(hid_t dataset, const DatasetInfo& info, ReadDriverState& state, TreeVisitor& visitor);

}  // namespace penstock::store::hdf5
