/// Runs a plan: one plan in, one document out (docs/reference/load.md).
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/fields.hpp"
#include "base/files/env.hpp"
#include "base/result.hpp"
#include "load/backends/backend.hpp"
#include "load/made/made.hpp"
#include "load/plan.hpp"
#include "load/team.hpp"

namespace penstock::load {

struct RunContext {
  Env& env;
  /// Takes "progress" events, {phase, done, total, dropped, held, seconds}, a few a second. From one thread.
  std::function<void(std::string_view event, const Json& fields)> emit;
  /// Set from any thread to end the run early; what was measured by then is in the document.
  const std::atomic<bool>& stop;
  Team& team = no_team();
  /// Makes those back ends that not every program has; null where it has none of them.
  std::function<Result<std::shared_ptr<Backend>>(const LoadPlan& plan, const RunContext& context)> make_other = nullptr;
  /// What the run creates. It is complete when run_load() returns, whatever that returns.
  std::shared_ptr<Made> made = std::make_shared<Made>();
};

struct Outcome {
  Json document;
  /// Threads hang in the storage still, and use what they were given: the program has to end without waiting for them.
  bool left_behind = false;
};

/// An error only where nothing could be measured; else what went wrong stands in the document.
Result<Outcome> run_load(const LoadPlan& plan, const RunContext& context);

/// The same by the ranks of a job, each of which calls it, with its share of the plan. `context.team` is `team`. The
/// lead's outcome has the document of all ranks; that of the others is null. Where ranks do not answer any more it has
/// what the others reported, and `left_behind` says that this process has to end without the job. "partial" events have
/// such a document as soon as the run is to end and a rank has not reported its part. A "made" event of the lead has
/// what all ranks created, or null if one of them has not reported.
Result<Outcome> run_together(const LoadPlan& plan, const RunContext& context, JobTeam& team);

}  // namespace penstock::load
