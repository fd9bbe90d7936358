/// The plan's back end of kind mpiio.
#pragma once

#include "base/fields.hpp"
#include "load/plan.hpp"

namespace penstock::load {

/// `sync` is read by whoever reads it for all kinds.
Result<MpiioPlan> read_mpiio(Fields& fields);
Json to_json(const MpiioPlan& plan, std::string_view sync);
/// What it allows only with some workloads.
Result<void> check_workload(const MpiioPlan& plan, const FramesPlan& frames);
Result<void> check_workload(const MpiioPlan& plan, const StreamPlan& stream);
template <typename Other>
Result<void> check_workload(const MpiioPlan&, const Other&) {
  return make_error(Errc::invalid_argument, "backend.kind is \"mpiio\", which this workload cannot use");
}

}  // namespace penstock::load
