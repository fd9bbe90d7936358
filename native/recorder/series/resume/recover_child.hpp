/// penstock-recover as a child of this process: what HDF5 makes of a damaged file stays its own trouble, and starting
/// a program is safe where forking among many threads is not.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace penstock::recorder {

/// Runs the program that stands beside this one with `plan`, and waits for its report. What it fails with is the
/// error; its log goes where this process' log goes. Safe from several threads.
Result<nlohmann::json> run_recover_child(const nlohmann::json& plan);

}  // namespace penstock::recorder
