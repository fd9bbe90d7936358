/// Runs a detector's plan: makes the images, sends the series at its rate, reports the outcome.
#pragma once

#include <atomic>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "base/time/pacing.hpp"
#include "detector/events.hpp"
#include "detector/plan.hpp"

namespace penstock::detector {

struct JobContext {
  Env& env;
  PaceClock& clock;
  EventSink emit;
  /// Set from any thread to end the series early. A frame that a receiver holds back for more than
  /// two seconds after that is given up.
  const std::atomic<bool>& stop;
};

/// Events: "prepare" {what, done, total}, "waiting" {address, seconds, seconds_left, over} (every second without a
/// receiver), "series_start" when the start message was taken, "progress" (every 0.5 s), "series_end". An error where
/// the series could not be sent to its end or the receiver reports a problem; there was a "series_end" with that
/// problem if there was a "series_start".
Result<void> run_job(DetectorPlan plan, const JobContext& context);

}  // namespace penstock::detector
