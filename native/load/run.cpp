#include "load/run.hpp"

#include <utility>

#include "base/clock.hpp"
#include "load/machine.hpp"
#include "load/workload.hpp"

namespace penstock::load {

Result<Outcome> run_load(const LoadPlan& plan, const RunContext& context) {
  const auto backend = make_backend(plan, context.env);
  const auto before = machine_counters();
  const auto started_ns = realtime_ns();
  const bool is_frames = std::holds_alternative<FramesPlan>(plan.workload);
  PEN_ASSIGN(auto measured, is_frames ? run_frames(plan, backend, context) : run_stream(plan, backend, context));
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
