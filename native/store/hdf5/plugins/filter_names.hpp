/// Names of HDF5's filters, for the datasets that this process makes.
#pragma once

#include "base/result.hpp"

namespace penstock::store::hdf5 {

/// Has the name of the filter written with each dataset that declares it from now on: some readers crash on filters
/// without one (HDF5 1.10.8's h5repack). To the library the filter is one that leaves the declared parameters as they
/// are and can neither compress nor expand; chunks go to the file, and come from it, past it. Once for each filter.
Result<void> name_filter(int id);

}  // namespace penstock::store::hdf5
