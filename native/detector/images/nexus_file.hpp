/// One frame as an HDF5 file of its own.
#pragma once

#include <string>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "frame/frame.hpp"
#include "frame/series.hpp"

namespace penstock::detector {

/// A NeXus file with the frame as the one chunk of /entry/data/data, bitshuffle-LZ4. `already_exists`
/// where a file of that name is there.
Result<void> write_nexus_file(Env& env, const Series& series, const Frame& frame, const std::string& path);

}  // namespace penstock::detector
