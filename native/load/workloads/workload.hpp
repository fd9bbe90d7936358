/// The workloads, as run_load() starts them.
#pragma once

#include <memory>

#include "load/backends/backend.hpp"
#include "load/problem.hpp"
#include "load/run.hpp"

namespace penstock::load {

/// What a workload found out.
struct Measured {
  Json fields;      ///< of the document
  Problem problem;  ///< what ended it before its time
  bool left_behind = false;
};

Result<Measured> run_frames(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context);
Result<Measured> run_stream(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context);
/// An error where the back end has no names, or a folder of its plan is not there.
Result<Measured> run_metadata(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context);
Result<Measured> run_remove(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context);
Result<Measured> run_network(const LoadPlan& plan, const RunContext& context);
Result<Measured> run_network_server(const LoadPlan& plan, const RunContext& context);

}  // namespace penstock::load
