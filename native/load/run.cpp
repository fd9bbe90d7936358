#include "load/run.hpp"

#include <utility>

#include "base/clock.hpp"
#include "load/machine.hpp"
#include "load/workload.hpp"

namespace penstock::load {
namespace {

Result<Measured> run_workload(const LoadPlan& plan, const std::shared_ptr<Backend>& backend,
                              const RunContext& context) {
  if (std::holds_alternative<FramesPlan>(plan.workload)) return run_frames(plan, backend, context);
  if (std::holds_alternative<StreamPlan>(plan.workload)) return run_stream(plan, backend, context);
  if (std::holds_alternative<NetworkPlan>(plan.workload)) return run_network(plan, context);
  return run_network_server(plan, context);
}

}  // namespace

Result<Outcome> run_load(const LoadPlan& plan, const RunContext& context) {
  const auto backend = make_backend(plan, context.env);
  const auto before = machine_counters();
  const auto started_ns = realtime_ns();
  PEN_ASSIGN(auto measured, run_workload(plan, backend, context));
  Json document = {{"format", "penstock-load 1"},
                   {"plan", plan.to_json()},
                   {"started", iso_time(started_ns)},
                   {"interrupted", context.stop.load()},
                   {"problem", measured.problem.empty() ? Json() : Json(measured.problem)},
                   {"storage", backend->describe()},
                   {"machine", {{"before", before}, {"after", machine_counters()}}}};
  document.update(measured.fields);
  return Outcome{std::move(document), measured.left_behind};
}

}  // namespace penstock::load
