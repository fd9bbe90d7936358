/// Files through HDF5 as it is: one dataset of bytes, /data, with a row for each file of the workload.
///
/// Compiled with the serial library for programs that run alone, and with a parallel one for the ranks of its MPI.
/// There all ranks may share one HDF5 file, with a row each; what changes its structure they do together, as HDF5
/// demands, and what they write and read independently or together. The library takes one call of a process at a time.
#pragma once

#include <memory>

#include "load/backends/backend.hpp"
#include "load/plan.hpp"
#include "load/team.hpp"

namespace penstock::load_hdf5 {

/// Of a plan whose back end is of kind hdf5. `unsupported` where a file is shared and this HDF5 is not parallel.
Result<std::shared_ptr<load::Backend>> make_hdf5_backend(const load::LoadPlan& plan, const load::Team& team, Env& env);

}  // namespace penstock::load_hdf5
