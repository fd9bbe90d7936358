/// Files of Penstock's own store: a chunk for each transfer, in one dataset of bytes, /data, a row each.
///
/// What is written goes the way of a recorder's frames: into segments, to storage past the page cache, and then into
/// HDF5's index. What is read is read by HDF5, as users do. Threads may share a file, and so may those of several
/// ranks: the first of these has the index, and nobody waits for anybody until the file is complete.
#pragma once

#include <memory>

#include "load/backends/backend.hpp"
#include "load/plan.hpp"
#include "load/team.hpp"

namespace penstock::load_hdf5 {

/// Of a plan whose back end is of kind store, and whose workload is a stream. `team` and `env` outlive it.
std::shared_ptr<load::Backend> make_store_backend(const load::LoadPlan& plan, load::Team& team, Env& env);

}  // namespace penstock::load_hdf5
