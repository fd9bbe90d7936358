/// Counts the frames that an unfinished file's segments hold, by their records: reads no frame and no index.
#pragma once

#include "check/check.hpp"

namespace penstock::check {

/// The report's `recoverable` is absent of a finished file, or one without a description; `bytes` are those of the
/// chunks. A chunk that was not wholly written counts too.
Report count_frames(Env& env, const CheckPlan& plan, const Progress::Tell& tell,
                    const std::function<bool()>& cancelled);

}  // namespace penstock::check
