/// Runs a plan: one plan in, one document out (docs/reference/load.md).
#pragma once

#include <atomic>
#include <functional>

#include "base/env.hpp"
#include "base/fields.hpp"
#include "base/result.hpp"
#include "load/plan.hpp"

namespace penstock::load {

struct RunContext {
  Env& env;
  /// Takes "progress" events, {phase, done, total, dropped, held, seconds}, a few a second. From one thread.
  std::function<void(std::string_view event, const Json& fields)> emit;
  /// Set from any thread to end the run early; what was measured by then is in the document.
  const std::atomic<bool>& stop;
};

struct Outcome {
  Json document;
  /// Threads hang in the storage still, and use what they were given: the program has to end without waiting for them.
  bool left_behind = false;
};

/// An error only where nothing could be measured; else what went wrong stands in the document.
Result<Outcome> run_load(const LoadPlan& plan, const RunContext& context);

}  // namespace penstock::load
