/// Files of Penstock's own store: a chunk for each transfer, in one dataset of bytes, /data, a row each.
///
/// What is written goes the way of a recorder's frames: into segments, to storage past the page cache, and then into
/// HDF5's index. What is read is read by HDF5, as users do. One process; its threads may share a file.
#pragma once

#include <memory>

#include "load/backend.hpp"
#include "load/plan.hpp"

namespace penstock::load_hdf5 {

/// Of a plan whose back end is of kind store, and whose workload is a stream.
std::shared_ptr<load::Backend> make_store_backend(const load::LoadPlan& plan, Env& env);

}  // namespace penstock::load_hdf5
