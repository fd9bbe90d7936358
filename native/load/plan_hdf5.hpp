/// The plan's back end of kind hdf5.
#pragma once

#include "base/fields.hpp"
#include "load/plan.hpp"

namespace penstock::load {

/// `sync` is read by whoever reads it for all kinds.
Result<Hdf5Plan> read_hdf5(Fields& fields);
Json to_json(const Hdf5Plan& plan, std::string_view sync);
/// What it allows only with some workloads.
Result<void> check_workload(const Hdf5Plan& plan, const StreamPlan& stream);
template <typename Other>
Result<void> check_workload(const Hdf5Plan&, const Other&) {
  return make_error(Errc::invalid_argument, "backend.kind is \"hdf5\", which this workload cannot use");
}

}  // namespace penstock::load
