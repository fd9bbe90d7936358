/// Writes one file a frame into a folder, as a detector's own server does.
#pragma once

#include <memory>
#include <string>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "detector/plan.hpp"
#include "stream/sender.hpp"

namespace penstock::detector {

/// A sender whose receipt counts files that are complete. A file that is there already is never
/// touched: `already_exists`, with its name. `env` outlives it.
Result<std::unique_ptr<stream::FrameSender>> open_file_sender(Env& env, const ToFiles& to);

}  // namespace penstock::detector
