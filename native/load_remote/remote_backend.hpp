/// Files on a server, by the server's own protocol (docs/explanation/decisions/0053-storage-by-protocol.md).
#pragma once

#include <memory>

#include "load/backends/backend.hpp"
#include "load/plan.hpp"

namespace penstock::load_remote {

/// Of a plan whose back end is of kind remote. `invalid_argument` for a URL that no protocol here reads.
Result<std::shared_ptr<load::Backend>> make_remote_backend(const load::LoadPlan& plan);

}  // namespace penstock::load_remote
