/// Files through MPI-IO; compiled once for each implementation of MPI, as native/job is.
///
/// Each rank has one thread that writes or reads, beside the job's own. A rank's file is either its own, or a part of
/// one that all ranks share: of that it has a block, then come the blocks of the other ranks, then its next one. Calls
/// are independent, or collective: then every rank makes the same calls in the same order, and agrees with the others
/// before each whether there is another one.
#pragma once

#include <memory>

#include "load/backends/backend.hpp"
#include "load/plan.hpp"
#include "load/team.hpp"

namespace penstock::load_mpi {

/// Of a plan whose back end is of kind mpiio. MPI has been joined, for calls from any thread.
Result<std::shared_ptr<load::Backend>> make_mpiio_backend(const load::LoadPlan& plan, const load::Team& team);

}  // namespace penstock::load_mpi
